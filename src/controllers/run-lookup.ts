import { present } from "../core/assert.ts";
import type { SegmentRef } from "../core/events/run-events.ts";
import { indexesOf, isWhole } from "../core/fold/run-tasks.ts";
import { findAll, type Rows } from "../core/rows/rows.ts";
import type { RunAssetRow, RunRow, TaskRow } from "../core/rows/run-rows.ts";
import type { Condition, Key } from "../core/rows/table.ts";
import type { ShardWorkRef } from "../core/step-protocol.ts";

/** What run events carry so that the fold finds its rows. */
export function runRef(run: RunRow): {
  run_id: string;
  run_pos: number;
  backfill_id: string | null;
  chunk_index: number | null;
  segment?: SegmentRef;
  shard_work?: ShardWorkRef;
} {
  const { run_id, run_pos, backfill_id, chunk_index } = run;
  const ref = { run_id, run_pos, backfill_id, chunk_index };
  const segment = segmentOfRun(run);
  if (segment !== null) return { ...ref, segment };
  const shard_work = stepOfRun(run);
  return shard_work === null ? ref : { ...ref, shard_work };
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

/** The tasks of one asset of an unfinished run, in order. */
export function tasksOfAsset(rows: Rows, asset: RunAssetRow): TaskRow[] {
  needTasks(rows, [asset]);
  return Array.from({ length: asset.task_count }, (_, index) => taskAt(rows, asset, index));
}

/** Makes sure that the runs and the tasks of these assets are in memory, with one load each. */
export function needTasks(rows: Rows, assets: readonly RunAssetRow[]): void {
  rows.runs.need(assets.map(({ run_pos }): Key => [run_pos]));
  const keys: Key[] = [];
  for (const { run_pos, first_task, task_count } of assets) {
    for (let index = 0; index < task_count; index++) keys.push([run_pos, first_task + index]);
  }
  rows.tasks.need(keys);
}

/** Assets with more tasks than this have only those read that run. */
const TASKS_LOADED_MAX = 500;
/** Running tasks that are read at once; none is left out, or its partitions could be made twice. */
const RUNNING_READ = 100_000;

/** The running tasks of assets of unfinished runs; of what may be very many tasks no others are read. */
export function runningTasks(rows: Rows, assets: readonly RunAssetRow[]): TaskRow[] {
  const small = assets.filter(({ task_count }) => task_count <= TASKS_LOADED_MAX);
  const large = assets.filter(({ task_count }) => task_count > TASKS_LOADED_MAX);
  needTasks(rows, small);
  const running = small.flatMap((asset) =>
    tasksOfAsset(rows, asset).filter(({ state }) => state === "RUNNING"),
  );
  if (large.length === 0) return running;
  rows.runs.need(large.map(({ run_pos }): Key => [run_pos]));
  const names = new Set(large.map(({ run_pos, asset_index }) => `${run_pos}/${asset_index}`));
  const where: Condition[] = [
    { cell: "run_pos", is: "in", values: [...new Set(large.map(({ run_pos }) => run_pos))] },
    { cell: "state", is: "=", value: "RUNNING" },
  ];
  const order = [{ cell: "run_pos" }, { cell: "task_key" }];
  for (const task of findAll(rows.tasks, where, order, RUNNING_READ)) {
    if (names.has(`${task.run_pos}/${task.asset_index}`)) running.push(task);
  }
  return running;
}

/** The task at a place among those of an asset of an unfinished run. */
export function taskAt(rows: Rows, asset: RunAssetRow, index: number): TaskRow {
  const task = rows.tasks.get(asset.run_pos, asset.first_task + index);
  return present(task, "an unfinished run has its tasks");
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
