import { tasksIn } from "../run/task-blocks.ts";
import { PawlError, present } from "../../kernel/errors.ts";
import { type Interval, intervalsOf } from "../../kernel/intervals.ts";
import type { Condition, Key } from "../../kernel/table.ts";
import { pinnedSpec } from "../asset/look-up.ts";
import { type Context, type Controller, KEY_COST, RoomUsed } from "../decision.ts";
import { eventBody } from "../envelope.ts";
import type { NewEvent } from "../events.ts";
import { chunkIdOf, chunkRunKey, IDEMPOTENCY_KEYS } from "../keys.ts";
import type { EndedRun } from "../kind.ts";
import type { Rows } from "../rows.ts";
import { cancelActiveRuns } from "../run/cancel.ts";
import { lengthOf, RUN_CLASS, RUN_TASKS_MAX, runRequested } from "../run/request.ts";
import { ACTIVE_RUNS, type RunAssetRow, type RunRow } from "../run/rows.ts";
import {
  assetsOfRun,
  indexesOf,
  outcomes,
  sizeOfRun,
  sizeOfTask,
  tasksOfAsset,
} from "../run/tasks.ts";
import { isTerminalBackfill, pendingChunks } from "./fold.ts";
import { assetsInOrder, firstTile, heldBack } from "./in-order.ts";
import {
  assetsOfParts,
  type BackfillPlan,
  backfillPlan,
  chunkParts,
  pairsOf,
  partsByAsset,
  runPartitions,
} from "./plan.ts";
import type { BackfillRow, BackfillState, ChunkPart, ChunkRow } from "./rows.ts";
import { windowChange } from "./window.ts";

/** Most chunks that one decision plans; the backfill stays dirty while more may be planned. */
const CHUNKS_PLANNED_MAX = 50;
/** Rows of a chunk besides its tasks and assets: chunk, run, run key and backfill. */
const ROWS_BESIDE_TASKS = 4;

/**
 * Moves a backfill on: opens and closes its window, starts it, plans as many chunks as its concurrency
 * and the decision leave room for, pauses it at its failure limit, and ends it when nothing is left.
 */
export const planChunks: Controller<BackfillRow> = (rows, backfill, context) => {
  switch (backfill.state) {
    case "PENDING":
    case "RUNNING": {
      const isPending = backfill.state === "PENDING";
      if (isPending && !mayStart(rows, backfill)) return [];
      const change = windowChange(backfill, context.now);
      if (change !== null) return [change];
      if (!isPending) return planRunning(rows, backfill, context);
      // It stays as it is until it may plan something.
      return backfill.window_open === 1 ? [stateChanged(backfill, "RUNNING")] : [];
    }
    case "CANCELLING":
      if (activeChunks(backfill) > 0) {
        return backfill.cancel_runs === 1 ? cancelActiveRuns(rows, backfill, context) : [];
      }
      return [stateChanged(backfill, "CANCELLED", { reason: backfill.reason })];
    default:
      return [];
  }
};

/** Chunks that are planned or running. */
export function activeChunks(backfill: BackfillRow): number {
  return backfill.chunks_planned + backfill.chunks_running;
}

/** A backfill that follows another waits for its end, and for its success unless it goes on anyway. */
function mayStart(rows: Rows, backfill: BackfillRow): boolean {
  if (backfill.after_backfill_id === null) return true;
  const earlier = rows.backfills.get(backfill.after_backfill_id);
  if (earlier === null || !isTerminalBackfill(earlier.state)) return earlier === null;
  return earlier.state === "SUCCEEDED" || backfill.continue_on_failure === 1;
}

function planRunning(rows: Rows, backfill: BackfillRow, context: Context): NewEvent[] {
  const pending = pendingChunks(backfill);
  // Before the limit: there is nothing left that a pause could hold back.
  if (pending === 0) {
    if (activeChunks(backfill) > 0) return [];
    const failed = backfill.chunks_failed + backfill.chunks_cancelled > 0;
    return [stateChanged(backfill, failed ? "FAILED" : "SUCCEEDED")];
  }
  // Outside its window, too: who decides about it is told at once, not when it opens again.
  const reason = failureLimitReached(rows, backfill);
  if (reason !== null) return [stateChanged(backfill, "PAUSED", { reason, limitReached: true })];
  const room = backfill.max_concurrent_runs - activeChunks(backfill);
  const count = Math.min(room, pending, CHUNKS_PLANNED_MAX);
  const inOrder = count > 0 ? assetsInOrder(rows, backfill) : [];
  const held = inOrder.length > 0 ? heldBack(rows, backfill, inOrder) : null;
  if (held !== null) return [stateChanged(backfill, "PAUSED", { reason: held })];
  // What runs goes on to its end; the time at which it opens leads to the next look.
  if (backfill.window_open === 0 || count <= 0) return [];

  const plan = backfillPlan(rows, backfill);
  const used = new RoomUsed(context.room);
  const events: NewEvent[] = [];
  const next = inOrder.length > 0 ? firstTile(rows, backfill) : null;
  for (const index of next === null ? nextChunks(backfill, count) : [next]) {
    const planned = planOrRefusal(rows, backfill, plan, index, context);
    // Planned again it would be as long: a person has to know. What comes before it is fine.
    if (planned instanceof PawlError) {
      return events.length > 0 ? events : [pausedAt(backfill, index, planned)];
    }
    events.push(...planned.events);
    used.add(planned.rows, planned.bytes);
    if (used.isUp) break;
  }
  return events;
}

type PlannedChunk = { events: NewEvent[]; rows: number; bytes: number };

/** A planned chunk, or why it is larger than anything can be that is recorded. */
function planOrRefusal(
  rows: Rows,
  backfill: BackfillRow,
  plan: BackfillPlan,
  chunkIndex: number,
  context: Context,
): PlannedChunk | PawlError {
  try {
    return planChunk(rows, backfill, plan, chunkIndex, context);
  } catch (error) {
    if (error instanceof PawlError && error.code === "SELECTION_TOO_LARGE") return error;
    throw error;
  }
}

function pausedAt(backfill: BackfillRow, chunkIndex: number, { message }: PawlError): NewEvent {
  const reason = `chunk ${chunkIndex} cannot be planned: ${message} Cancel it and create another.`;
  return stateChanged(backfill, "PAUSED", { reason });
}

/** Tiles of split chunks first, so that what failed is narrowed down soon. */
function nextChunks(backfill: BackfillRow, count: number): number[] {
  const tiles = backfill.pending_tiles.slice(0, count);
  const rest = Math.min(count - tiles.length, backfill.base_chunks - backfill.next_chunk);
  return [...tiles, ...Array.from({ length: rest }, (_, index) => backfill.next_chunk + index)];
}

function planChunk(
  rows: Rows,
  backfill: BackfillRow,
  plan: BackfillPlan,
  chunkIndex: number,
  context: Context,
): PlannedChunk {
  const { backfill_id } = backfill;
  const tile = chunkIndex >= backfill.base_chunks ? rows.chunks.get(backfill_id, chunkIndex) : null;
  const generation = tile?.generation ?? 0;
  const parts = tile?.parts ?? chunkParts(rows, backfill, plan, chunkIndex);
  const taking = assetsOfParts(parts, plan.assets.length);
  const assets = taking.map((index) => present(plan.assets[index], "parts name known assets"));
  const chunk_id = chunkIdOf(backfill_id, chunkIndex);
  const run_key = chunkRunKey(backfill_id, chunkIndex, generation);
  const partitions = runPartitions(plan, parts, taking);
  const request = runRequested(context, run_key, assets, partitions, {
    config: backfill.config,
    labels: backfill.labels,
    code_version: backfill.code_version,
    priority: backfill.priority,
    class: RUN_CLASS.backfill,
    retry: backfill.retry,
    trigger_source_ref: { type: "backfill", backfill_id, chunk_id, generation },
    backfill_id,
    chunk_index: chunkIndex,
  });
  const keysLength = lengthOf(partitions?.keys ?? []);
  if (mayBeTooLong(request, keysLength)) eventBody(request);
  const planned: NewEvent = {
    type: "BackfillChunkPlanned",
    idempotency_key: IDEMPOTENCY_KEYS.chunk(backfill_id, chunkIndex, generation),
    data: {
      backfill_id,
      backfill_pos: backfill.created_pos,
      chunk_id,
      chunk_index: chunkIndex,
      generation,
      parts,
      partitions: pairsOf(parts, plan.assets.length),
      run_key,
      request_fingerprint: request.data.request_fingerprint,
    },
  };
  const count = partitions?.keys.length ?? 0;
  const { tasks } = sizeOfRun(request.data.tasks, count);
  return {
    events: [planned, request],
    rows: tasks + assets.length + ROWS_BESIDE_TASKS + count * KEY_COST,
    bytes: keysLength,
  };
}

/** Characters of keys, and edges, up to which a request cannot come near the most that is recorded. */
const KEYS_LENGTH_SAFE = 300_000;
const EDGES_SAFE = 10_000;

/** Whether to measure a request, which costs as much as writing it: its keys, edges or config are long. */
function mayBeTooLong({ data }: NewEvent & { type: "RunRequested" }, keysLength: number): boolean {
  let edges = 0;
  for (const { upstream } of data.tasks) {
    for (const each of upstream) if (typeof each.edges !== "string") edges += each.edges.length;
  }
  return data.config !== null || keysLength > KEYS_LENGTH_SAFE || edges > EDGES_SAFE;
}

/** The reason to pause, when the failures have reached the limit for the first time. */
function failureLimitReached(rows: Rows, backfill: BackfillRow): string | null {
  const { failure_limit, failure_limit_reached, partitions_failed, partitions_total } = backfill;
  if (failure_limit === null || failure_limit_reached === 1 || partitions_failed === 0) return null;
  const most =
    "count" in failure_limit
      ? failure_limit.count
      : (partitions_total * failure_limit.percent) / 100;
  if (partitions_failed < most) return null;
  const failed = partitions_failed - aboutToSplit(rows, backfill);
  if (failed < most || failed === 0) return null;
  return "count" in failure_limit
    ? `${failed} partitions failed, and the failure limit is ${failure_limit.count}`
    : `${failed} of ${partitions_total} partitions failed, ` +
        `and the failure limit is ${failure_limit.percent} %`;
}

/**
 * Failures in unfinished runs of a batch that failed as a whole: the split at the run's end takes
 * them back and its tiles are tried again, so they are not the failures that a limit counts.
 */
function aboutToSplit(rows: Rows, backfill: BackfillRow): number {
  if (!backfillPlan(rows, backfill).assets.some(({ spec }) => spec.batch && spec.bisect)) return 0;
  const where = [
    { cell: "backfill_id", is: "=", value: backfill.backfill_id },
    ACTIVE_RUNS,
    { cell: "tasks_failed", is: ">", value: 0 },
  ] as const;
  const runs = rows.runs.find(where, [{ cell: "run_pos" }], activeChunks(backfill));
  return runs.reduce((sum, run) => sum + failedBeforeSplit(rows, run), 0);
}

function failedBeforeSplit(rows: Rows, run: RunRow): number {
  let failed = 0;
  let splits = false;
  for (const asset of assetsOfRun(rows, run)) {
    const bisects = asset.batch === 1 && pinnedSpec(rows, asset.spec_hash).bisect;
    for (const task of tasksOfAsset(rows, asset)) {
      const size = sizeOfTask(run, asset, task);
      const neverStarted = task.state === "SKIPPED" && task.started_pos === null;
      if (task.state === "FAILED" || neverStarted) failed += size;
      splits ||= bisects && task.state === "FAILED" && task.remaining === null && size > 1;
    }
  }
  return splits ? failed : 0;
}

/** What a change of state says besides the state. */
type StateChange = {
  reason?: string | null;
  limitReached?: boolean;
  changedBy?: string;
  cancelRuns?: boolean;
};

/** The event that moves a backfill to another state. */
export function stateChanged(
  backfill: BackfillRow,
  toState: BackfillState,
  change: StateChange = {},
): NewEvent {
  const state_version = backfill.state_version + 1;
  return {
    type: "BackfillStateChanged",
    idempotency_key: IDEMPOTENCY_KEYS.backfillState(backfill.backfill_id, state_version, toState),
    data: {
      backfill_id: backfill.backfill_id,
      backfill_pos: backfill.created_pos,
      from_state: backfill.state,
      to_state: toState,
      state_version,
      changed_by: change.changedBy ?? null,
      reason: change.reason ?? null,
      failure_limit_reached: change.limitReached ?? false,
      cancel_runs: change.cancelRuns ?? false,
    },
  };
}

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
    { cell: "failed", is: ">", value: 0 },
  ];
  const order = [{ cell: "run_pos" }, { cell: "block" }];
  const blocks = rows.taskBlocks.find(where, order, runs.length * RUN_TASKS_MAX);
  const tasks = Map.groupBy(
    blocks.flatMap((block) => tasksIn(block, ["FAILED", "SKIPPED"])),
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
