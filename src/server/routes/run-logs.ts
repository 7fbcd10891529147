import { setImmediate as nextTurn } from "node:timers/promises";
import { PawlError, present } from "../../kernel/errors.ts";
import type { Condition } from "../../kernel/table.ts";
import type { LogLine, Reader } from "../../store/store.ts";
import { CHUNKS } from "../../work/backfill/rows.ts";
import type { AnswerOf } from "../../work/operations.ts";
import type { LogLineDocument, RunLogLineDocument } from "../../work/run/api.ts";
import type { RunAssetField } from "../../work/run/events.ts";
import { logLevelOf } from "../../work/run/protocol.ts";
import type { RunRow } from "../../work/run/rows.ts";
import { type ExpandedTask, expandTasks, indexesOf } from "../../work/run/tasks.ts";
import { type Call, type Handlers, readAt, type Reply } from "../http/call.ts";
import { cursorOf, keyOfCursor, readWithin } from "../http/read-within.ts";
import { knownBackfillRow } from "../look-ups.ts";
import { assetsAtRequest, partitionsOfTask, taskNotFound } from "./run-timeline.ts";
import { findRun } from "./runs.ts";

type NumberedLine = LogLine & { line: number };

function lineDocument({ line, attempt, at, message, fields }: NumberedLine): LogLineDocument {
  return { line, attempt, at, level: logLevelOf(fields), message, fields };
}

async function listTaskLogs(call: Call<"listTaskLogs">): Promise<Reply> {
  const { task_key } = call.params;
  const { limit, cursor, after = 0 } = call.query;
  if (cursor !== undefined && call.query.after !== undefined) throw twoPlaces();
  const from = cursor === undefined ? after : Number(keyOfCursor(cursor, ["int"])[0]);
  return readAt(call, async (reader) => {
    const { run_pos } = await findRun(reader, call.params.run_id);
    const lines = await reader.logs(run_pos, task_key, from, limit + 1);
    const items = lines.slice(0, limit).map(lineDocument);
    const last = lines.length > limit ? items.at(-1) : undefined;
    const next_cursor = last === undefined ? null : cursorOf([last.line]);
    const known = lines.at(-1)?.line ?? 0;
    const isEnd = last === undefined && (known > 0 || from === 0);
    const last_line = isEnd ? known : await lastLine(reader, run_pos, task_key, known);
    const { pos } = await reader.head();
    return { answer: { items, next_cursor, last_line, pos }, pos };
  });
}

/** Lines are numbered without a hole, so the last one is found by halving. */
async function lastLine(
  reader: Reader,
  runPos: number,
  taskKey: number,
  known: number,
): Promise<number> {
  const isThere = async (line: number): Promise<boolean> =>
    (await reader.logs(runPos, taskKey, line - 1, 1)).length > 0;
  let there = known;
  let step = 1;
  while (await isThere(there + step)) {
    there += step;
    step *= 2;
  }
  let beyond = there + step;
  while (beyond - there > 1) {
    const middle = Math.floor((there + beyond) / 2);
    if (await isThere(middle)) there = middle;
    else beyond = middle;
  }
  return there;
}

function twoPlaces(): PawlError {
  return new PawlError(
    "INPUT_INVALID",
    "The request says both `cursor` and `after`, which are two places to go on from. Leave one out.",
  );
}

/** What a task of a run makes: its asset, the first few of its partitions, and how many there are. */
export type TaskLabel = Pick<
  RunLogLineDocument,
  "asset_key" | "partition_keys" | "partition_count"
>;

/** The tasks of a run, as it was asked for. */
export type LabelledTasks = {
  tasks: readonly ExpandedTask[];
  assetOf: (task: ExpandedTask) => RunAssetField;
  labelOf: (taskKey: number) => TaskLabel;
};

/** Reads what the tasks of a run make. */
export async function readTasks(reader: Reader, run: RunRow): Promise<LabelledTasks> {
  const assets = await assetsAtRequest(reader, run);
  // What they wait for does not matter here, and may be far more than the tasks are.
  const alone = assets.map((each) => ({ ...each, upstream: [] }));
  const tasks = expandTasks(alone, run.partition_keys?.length ?? 0);
  const assetOf = (task: ExpandedTask): RunAssetField =>
    present(assets[task.asset_index], "a task's asset is the run's");
  return {
    tasks,
    assetOf,
    labelOf(taskKey) {
      const task = present(tasks[taskKey], "the task is one of the run");
      const { asset_key } = assetOf(task);
      return { asset_key, ...partitionsOfTask(task, assets, run.partition_keys) };
    },
  };
}

/** The numbers of the tasks that a request is about; null for all. */
async function wantedTasks(
  allTasks: () => Promise<LabelledTasks>,
  run: RunRow,
  { task_key, asset, partition }: Call<"listRunLogs">["query"],
): Promise<number[] | null> {
  if (task_key !== undefined && task_key >= run.tasks_total) throw taskNotFound(run, task_key);
  if (asset === undefined && partition === undefined) {
    return task_key === undefined ? null : [task_key];
  }
  const { tasks, assetOf } = await allTasks();
  const isWanted = (task: ExpandedTask): boolean =>
    (task_key ?? task.task_key) === task.task_key &&
    (asset ?? assetOf(task).asset_key) === assetOf(task).asset_key &&
    (partition === undefined || makes(task, assetOf(task), partition, run.partition_keys ?? []));
  return tasks.filter(isWanted).map((task) => task.task_key);
}

/** Whether a task makes the partition; a batch makes all that its asset has in the run. */
function makes(
  { partition_index }: ExpandedTask,
  { partition_indexes }: RunAssetField,
  key: string,
  keys: readonly string[],
): boolean {
  if (partition_index !== null) return keys[partition_index] === key;
  return indexesOf(partition_indexes, keys.length).some((index) => keys[index] === key);
}

async function listRunLogs(call: Call<"listRunLogs">): Promise<Reply> {
  const { limit, cursor, since = null } = call.query;
  const from = cursor === undefined ? null : keyOfCursor(cursor, ["int", "int"]);
  return readAt(call, async (reader) => {
    const run = await findRun(reader, call.params.run_id);
    // Who follows a run asks again and again: without new lines nobody needs its thousands of tasks.
    let labelled: Promise<LabelledTasks> | null = null;
    const allTasks = (): Promise<LabelledTasks> => (labelled ??= readTasks(reader, run));
    const tasks = await wantedTasks(allTasks, run, call.query);
    const documentsOf = async (lines: NumberedLine[]): Promise<RunLogLineDocument[]> => {
      const { labelOf } = await allTasks();
      return lines.map((line) => {
        const { task_key } = line;
        return { ...lineDocument(line), run_id: run.run_id, task_key, ...labelOf(task_key) };
      });
    };
    const read = (last: NumberedLine | null, most: number): Promise<NumberedLine[]> => {
      const [task, line] = last === null ? (from ?? []) : [last.task_key, last.line];
      const after = task === undefined ? null : ([Number(task), Number(line)] as const);
      return reader.runLogs(run.run_pos, { after, tasks, since }, most);
    };
    const { items, last } = await readWithin(limit, read, documentsOf);
    const [size] = await reader.runLogSizes([run.run_pos]);
    const { pos } = await reader.head();
    const next_cursor = last === null ? null : cursorOf([last.task_key, last.line]);
    return { answer: { items, next_cursor, dropped: size?.dropped ?? 0, pos }, pos };
  });
}

/** Chunks that one page goes through, and those between two turns of the process. */
const CHUNKS_MAX = 10_000;
const PAGE_CHUNKS = 500;

type LoggedRuns = AnswerOf<"listLoggedRuns">["items"];

function listLoggedRuns(call: Call<"listLoggedRuns">): Promise<Reply> {
  const { limit, cursor } = call.query;
  const from = cursor === undefined ? null : Number(keyOfCursor(cursor, ["int"])[0]);
  return readAt(call, async (reader) => {
    const { backfill_id } = await knownBackfillRow(reader, call.params.backfill_id);
    const items: LoggedRuns = [];
    let before: number | null = from;
    let isEnd = false;
    for (let looked = 0; looked < CHUNKS_MAX && items.length < limit && !isEnd; ) {
      const chunks = await chunksBefore(reader, backfill_id, before);
      const runs = await loggedRuns(reader, chunks);
      const room = limit - items.length;
      items.push(...runs.slice(0, room));
      isEnd = chunks.length < PAGE_CHUNKS && runs.length <= room;
      before = (runs.length >= room ? items : chunks).at(-1)?.chunk_index ?? before;
      looked += PAGE_CHUNKS;
      await nextTurn();
    }
    const next_cursor = isEnd || before === null ? null : cursorOf([before]);
    const { pos } = await reader.head();
    return { answer: { items, next_cursor, pos }, pos };
  });
}

type RunOfChunk = { chunk_index: number; run_pos: number; run_id: string };

async function chunksBefore(
  reader: Reader,
  backfillId: string,
  before: number | null,
): Promise<RunOfChunk[]> {
  const where: Condition[] = [
    { cell: "backfill_id", is: "=", value: backfillId },
    { cell: "run_pos", is: "not null" },
  ];
  if (before !== null) where.push({ cell: "chunk_index", is: "<", value: before });
  const order = [{ cell: "chunk_index", descending: true }];
  const find = { table: CHUNKS, where, order, limit: PAGE_CHUNKS };
  const cells = await reader.findCells(find, ["chunk_index", "run_pos", "run_id"]);
  return cells.map(([chunk_index, run_pos, run_id]) => ({
    chunk_index: Number(chunk_index),
    run_pos: Number(run_pos),
    run_id: String(run_id),
  }));
}

async function loggedRuns(reader: Reader, chunks: readonly RunOfChunk[]): Promise<LoggedRuns> {
  const sizes = await reader.runLogSizes(chunks.map(({ run_pos }) => run_pos));
  const sizeOf = new Map(sizes.map((size) => [size.run_pos, size]));
  return chunks.flatMap(({ chunk_index, run_pos, run_id }) => {
    const size = sizeOf.get(run_pos);
    if (size === undefined) return [];
    const { began_at, last_at, bytes, dropped } = size;
    return [{ run_id, chunk_index, began_at, last_at, bytes, dropped }];
  });
}

/** What can be asked about what tasks logged. */
export const LOG_HANDLERS = { listTaskLogs, listRunLogs, listLoggedRuns } satisfies Handlers;
