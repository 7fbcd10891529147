import { setImmediate as nextTurn } from "node:timers/promises";
import {
  type RunRow,
  RUNS,
  type TriggerSource,
  RUN_ASSETS,
  type RunAssetRow,
  type TaskRow,
  TASK_BLOCKS,
  type TaskBlockRow,
} from "../../work/run/rows.ts";
import type { Condition, Key } from "../../kernel/table.ts";
import type { Reader } from "../../store/store.ts";
import { type Call, readAt, type Reply, type Handlers, submitted } from "../http/call.ts";
import {
  cursorOf,
  keyOfCursor,
  listRows,
  PAGE_LENGTH_MAX,
  withinTime,
} from "../http/read-within.ts";
import { cancelRun, runNotFound } from "../../work/run/cancel.ts";
import { requestRun, type RunRequestResult } from "../../work/run/request.ts";
import { blockOfTask, isDeferred, tasksIn } from "../../work/run/task-blocks.ts";
import { lackText } from "../../work/requires/demands.ts";
import { keysOfTask } from "../../work/run/tasks.ts";
import type { TaskDocument } from "../../work/run/api.ts";
import { PawlError, present } from "../../kernel/errors.ts";
import { refoldRun } from "../../engine/ledger/refold.ts";
import { claimedLately } from "../look-ups.ts";

/** Runs whose documents one page looks through for those of an asset or a trigger. */
const LOOKS_MAX = 10_000;

/** Runs that are read, and positions that are searched, between two turns of the process. */
const PAGE_LOOKS = 100;
const PAGE_POSITIONS = 100_000;

type Query = Call<"listRuns">["query"];

/** What asked for a run, in the word of the filter. */
export function triggerOf(source: TriggerSource): NonNullable<Query["trigger"]>[number] {
  return source.type === "shards" ? source.work.work : source.type;
}

/** A page of runs, newest first; one by asset or trigger may be short and still have a next. */
export function listRuns(call: Call<"listRuns">): Promise<Reply> {
  const where = conditionsOf(call.query);
  if (hasIndex(call.query)) {
    const list = { table: RUNS, where, along: ["run_pos"], descending: true } as const;
    return listRows(call, list, (rows) => rows);
  }
  return readAt(call, async (reader) => {
    const { pos } = await reader.head();
    const { items, next } = await lookThrough(reader, where, call, pos);
    const next_cursor = next === null ? null : cursorOf([next]);
    return { answer: { items, next_cursor, pos }, pos };
  });
}

/** All runs in order, and those that have not ended, are found without reading others. */
function hasIndex({ status, backfill_id, asset, trigger, since, until }: Query): boolean {
  const others = [backfill_id, asset, trigger, since, until];
  const isOpen = status?.every((state) => state === "PENDING" || state === "RUNNING") ?? true;
  return isOpen && others.every((filter) => filter === undefined);
}

function conditionsOf({ status, backfill_id, trigger, since, until }: Query): Condition[] {
  const where = withinTime("requested_at", { since, until });
  if (status !== undefined) where.push({ cell: "state", is: "in", values: status });
  if (backfill_id !== undefined) where.push({ cell: "backfill_id", is: "=", value: backfill_id });
  // Most runs are those of backfills: who looks for others need not have them parsed.
  if (trigger !== undefined && !trigger.includes("backfill")) {
    where.push({ cell: "backfill_id", is: "null" });
  }
  return where;
}

/**
 * Looks for runs among all, a stretch of the ledger at a time, so that others are served meanwhile.
 * Assets and triggers are in the documents only, so that reading them is what a page may do least of.
 */
async function lookThrough(
  reader: Reader,
  where: readonly Condition[],
  { query, signal }: Pick<Call<"listRuns">, "query" | "signal">,
  head: number,
): Promise<{ items: RunRow[]; next: number | null }> {
  const { limit, cursor } = query;
  const order = [{ cell: "run_pos", descending: true }];
  const items: RunRow[] = [];
  const place = cursor === undefined ? head + 1 : Number(keyOfCursor(cursor, ["int"])[0]);
  // There is nothing to look through beyond the head, however far a cursor claims to be.
  let before = Math.min(place, head + 1);
  let length = 0;
  for (let looked = 0; before > 0 && !signal().aborted; ) {
    const from = Math.max(0, before - PAGE_POSITIONS);
    const within: Condition[] = [
      { cell: "run_pos", is: "<", value: before },
      { cell: "run_pos", is: ">=", value: from },
    ];
    const find = { table: RUNS, where: [...where, ...within], order, limit: PAGE_LOOKS };
    const found = await reader.find(find);
    for (const run of found) {
      if (!matches(run, query)) continue;
      length += JSON.stringify(run).length;
      const isFull = items.length === limit || (items.length > 0 && length > PAGE_LENGTH_MAX);
      if (isFull) return { items, next: items.at(-1)?.run_pos ?? null };
      items.push(run);
    }
    before = found.length < PAGE_LOOKS ? from : (found.at(-1)?.run_pos ?? from);
    looked += found.length;
    if (looked >= LOOKS_MAX) return { items, next: before };
    await nextTurn();
  }
  return { items, next: null };
}

function matches(run: RunRow, { asset, trigger }: Query): boolean {
  if (trigger !== undefined && !trigger.includes(triggerOf(run.trigger_source_ref))) return false;
  return asset === undefined || run.asset_selection.includes(asset);
}

/** The run, or the refusal that there is none. */
export async function findRun(reader: Reader, runId: string): Promise<RunRow> {
  const where: Condition[] = [{ cell: "run_id", is: "=", value: runId }];
  const [run] = await reader.find({ table: RUNS, where, order: [], limit: 1 });
  if (run !== undefined) return run;
  throw runNotFound(runId);
}

/** Blocks of tasks that are read at once: what is wanted of a run is mostly in the first of them. */
const BLOCKS_READ = 20;

/** The blocks of tasks of a run that goes on, from the one that a task is in; others have their turn in between. */
export async function* taskBlocksFrom(
  reader: Reader,
  { run_pos }: RunRow,
  taskKey: number,
): AsyncGenerator<TaskBlockRow> {
  let first = blockOfTask(taskKey);
  for (;;) {
    const where: Condition[] = [
      { cell: "run_pos", is: "=", value: run_pos },
      { cell: "block", is: ">=", value: first },
    ];
    const order = [{ cell: "block" }];
    const page = await reader.find({ table: TASK_BLOCKS, where, order, limit: BLOCKS_READ });
    yield* page;
    const last = page.at(-1);
    if (last === undefined || page.length < BLOCKS_READ) return;
    first = last.block + 1;
    await nextTurn();
  }
}

type TaskPage = { assets: RunAssetRow[]; tasks: TaskRow[] };

/** Tasks of a run that goes on: they have rows. */
async function openTasks(
  reader: Reader,
  run: RunRow,
  after: number,
  status: readonly string[] | undefined,
  limit: number,
): Promise<TaskPage> {
  const keys = run.asset_selection.map((_, index): Key => [run.run_pos, index]);
  const assets = await reader.load(RUN_ASSETS, keys);
  const tasks: TaskRow[] = [];
  for await (const block of taskBlocksFrom(reader, run, after + 1)) {
    for (const task of tasksIn(block)) {
      if (task.task_key > after && (status?.includes(task.state) ?? true)) tasks.push(task);
    }
    if (tasks.length >= limit) break;
  }
  return { assets, tasks: tasks.slice(0, limit) };
}

/** Tasks of a run that has ended: only its events are left. */
async function endedTasks(
  reader: Reader,
  run: RunRow,
  after: number,
  status: readonly string[] | undefined,
  limit: number,
): Promise<TaskPage> {
  const { assets, tasks } = await refoldRun(reader, run);
  const matching = tasks.filter(
    ({ task_key, state }) => task_key > after && (status?.includes(state) ?? true),
  );
  return { assets, tasks: matching.slice(0, limit) };
}

/** The tasks of a run after a number, from its rows or, when it has ended, from its events. */
export function tasksAfter(
  reader: Reader,
  run: RunRow,
  after: number,
  status: readonly string[] | undefined,
  limit: number,
): Promise<TaskPage> {
  const read = run.finished_at === null ? openTasks : endedTasks;
  return read(reader, run, after, status, limit);
}

async function listTasks(call: Call<"listTasks">): Promise<Reply> {
  const { limit, cursor, status } = call.query;
  const after = cursor === undefined ? -1 : Number(keyOfCursor(cursor, ["int"])[0]);
  return readAt(call, async (reader) => {
    const run = await findRun(reader, call.params.run_id);
    const { assets, tasks } = await tasksAfter(reader, run, after, status, limit + 1);
    const page = tasks.slice(0, limit);
    const last = tasks.length > limit ? page.at(-1) : undefined;
    const { pos } = await reader.head();
    const claimed = claimedLately(call.engine, call.server.now());
    const answer = {
      items: await taskDocuments(reader, run, assets, page, claimed),
      next_cursor: last === undefined ? null : cursorOf([last.task_key]),
      pos,
    };
    return { answer, pos };
  });
}

/** Tasks as the API shows them. */
export async function taskDocuments(
  reader: Reader,
  run: RunRow,
  assets: readonly RunAssetRow[],
  tasks: readonly TaskRow[],
  claimed: ReadonlySet<string>,
): Promise<TaskDocument[]> {
  const assetAt = new Map(assets.map((asset) => [asset.asset_index, asset]));
  const progress = new Map((await reader.progress(run.run_pos)).map((row) => [row.task_key, row]));
  return tasks.map((task) => {
    const asset = present(assetAt.get(task.asset_index), "a task's asset is the run's");
    const said = progress.get(task.task_key);
    const isCurrent = said !== undefined && said.attempt === task.attempt;
    const { waits: _waits, ...row } = task;
    return {
      ...row,
      retry_at: isDeferred(task) ? null : task.retry_at,
      error: task.state === "RUNNING" ? null : task.error,
      run_id: run.run_id,
      asset_key: asset.asset_key,
      partition_keys: run.partition_keys === null ? [] : keysOfTask(run, asset, task),
      progress: isCurrent
        ? { done: said.done, total: said.total, note: said.note, at: said.at }
        : null,
      waits_for: waitsFor(task),
      lacks_worker: task.state === "READY" && !claimed.has(asset.asset_key),
    } as TaskDocument;
  });
}

function waitsFor(task: TaskRow): TaskDocument["waits_for"] {
  if (!isDeferred(task)) return null;
  const { pos: _pos, ...waits } = task.waits;
  return { ...waits, message: `waits for ${lackText(waits)}` };
}

const REQUEST_MESSAGES = {
  created: "The run was requested.",
  existing: "An equal request had made this run already.",
  conflict:
    "Another request made the run of this key, which is the one answered: the conflict was " +
    "recorded, and no run was made.",
} as const;

/** The refusal of a request under the run key of another, with both fingerprints and the run there is. */
function runKeyConflict(result: RunRequestResult): PawlError {
  const { run_key, run_id, existing_fingerprint, request_fingerprint, existing_run } = result;
  return new PawlError(
    "RUN_KEY_CONFLICT",
    `The run key ${JSON.stringify(run_key)} belongs to another request, which made ${run_id}: the ` +
      "conflict was recorded, and no run was made. Use another run key, or ask for the existing " +
      'run with `on_conflict: "existing"`.',
    { details: { run_key, run_id, existing_fingerprint, request_fingerprint, existing_run } },
  );
}

/** What can be done with runs. */
export const RUN_HANDLERS = {
  listRuns,
  requestRun: (call) => {
    const { on_conflict, ...wish } = call.body;
    const request_id = wish.request_id ?? call.idempotency?.key ?? "";
    return submitted(
      call,
      requestRun({ ...wish, request_id }),
      ({ run_id, run_key, outcome, request_fingerprint, existing_fingerprint }) => ({
        message: REQUEST_MESSAGES[outcome],
        run_id,
        run_key,
        outcome,
        request_fingerprint,
        existing_fingerprint,
      }),
      (result) =>
        result.outcome === "conflict" && on_conflict === "refuse" ? runKeyConflict(result) : null,
    );
  },
  getRun: (call) =>
    readAt(call, async (reader) => {
      const answer = await findRun(reader, call.params.run_id);
      return { answer, pos: (await reader.head()).pos };
    }),
  listTasks,
  cancelRun: (call) =>
    submitted(call, cancelRun({ ...call.body, run_id: call.params.run_id }), (result) => ({
      message: "The run is being cancelled.",
      ...result,
    })),
} satisfies Handlers;
