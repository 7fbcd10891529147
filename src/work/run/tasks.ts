import { canonicalJson } from "../../kernel/canonical.ts";
import { assert, present } from "../../kernel/errors.ts";
import type { RunAssetField, TaskResultField, SegmentRef, WorkRef } from "./events.ts";
import type { Interval } from "../../kernel/intervals.ts";
import { findAll, type Rows } from "../rows.ts";
import type { RunAssetRow, RunRow, TaskRow, TaskState } from "./rows.ts";
import { blockOfTask, tasksIn } from "./task-blocks.ts";
import type { Condition, Key } from "../../kernel/table.ts";
import type { ShardWorkRef } from "../shard/step-protocol.ts";

/** One task of a run, as its compact form spells it out. */
export type ExpandedTask = {
  task_key: number;
  asset_index: number;
  partition_index: number | null;
  unmet: number[];
  downstream: number[];
};

/** The tasks of one asset of a run: where they begin, and how they relate to partitions. */
type AssetTasks = { first: number; count: number; whole: boolean; indexes: number[] };

/** How many tasks and how many pairs of asset and partition the assets of a run stand for. */
export function sizeOfRun(
  assets: readonly RunAssetField[],
  partitionCount: number,
): {
  tasks: number;
  pairs: number;
} {
  let tasks = 0;
  let pairs = 0;
  for (const asset of assets) {
    const own = countOf(asset, partitionCount);
    pairs += own;
    tasks += isWhole(asset, partitionCount) ? 1 : own;
  }
  return { tasks, pairs };
}

/** How many partitions one asset of a run has; 1 for an asset without partitions. */
function countOf(asset: RunAssetField, partitionCount: number): number {
  if (partitionCount === 0) return 1;
  if (asset.partition_indexes === null) return partitionCount;
  return asset.partition_indexes.reduce((sum, [from, to]) => sum + to - from + 1, 0);
}

/** Whether one task does all partitions of the asset. */
export function isWhole(asset: { batch: boolean }, partitionCount: number): boolean {
  return asset.batch || partitionCount === 0;
}

/** Indexes into the run's partition keys that an asset of the run has. */
export function indexesOf(indexes: readonly Interval[] | null, partitionCount: number): number[] {
  if (indexes === null) return Array.from({ length: partitionCount }, (_, index) => index);
  const all: number[] = [];
  for (const [from, to] of indexes) for (let index = from; index <= to; index++) all.push(index);
  return all;
}

/** Spells out the tasks and edges of a run. Tasks are numbered asset by asset, in partition order. */
export function expandTasks(
  assets: readonly RunAssetField[],
  partitionCount: number,
): ExpandedTask[] {
  const tasks: ExpandedTask[] = [];
  const placed: AssetTasks[] = [];
  for (const [assetIndex, asset] of assets.entries()) {
    const whole = isWhole(asset, partitionCount);
    const indexes = indexesOf(asset.partition_indexes, partitionCount);
    const count = whole ? 1 : indexes.length;
    const own: AssetTasks = { first: tasks.length, count, whole, indexes };
    for (let offset = 0; offset < count; offset++) {
      tasks.push({
        task_key: tasks.length,
        asset_index: assetIndex,
        partition_index: whole ? null : (indexes[offset] ?? null),
        unmet: [],
        downstream: [],
      });
    }
    placed.push(own);
    for (const upstream of asset.upstream) {
      const from = placed[upstream.asset];
      assert(from !== undefined && upstream.asset <= assetIndex, "upstream assets come first");
      connect(tasks, from, own, upstream.edges);
    }
  }
  return tasks;
}

/** Joins each task to the upstream tasks that make one of the partitions it needs. */
function connect(
  tasks: ExpandedTask[],
  from: AssetTasks,
  to: AssetTasks,
  edges: "same" | "all" | Interval[],
): void {
  if (edges === "all" || (from.whole && to.whole && from.indexes.length === 0)) {
    for (let up = 0; up < from.count; up++) {
      for (let down = 0; down < to.count; down++) edge(tasks, from.first + up, to.first + down);
    }
    return;
  }
  const upOf = taskByIndex(from);
  const downOf = taskByIndex(to);
  const pairs = edges === "same" ? to.indexes.map((index): Interval => [index, index]) : edges;
  // A batch task stands for many partitions, so many pairs may mean one edge.
  const joined = new Set<number>();
  for (const [up, down] of pairs) {
    const upTask = upOf.get(up);
    const downTask = downOf.get(down);
    if (upTask === undefined || downTask === undefined) continue;
    const name = upTask * tasks.length + downTask;
    if (!joined.has(name)) edge(tasks, upTask, downTask);
    joined.add(name);
  }
}

function taskByIndex({ first, whole, indexes }: AssetTasks): Map<number, number> {
  return new Map(indexes.map((index, offset) => [index, whole ? first : first + offset]));
}

function edge(tasks: ExpandedTask[], from: number, to: number): void {
  if (from === to) return;
  const up = tasks[from];
  const down = tasks[to];
  assert(up !== undefined && down !== undefined, "an edge joins tasks of the run");
  down.unmet.push(from);
  up.downstream.push(to);
}

/** The numbers of the tasks that an entry of an event stands for. */
export function* taskKeysOf(entry: {
  task_key: number;
  count?: number | undefined;
}): Generator<number> {
  for (let index = 0; index < (entry.count ?? 1); index++) yield entry.task_key + index;
}

/** The results that an entry of an event stands for, one by one, each with its own partition. */
export function eachResult(entry: TaskResultField): TaskResultField[] {
  const { count, ...rest } = entry;
  if (count === undefined) return [entry];
  return Array.from({ length: count }, (_, index) => ({
    ...rest,
    task_key: entry.task_key + index,
    partition_keys: entry.partition_keys.slice(index, index + 1),
  }));
}

/** Results alike in everything but the task's number and its one partition, as one entry. */
export function repeatedResults(results: readonly TaskResultField[]): TaskResultField[] {
  const sorted = results.toSorted((a, b) => a.task_key - b.task_key);
  const entries: TaskResultField[] = [];
  for (const result of sorted) {
    const last = entries.at(-1);
    if (last !== undefined && isNext(last, result)) {
      last.count = (last.count ?? 1) + 1;
      for (const key of result.partition_keys) last.partition_keys.push(key);
    } else entries.push({ ...result, partition_keys: [...result.partition_keys] });
  }
  return entries;
}

function isNext(last: TaskResultField, result: TaskResultField): boolean {
  return (
    isPlain(last) &&
    isPlain(result) &&
    last.task_key + (last.count ?? 1) === result.task_key &&
    last.asset_index === result.asset_index &&
    last.attempt === result.attempt &&
    last.outcome === result.outcome &&
    last.code_version === result.code_version &&
    last.retry_at === result.retry_at &&
    last.released === result.released &&
    last.lost_attempts === result.lost_attempts &&
    last.error?.class === result.error?.class &&
    last.error?.message === result.error?.message &&
    areEqual(last.checks, result.checks) &&
    // Either both started, and have one key each, or neither did.
    (last.partition_keys.length === 0) === (result.partition_keys.length === 0)
  );
}

function areEqual(one: TaskResultField["checks"], other: TaskResultField["checks"]): boolean {
  if (one === undefined || other === undefined) return one === other;
  return canonicalJson(one) === canonicalJson(other);
}

/** The result of one partition with nothing to say that is its own. */
function isPlain(result: TaskResultField): boolean {
  return (
    result.partitions === 1 &&
    result.metadata === undefined &&
    result.checks?.some(({ partitions }) => partitions !== undefined) !== true &&
    result.segment === undefined &&
    result.step === undefined &&
    result.exceptions === undefined &&
    result.releases === undefined &&
    result.skips === undefined
  );
}

/** What run events carry so that the fold finds its rows. */
export function runRef(run: RunRow): {
  run_id: string;
  run_pos: number;
  backfill_id: string | null;
  chunk_index: number | null;
  segment?: SegmentRef;
  shard_work?: ShardWorkRef;
  work?: WorkRef;
} {
  const { run_id, run_pos, backfill_id, chunk_index } = run;
  const ref = { run_id, run_pos, backfill_id, chunk_index };
  const segment = segmentOfRun(run);
  if (segment !== null) return { ...ref, segment };
  const shard_work = stepOfRun(run);
  if (shard_work !== null) return { ...ref, shard_work };
  const work = workOfRun(run);
  return work === null ? ref : { ...ref, work };
}

/** The part of some work that a run is about; null for runs of kinds with references of their own. */
export function workOfRun({
  trigger_source_ref: source,
}: Pick<RunRow, "trigger_source_ref">): WorkRef | null {
  if (source.type !== "work") return null;
  const { type: _, ...work } = source;
  return work;
}

/** The step on shards that a run is; null for all others. */
export function stepOfRun({ trigger_source_ref: source }: RunRow): ShardWorkRef | null {
  return source.type === "shards" ? source.work : null;
}

/** The segment that a run is about; null for a run of assets. */
export function segmentOfRun({ trigger_source_ref: source }: RunRow): SegmentRef | null {
  if (source.type !== "sync") return null;
  const { type: _, ...segment } = source;
  return segment;
}

/** Whether the attempt is the current one, and whoever has this token claimed it. */
export function isHeldBy(
  task: TaskRow | null | undefined,
  attempt: number,
  holder: string,
): task is TaskRow {
  if (task?.state !== "RUNNING" || task.attempt !== attempt) return false;
  return task.claimed_by === null || task.claimed_by === holder;
}

/** The assets of an unfinished run, in order. */
export function assetsOfRun(rows: Rows, run: RunRow): RunAssetRow[] {
  const keys = run.asset_selection.map((_, index): Key => [run.run_pos, index]);
  rows.runAssets.need(keys);
  return run.asset_selection.map((_, index) =>
    present(rows.runAssets.get(run.run_pos, index), "an unfinished run has its assets"),
  );
}

/** The tasks of one asset of an unfinished run, in order: all, or those in one of some states. */
export function tasksOfAsset(
  rows: Rows,
  asset: RunAssetRow,
  states: readonly TaskState[] | null = null,
): TaskRow[] {
  return [...eachTaskOfAsset(rows, asset, states)];
}

/** The same one by one, for who may not want them all. */
export function* eachTaskOfAsset(
  rows: Rows,
  asset: RunAssetRow,
  states: readonly TaskState[] | null,
): Generator<TaskRow> {
  needTasks(rows, [asset]);
  for (const key of blockKeysOfAsset(asset)) {
    const block = present(rows.taskBlocks.get(...key), "an unfinished run has its tasks");
    for (const task of tasksIn(block, states)) {
      if (task.asset_index === asset.asset_index) yield task;
    }
  }
}

function blockKeysOfAsset({ run_pos, first_task, task_count }: RunAssetRow): Key[] {
  const keys: Key[] = [];
  const last = blockOfTask(first_task + task_count - 1);
  for (let block = blockOfTask(first_task); block <= last; block++) keys.push([run_pos, block]);
  return keys;
}

/** Makes sure that the runs and the tasks of these assets are in memory, with one load each. */
export function needTasks(rows: Rows, assets: readonly RunAssetRow[]): void {
  rows.runs.need(assets.map(({ run_pos }): Key => [run_pos]));
  rows.taskBlocks.need(assets.flatMap(blockKeysOfAsset));
}

/** Assets with more tasks than this have only those read that run. */
const TASKS_LOADED_MAX = 500;
/** Blocks with running tasks that are read at once; none is left out, or its partitions could be made twice. */
const BLOCKS_READ = 10_000;
const RUNNING: readonly TaskState[] = ["RUNNING"];

/** The running tasks of assets of unfinished runs; of what may be very many tasks no others are read. */
export function runningTasks(rows: Rows, assets: readonly RunAssetRow[]): TaskRow[] {
  const small = assets.filter(({ task_count }) => task_count <= TASKS_LOADED_MAX);
  const large = assets.filter(({ task_count }) => task_count > TASKS_LOADED_MAX);
  needTasks(rows, small);
  const running = small.flatMap((asset) => tasksOfAsset(rows, asset, RUNNING));
  if (large.length === 0) return running;
  rows.runs.need(large.map(({ run_pos }): Key => [run_pos]));
  const names = new Set(large.map(({ run_pos, asset_index }) => `${run_pos}/${asset_index}`));
  const where: Condition[] = [
    { cell: "run_pos", is: "in", values: [...new Set(large.map(({ run_pos }) => run_pos))] },
    { cell: "held", is: "not null" },
  ];
  const order = [{ cell: "run_pos" }, { cell: "block" }];
  for (const block of findAll(rows.taskBlocks, where, order, BLOCKS_READ)) {
    for (const task of tasksIn(block, RUNNING)) {
      if (names.has(`${task.run_pos}/${task.asset_index}`)) running.push(task);
    }
  }
  return running;
}

/** The partition keys of a task, in order; of a batch task those that are still to be done. */
export function keysOfTask(run: RunRow, asset: RunAssetRow, task: TaskRow): string[] {
  // A segment and a step are no partitions of anything; that they run once at a time, their own rows
  // see to.
  const { type } = run.trigger_source_ref;
  if (type === "sync" || type === "shards") return [];
  if (run.partition_keys === null) return [""];
  const keys = run.partition_keys;
  if (task.partition_index !== null) {
    return [present(keys[task.partition_index], "a task's partition is the run's")];
  }
  if (asset.partition_indexes === null && task.remaining === null) return keys;
  const all = indexesOf(asset.partition_indexes, keys.length);
  return indexesOf(task.remaining, all.length).map((place) =>
    present(keys[all[place] ?? -1], "a batch task's partitions are the run's"),
  );
}

/** How many partitions a task still stands for; 1 for an asset without partitions. */
export function sizeOfTask(run: RunRow, asset: RunAssetRow, task: TaskRow): number {
  const count = run.partition_keys?.length ?? 0;
  if (!isWhole({ batch: asset.batch === 1 }, count) || count === 0) return 1;
  const intervals = task.remaining ?? asset.partition_indexes;
  if (intervals === null) return count;
  return intervals.reduce((sum, [from, to]) => sum + to - from + 1, 0);
}

/** The run's partition indexes of an asset; one place for an asset without partitions. */
function placesOfAsset(run: RunRow, asset: RunAssetRow): number[] {
  return run.partition_keys === null
    ? [0]
    : indexesOf(asset.partition_indexes, run.partition_keys.length);
}

/** Indexes into the run's partitions of what did not succeed. */
export function outcomes(
  run: RunRow,
  asset: RunAssetRow,
  tasks: readonly TaskRow[],
): Record<"failed" | "cancelled" | "skipped", number[]> {
  const found = { failed: [] as number[], cancelled: [] as number[], skipped: [] as number[] };
  const places = placesOfAsset(run, asset);
  for (const task of tasks) {
    const own = task.partition_index === null ? places : [task.partition_index];
    const add = (among: readonly number[], list: number[]): void => {
      for (const place of among) {
        list.push(present(own[place], "a place is one of the task's partitions"));
      }
    };
    const rest = indexesOf(task.remaining, own.length);
    add(indexesOf(task.skipped ?? [], 0), found.skipped);
    if (task.state === "FAILED") add(rest, found.failed);
    if (task.state === "CANCELLED") add(rest, found.cancelled);
    if (task.state === "SKIPPED") {
      // By its own function or for what its asset requires, or because what it needs in its run failed.
      add(rest, isLeftOut(task) ? found.failed : found.skipped);
    }
  }
  for (const list of [found.failed, found.cancelled, found.skipped]) list.sort((a, b) => a - b);
  return found;
}

/** Whether a skipped task never started because a task of its run failed that it is made from. */
export function isLeftOut({ started_pos, error }: Pick<TaskRow, "started_pos" | "error">): boolean {
  return started_pos === null && error?.class !== REQUIRES_CLASS;
}

/** What the error of a task is called that did not start for what its asset requires of its upstream. */
export const REQUIRES_CLASS = "requires";

/** Tasks numbered one after the other and alike in all else, as one entry. */
export function repeatedTasks<Entry extends TaskEntry>(entries: readonly Entry[]): Entry[] {
  const runs: Entry[] = [];
  for (const entry of entries) {
    const last = runs.at(-1);
    if (
      last !== undefined &&
      last.task_key + (last.count ?? 1) === entry.task_key &&
      last.attempt === entry.attempt &&
      last.asset_index === entry.asset_index &&
      last.partitions === entry.partitions
    ) {
      runs[runs.length - 1] = { ...last, count: (last.count ?? 1) + 1 };
    } else runs.push(entry);
  }
  return runs;
}

type TaskEntry = {
  task_key: number;
  attempt: number;
  asset_index: number;
  partitions: number;
  count?: number | undefined;
};
