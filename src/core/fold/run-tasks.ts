import { assert } from "../assert.ts";
import type { RunAssetField } from "../events/run-events.ts";
import type { Interval } from "../intervals.ts";

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
