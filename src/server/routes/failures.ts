import { setImmediate as nextTurn } from "node:timers/promises";
import { keysOfTask } from "../../controllers/run-lookup.ts";
import type { FailureGroup, FailureGroups } from "../../core/api/chunk-map-documents.ts";
import { failurePattern } from "../../core/failure-pattern.ts";
import { type BackfillRow, CHUNKS } from "../../core/rows/backfill-rows.ts";
import { type RunRow, RUNS } from "../../core/rows/run-rows.ts";
import type { Condition } from "../../core/rows/table.ts";
import type { Engine } from "../../engine/engine.ts";
import { refoldRun } from "../../engine/refold-run.ts";
import type { Reader } from "../../store/store.ts";
import { type Call, type Handler, readAt, type Reply } from "../call.ts";
import { findBackfill } from "./backfills.ts";

/** Failed runs that are looked at for one request. */
const RUNS_MAX = 10_000;

/** Rows that are read between two turns of the process, and partitions in them. */
const PAGE_ROWS = 200;
const PAGE_PARTITIONS = 50_000;

/** Kinds of failure that one answer lists. */
const GROUPS_MAX = 100;

/** Kinds of failure, the most frequent first, whose example is followed down to its task. */
const EXAMPLES_MAX = 10;

/** Tasks of a run beyond which its events are not read for an example. */
const EXAMPLE_TASKS_MAX = 500;

/** Backfills whose failures are kept in memory. */
const KEPT_MAX = 50;

/** Partition keys of a run that are looked for in its message. */
const KEYS_MAX = 1_000;

type Group = FailureGroup & { newest: RunRow };

/** The runs of the failed chunks, a page at a time; what failed in a split chunk is in its tiles. */
async function* failedRuns(reader: Reader, backfill: BackfillRow): AsyncGenerator<RunRow[]> {
  const limit = Math.min(PAGE_ROWS, Math.ceil(PAGE_PARTITIONS / backfill.chunk_size));
  let after = -1;
  for (let seen = 0; seen < RUNS_MAX; seen += limit) {
    const where: Condition[] = [
      { cell: "backfill_id", is: "=", value: backfill.backfill_id },
      { cell: "state", is: "=", value: "FAILED" },
      { cell: "chunk_index", is: ">", value: after },
    ];
    const order = [{ cell: "chunk_index" }];
    const find = { table: CHUNKS, where, order, limit };
    const chunks = await reader.findCells(find, ["chunk_index", "run_pos"]);
    const places = chunks.flatMap(([, runPos]) => (runPos === null ? [] : [[runPos as number]]));
    yield (await reader.load(RUNS, places)) as RunRow[];
    if (chunks.length < limit) return;
    after = chunks.at(-1)?.[0] as number;
    await nextTurn();
  }
}

function addRun(groups: Map<string, Group>, run: RunRow): void {
  const error = run.first_error ?? { class: "unknown", message: "" };
  const pattern = failurePattern(error.message, run.partition_keys?.slice(0, KEYS_MAX) ?? []);
  const name = `${error.class}\n${pattern}`;
  const at = run.finished_at ?? run.requested_at;
  const group = groups.get(name) ?? {
    error_class: error.class,
    message: error.message,
    pattern,
    runs: 0,
    tasks: 0,
    first_at: at,
    last_at: at,
    example: exampleOf(run),
    newest: run,
  };
  groups.set(name, group);
  group.runs += 1;
  group.tasks += run.tasks_failed;
  if (at < group.first_at) group.first_at = at;
  if (at >= group.last_at) {
    const newest = { last_at: at, message: error.message, example: exampleOf(run), newest: run };
    Object.assign(group, newest);
  }
}

function exampleOf(run: RunRow): FailureGroup["example"] {
  const whole = { task_key: null, asset_key: null, partition_key: null };
  return { run_id: run.run_id, chunk_index: run.chunk_index ?? 0, ...whole };
}

/** The first task of the run that failed as the run says it did. */
async function exampleTask(reader: Reader, run: RunRow): Promise<Partial<FailureGroup["example"]>> {
  if (run.tasks_total > EXAMPLE_TASKS_MAX) return {};
  const { assets, tasks } = await refoldRun(reader, run);
  const failed = tasks.filter(({ state }) => state === "FAILED");
  const { message } = run.first_error ?? { message: "" };
  const task = failed.find(({ error }) => error?.message === message) ?? failed[0];
  const asset = task && assets[task.asset_index];
  if (task === undefined || asset === undefined) return {};
  const keys = run.partition_keys === null ? [] : keysOfTask(run, asset, task);
  const partition_key = keys.length === 1 ? (keys[0] ?? null) : null;
  return { task_key: task.task_key, asset_key: asset.asset_key, partition_key };
}

type Found = Pick<FailureGroups, "items" | "complete">;

async function findFailures(reader: Reader, backfill: BackfillRow): Promise<Found> {
  const groups = new Map<string, Group>();
  for await (const runs of failedRuns(reader, backfill)) {
    for (const run of runs) addRun(groups, run);
  }
  const sorted = [...groups.values()].toSorted((one, other) => other.runs - one.runs);
  const items: FailureGroup[] = [];
  for (const [place, { newest, ...group }] of sorted.slice(0, GROUPS_MAX).entries()) {
    const task = place < EXAMPLES_MAX ? await exampleTask(reader, newest) : {};
    items.push({ ...group, example: { ...group.example, ...task } });
    if (place < EXAMPLES_MAX) await nextTurn();
  }
  const complete = backfill.chunks_failed <= RUNS_MAX && sorted.length <= GROUPS_MAX;
  return { items, complete };
}

/** What was found before, by backfill, and for how many failed chunks. */
const foundOf = new WeakMap<Engine, Map<string, Found & { chunks_failed: number }>>();

/** A failed chunk stays as it is, so as long as there are no more of them nothing is looked up. */
async function knownFailures(
  engine: Engine,
  reader: Reader,
  backfill: BackfillRow,
): Promise<Found> {
  const { backfill_id, chunks_failed } = backfill;
  if (chunks_failed === 0) return { items: [], complete: true };
  const known = foundOf.get(engine) ?? new Map<string, Found & { chunks_failed: number }>();
  foundOf.set(engine, known);
  const before = known.get(backfill_id);
  if (before?.chunks_failed === chunks_failed) return before;
  const found = await findFailures(reader, backfill);
  if (known.size >= KEPT_MAX) known.clear();
  known.set(backfill_id, { ...found, chunks_failed });
  return found;
}

async function listFailures(call: Call<"listFailures">): Promise<Reply> {
  return readAt(call, async (reader) => {
    const { pos } = await reader.head();
    const backfill = await findBackfill(reader, call.params.backfill_id);
    const { items, complete } = await knownFailures(call.engine, reader, backfill);
    const answer: FailureGroups = { backfill_id: backfill.backfill_id, items, complete, pos };
    return { answer, pos };
  });
}

/** What shows why a backfill fails. */
export const FAILURE_HANDLERS: { listFailures: Handler<"listFailures"> } = { listFailures };
