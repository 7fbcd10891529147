import type { TimelineTaskDocument } from "../core/api/run-timeline-documents.ts";
import { present } from "../core/assert.ts";
import type { RunAssetField } from "../core/events/run-events.ts";
import { type ExpandedTask, expandTasks, indexesOf, isWhole } from "../core/fold/run-tasks.ts";
import type { Instant } from "../core/instant.ts";

/** Partition keys of a batch task that are shown. */
const KEYS_SHOWN_MAX = 3;

/** The shape of a run: its tasks and what they wait for. */
export type RunShape = {
  tasks: ExpandedTask[];
  edges: [number, number][];
  isComplete: boolean;
};

/** The first tasks of a run and the edges between them, up to so many of each. */
export function shapeOfRun(
  assets: readonly RunAssetField[],
  partitionCount: number,
  tasksMax: number,
  edgesMax: number,
): RunShape {
  const first = firstTasks(assets, partitionCount, tasksMax);
  const tasks = expandTasks(first.assets, partitionCount);
  const edges: [number, number][] = [];
  for (const { task_key, downstream } of tasks) {
    for (const to of downstream) {
      if (edges.length >= edgesMax) return { tasks, edges, isComplete: false };
      edges.push([task_key, to]);
    }
  }
  return { tasks, edges, isComplete: first.isComplete };
}

/** Tasks are numbered asset by asset, so a run's first tasks are those of its first assets. */
function firstTasks(
  assets: readonly RunAssetField[],
  partitionCount: number,
  tasksMax: number,
): { assets: RunAssetField[]; isComplete: boolean } {
  const kept: RunAssetField[] = [];
  let left = tasksMax;
  for (const asset of assets) {
    if (left === 0) return { assets: kept, isComplete: false };
    if (isWhole(asset, partitionCount)) {
      kept.push(asset);
      left -= 1;
      continue;
    }
    const indexes = indexesOf(asset.partition_indexes, partitionCount);
    if (indexes.length > left) {
      const partition_indexes = indexes
        .slice(0, left)
        .map((index): [number, number] => [index, index]);
      return { assets: [...kept, { ...asset, partition_indexes }], isComplete: false };
    }
    kept.push(asset);
    left -= indexes.length;
  }
  return { assets: kept, isComplete: true };
}

/** The partitions of a task: the first few, and how many there are. */
export function partitionsOfTask(
  task: ExpandedTask,
  assets: readonly RunAssetField[],
  partitionKeys: readonly string[] | null,
): Pick<TimelineTaskDocument, "partition_keys" | "partition_count"> {
  if (partitionKeys === null) return { partition_keys: [], partition_count: 0 };
  if (task.partition_index !== null) {
    const key = present(partitionKeys[task.partition_index], "a task's partition is the run's");
    return { partition_keys: [key], partition_count: 1 };
  }
  const asset = present(assets[task.asset_index], "a task's asset is the run's");
  const indexes = indexesOf(asset.partition_indexes, partitionKeys.length);
  const partition_keys = indexes
    .slice(0, KEYS_SHOWN_MAX)
    .map((index) => present(partitionKeys[index], "a batch task's partitions are the run's"));
  return { partition_keys, partition_count: indexes.length };
}

/** When the last edge to a task was struck; null when one is left. */
export function readyAt(
  { unmet }: ExpandedTask,
  requestedAt: Instant,
  releases: readonly Instant[] | undefined,
): Instant | null {
  if (unmet.length === 0) return requestedAt;
  if (releases === undefined || releases.length < unmet.length) return null;
  return releases.at(-1) ?? null;
}
