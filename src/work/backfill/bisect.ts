import { present } from "../../kernel/errors.ts";
import { type Interval, intervalsOf } from "../../kernel/intervals.ts";
import type { Condition, Key } from "../../kernel/table.ts";
import { pinnedSpec } from "../asset/look-up.ts";
import type { NewEvent } from "../events.ts";
import { chunkIdOf, IDEMPOTENCY_KEYS } from "../keys.ts";
import type { EndedRun } from "../kind.ts";
import type { Rows } from "../rows.ts";
import { RUN_TASKS_MAX } from "../run/request.ts";
import type { RunAssetRow, RunRow } from "../run/rows.ts";
import { assetsOfRun, indexesOf, outcomes, sizeOfTask, tasksOfAsset } from "../run/tasks.ts";
import { pairsOf, partsByAsset } from "./plan.ts";
import type { BackfillRow, ChunkPart, ChunkRow } from "./rows.ts";

/** The split of a chunk whose batch tasks failed as a whole: halves, until what fails stands alone. */
export function bisected(rows: Rows, { run, assets, outcome, failed }: EndedRun): NewEvent | null {
  if (outcome !== "FAILED") return null;
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
  failed: EndedRun["failed"],
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
