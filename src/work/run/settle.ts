import { present } from "../../kernel/assert.ts";
import type { EventData, NewEvent } from "../events.ts";
import { indexesOf, assetsOfRun, runRef, sizeOfTask, tasksOfAsset } from "./tasks.ts";
import { countIntervals, type Interval, intervalsOf } from "../../kernel/intervals.ts";
import { chunkIdOf, IDEMPOTENCY_KEYS } from "../keys.ts";
import type { BackfillRow, ChunkPart, ChunkRow } from "../backfill/rows.ts";
import type { Rows } from "../rows.ts";
import type { RunAssetRow, RunRow, TaskRow } from "./rows.ts";
import type { Condition, Key } from "../../kernel/table.ts";
import { pinnedSpec } from "../asset/look-up.ts";
import { closeTasks } from "./cancel.ts";
import { pairsOf, partsByAsset } from "../backfill/plan.ts";
import type { Context, Controller } from "../decision.ts";
import { moveStepEnd } from "../move/settle.ts";
import { segmentEnd } from "../sync/settle.ts";
import { RUN_TASKS_MAX } from "./request.ts";

/** Ends a run whose tasks have all ended, and closes what a cancel could not stop in time. */
export const settleRun: Controller<RunRow> = (rows, run, context) => {
  if (run.finished_at !== null) return [];
  const open = run.tasks_waiting + run.tasks_ready + run.tasks_running + run.tasks_retry_wait;
  if (open === 0) return finishRun(rows, run, context);
  return closeOverdue(rows, run, context);
};

function closeOverdue(rows: Rows, run: RunRow, context: Context): NewEvent[] {
  if (run.cancel_deadline_at === null || run.cancel_deadline_at > context.now) return [];
  const reason = run.cancel_reason ?? "cancelled";
  const closed = closeTasks(rows, run, () => true, reason, context);
  return closed === null ? [] : [closed];
}

type Finished = EventData<"RunFinished">;

function finishRun(rows: Rows, run: RunRow, context: Context): NewEvent[] {
  const assets = assetsOfRun(rows, run);
  const source = run.trigger_source_ref;
  const lists = { failed: [], cancelled: [], skipped: [] } as Pick<
    Finished,
    "failed" | "cancelled" | "skipped"
  >;
  const counts = { succeeded: 0, failed: 0, cancelled: 0, skipped: 0 };
  const clean = run.tasks_succeeded === run.tasks_total;
  for (const asset of assets) {
    const pairs = countOfAsset(run, asset);
    counts.succeeded += pairs;
    const tasks = clean && asset.batch === 0 ? [] : tasksOfAsset(rows, asset);
    if (tasks.every((task) => task.state === "SUCCEEDED" && task.skipped === null)) continue;
    const places = outcomes(run, asset, tasks);
    for (const outcome of ["failed", "cancelled", "skipped"] as const) {
      const own = places[outcome];
      if (own.length === 0) continue;
      counts.succeeded -= own.length;
      counts[outcome] += own.length;
      const indexes = intervalsOf(own).map(([from, to]): [number, number] => [from, to]);
      lists[outcome].push({ asset: asset.asset_index, indexes });
    }
  }
  const outcome =
    run.tasks_cancelled > 0 ? "CANCELLED" : counts.failed > 0 ? "FAILED" : "SUCCEEDED";
  const split = outcome === "FAILED" ? splitOf(rows, run, assets, lists.failed) : null;
  const segment = source.type === "sync" ? segmentEnd(rows, run, outcome, context) : null;
  const afterStep = source.type === "shards" ? moveStepEnd(rows, run, outcome, context) : [];
  const finished: NewEvent = {
    type: "RunFinished",
    idempotency_key: IDEMPOTENCY_KEYS.run(run.run_id, "finished"),
    data: {
      ...runRef(run),
      ...(source.type === "schedule" ? { schedule_id: source.schedule_id } : {}),
      ...(segment === null ? {} : { segment_end: segment.end }),
      outcome,
      asset_count: assets.length,
      task_count: run.tasks_total,
      counts,
      ...lists,
      splits: split !== null,
    },
  };
  return [finished, ...(split === null ? [] : [split]), ...(segment?.after ?? []), ...afterStep];
}

/** How many partitions of the run an asset has; one for an asset without partitions. */
function countOfAsset(run: RunRow, asset: RunAssetRow): number {
  if (run.partition_keys === null) return 1;
  if (asset.partition_indexes === null) return run.partition_keys.length;
  return countIntervals(asset.partition_indexes);
}

/** The run's partition indexes of an asset; one place for an asset without partitions. */
function placesOfAsset(run: RunRow, asset: RunAssetRow): number[] {
  return run.partition_keys === null
    ? [0]
    : indexesOf(asset.partition_indexes, run.partition_keys.length);
}

/** Indexes into the run's partitions of what did not succeed. */
function outcomes(
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
      // Skipped by its own function, or never started because what it needs failed.
      add(rest, task.started_pos === null ? found.failed : found.skipped);
    }
  }
  for (const list of [found.failed, found.cancelled, found.skipped]) list.sort((a, b) => a - b);
  return found;
}

/** The split of a chunk whose batch tasks failed as a whole: halves, until what fails stands alone. */
function splitOf(
  rows: Rows,
  run: RunRow,
  assets: readonly RunAssetRow[],
  failed: Finished["failed"],
): NewEvent | null {
  if (run.backfill_id === null || run.chunk_index === null) return null;
  const backfill = present(rows.backfills.get(run.backfill_id), "a chunk has its backfill");
  if (backfill.state !== "RUNNING" && backfill.state !== "PAUSED") return null;
  if (!assets.some((asset) => mayBisect(rows, run, asset))) return null;
  const chunk = present(rows.chunks.get(run.backfill_id, run.chunk_index), "a run has its chunk");
  const parts = failedParts(run, backfill, chunk, failed);
  const ordinals = parts.reduce((sum, { from, to }) => sum + to - from + 1, 0);
  if (ordinals < 2) return null;
  const halves = halve(parts, Math.ceil(ordinals / 2));
  const assetCount = backfill.asset_selection.length;
  return {
    type: "BackfillChunkSplit",
    idempotency_key: IDEMPOTENCY_KEYS.chunkSplit(
      run.backfill_id,
      run.chunk_index,
      chunk.generation,
    ),
    data: {
      backfill_id: run.backfill_id,
      backfill_pos: backfill.created_pos,
      chunk_id: chunkIdOf(run.backfill_id, run.chunk_index),
      chunk_index: run.chunk_index,
      generation: chunk.generation,
      partitions: pairsOf(parts, assetCount),
      tiles: halves.map((half, index) => ({
        chunk_index: nextTile(backfill) + index,
        parts: half,
        partitions: pairsOf(half, assetCount),
      })),
    },
  };
}

/** A batch task that failed with none of its partitions named is worth halving. */
function mayBisect(rows: Rows, run: RunRow, asset: RunAssetRow): boolean {
  if (asset.batch === 0 || !pinnedSpec(rows, asset.spec_hash).bisect) return false;
  const [task] = tasksOfAsset(rows, asset);
  if (task === undefined || task.state !== "FAILED" || task.remaining !== null) return false;
  return sizeOfTask(run, asset, task) > 1;
}

/** Chunk indexes of tiles go on after all chunks there ever were, split ones included. */
function nextTile(backfill: BackfillRow): number {
  return backfill.base_chunks + backfill.tiles_made;
}

/** What failed in a chunk, as parts for its tiles. */
function failedParts(
  run: RunRow,
  backfill: BackfillRow,
  chunk: ChunkRow,
  failed: Finished["failed"],
): ChunkPart[] {
  const ordinals = chunk.parts.flatMap(({ from, to }) => indexesOf([[from, to]], 0));
  const byAsset = backfill.asset_selection.map((): Interval[] => []);
  for (const { asset, indexes } of failed) {
    const place = backfill.asset_selection.indexOf(run.asset_selection[asset] ?? "");
    const own = indexesOf(indexes, 0).map((index) =>
      present(ordinals[index], "a run's partitions are its chunk's"),
    );
    byAsset[place] = intervalsOf(own);
  }
  return partsByAsset(byAsset);
}

/**
 * What has failed for good in unfinished runs of a backfill's chunks. Runs whose chunk may yet be
 * split are left out: its tiles would try that again.
 */
export function failedUnderWay(
  rows: Rows,
  backfill: BackfillRow,
  runs: readonly RunRow[],
): ChunkPart[] {
  if (runs.length === 0) return [];
  const key = (run: RunRow): Key => [backfill.backfill_id, run.chunk_index ?? -1];
  rows.chunks.need(runs.map(key));
  rows.runAssets.need(
    runs.flatMap((run) => run.asset_selection.map((_, asset): Key => [run.run_pos, asset])),
  );
  const where: Condition[] = [
    { cell: "run_pos", is: "in", values: runs.map(({ run_pos }) => run_pos) },
    { cell: "state", is: "in", values: ["FAILED", "SKIPPED"] },
  ];
  const order = [{ cell: "run_pos" }, { cell: "task_key" }];
  const tasks = Map.groupBy(
    rows.tasks.find(where, order, runs.length * RUN_TASKS_MAX),
    ({ run_pos, asset_index }) => `${run_pos}/${asset_index}`,
  );
  return runs.flatMap((run) => {
    const assets = assetsOfRun(rows, run);
    if (assets.some((each) => each.batch === 1 && pinnedSpec(rows, each.spec_hash).bisect))
      return [];
    const chunk = present(rows.chunks.get(backfill.backfill_id, run.chunk_index ?? -1), "a chunk");
    const failed = assets.map((asset) => {
      const ended = tasks.get(`${run.run_pos}/${asset.asset_index}`) ?? [];
      const indexes = intervalsOf(outcomes(run, asset, ended).failed);
      return {
        asset: asset.asset_index,
        indexes: indexes.map(([from, to]): [number, number] => [from, to]),
      };
    });
    return failedParts(run, backfill, chunk, failed);
  });
}

function halve(parts: readonly ChunkPart[], first: number): ChunkPart[][] {
  const left: ChunkPart[] = [];
  const right: ChunkPart[] = [];
  let room = first;
  for (const part of parts) {
    const size = part.to - part.from + 1;
    const take = Math.min(room, size);
    if (take > 0) left.push({ ...part, to: part.from + take - 1 });
    if (take < size) right.push({ ...part, from: part.from + take });
    room -= take;
  }
  return [left, right];
}
