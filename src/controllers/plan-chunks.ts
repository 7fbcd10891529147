import type { NewEvent } from "../core/events/index.ts";
import { isTerminalBackfill, pendingChunks } from "../core/fold/fold-backfills.ts";
import { chunkIdOf, chunkRunKey, IDEMPOTENCY_KEYS } from "../core/keys.ts";
import { present } from "../core/assert.ts";
import type { BackfillRow, BackfillState } from "../core/rows/backfill-rows.ts";
import type { Rows } from "../core/rows/rows.ts";
import {
  assetsOfParts,
  type BackfillPlan,
  backfillPlan,
  chunkParts,
  runPartitions,
} from "./backfill-plan.ts";
import { pairsOf } from "./chunk-parts.ts";
import type { Context, Controller } from "./decision.ts";
import { RUN_CLASS, runRequested } from "./request-run.ts";

/** Most chunks that one decision plans; the backfill stays dirty while there is room for more. */
const CHUNKS_PLANNED_MAX = 50;

/**
 * Moves a backfill on: starts it, plans as many chunks as its concurrency leaves room for, pauses
 * it at its failure limit, and ends it when nothing is left.
 */
export const planChunks: Controller<BackfillRow> = (rows, backfill, context) => {
  switch (backfill.state) {
    case "PENDING":
      return mayStart(rows, backfill) ? [stateChanged(backfill, "RUNNING", null)] : [];
    case "RUNNING":
      return planRunning(rows, backfill, context);
    case "CANCELLING":
      return activeChunks(backfill) === 0
        ? [stateChanged(backfill, "CANCELLED", backfill.reason)]
        : [];
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
  const limit = failureLimitReached(backfill);
  if (limit !== null) return [stateChanged(backfill, "PAUSED", limit, true)];

  const pending = pendingChunks(backfill);
  if (pending === 0 && activeChunks(backfill) === 0) {
    const failed = backfill.chunks_failed + backfill.chunks_cancelled > 0;
    return [stateChanged(backfill, failed ? "FAILED" : "SUCCEEDED", null)];
  }
  const room = backfill.max_concurrent_runs - activeChunks(backfill);
  const count = Math.min(room, pending, CHUNKS_PLANNED_MAX);
  if (count <= 0) return [];
  const plan = backfillPlan(rows, backfill);
  return nextChunks(backfill, count).flatMap((index) =>
    planChunk(rows, backfill, plan, index, context),
  );
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
): NewEvent[] {
  const { backfill_id } = backfill;
  const tile = chunkIndex >= backfill.base_chunks ? rows.chunks.get(backfill_id, chunkIndex) : null;
  const generation = tile?.generation ?? 0;
  const parts = tile?.parts ?? chunkParts(rows, backfill, plan, chunkIndex);
  const taking = assetsOfParts(parts, plan.assets.length);
  const assets = taking.map((index) => present(plan.assets[index], "parts name known assets"));
  const chunk_id = chunkIdOf(backfill_id, chunkIndex);
  const run_key = chunkRunKey(backfill_id, chunkIndex, generation);
  const request = runRequested(context, run_key, assets, runPartitions(plan, parts, taking), {
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
  return [
    {
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
    },
    request,
  ];
}

/** The reason to pause, when the failures have reached the limit for the first time. */
function failureLimitReached(backfill: BackfillRow): string | null {
  const { failure_limit, failure_limit_reached, partitions_failed, partitions_total } = backfill;
  if (failure_limit === null || failure_limit_reached === 1 || partitions_failed === 0) return null;
  if ("count" in failure_limit) {
    return partitions_failed >= failure_limit.count
      ? `${partitions_failed} partitions failed, and the failure limit is ${failure_limit.count}`
      : null;
  }
  const percent = (100 * partitions_failed) / partitions_total;
  return percent >= failure_limit.percent
    ? `${partitions_failed} of ${partitions_total} partitions failed, ` +
        `and the failure limit is ${failure_limit.percent} %`
    : null;
}

/** The event that moves a backfill to another state. */
export function stateChanged(
  backfill: BackfillRow,
  toState: BackfillState,
  reason: string | null,
  limitReached = false,
  changedBy: string | null = null,
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
      changed_by: changedBy,
      reason,
      failure_limit_reached: limitReached,
    },
  };
}
