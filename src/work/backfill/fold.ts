import { assert, present } from "../../kernel/errors.ts";
import { intervalsOf } from "../../kernel/intervals.ts";
import type { Folding, Recorded } from "../fold.ts";
import type { Rows } from "../rows.ts";
import type { FoldedRuns } from "../kind.ts";
import type { RunRow } from "../run/rows.ts";
import { indexesOf } from "../run/tasks.ts";
import {
  type BackfillRow,
  type BackfillState,
  type ChunkPart,
  NEW_CHUNK,
  type OrdinalsByAsset,
} from "./rows.ts";

/** A backfill that an event is about, which therefore exists. */
export function backfillOf(rows: Rows, backfillId: string): BackfillRow {
  return present(rows.backfills.get(backfillId), () => `backfill ${backfillId} exists`);
}

/** Whether a backfill has ended. */
export function isTerminalBackfill(state: BackfillState): boolean {
  return state === "SUCCEEDED" || state === "FAILED" || state === "CANCELLED";
}

/** Chunks that are neither planned nor ended. */
export function pendingChunks(backfill: BackfillRow): number {
  return (
    backfill.total_chunks -
    backfill.chunks_planned -
    backfill.chunks_running -
    backfill.chunks_succeeded -
    backfill.chunks_failed -
    backfill.chunks_cancelled
  );
}

/** Pairs of asset and partition that are neither planned nor ended. */
export function pendingPartitions(backfill: BackfillRow): number {
  return (
    backfill.partitions_total -
    backfill.partitions_planned -
    backfill.partitions_running -
    backfill.partitions_succeeded -
    backfill.partitions_failed -
    backfill.partitions_cancelled
  );
}

/** Writes a backfill and checks that its counters still make sense. */
export function putBackfill(rows: Rows, backfill: BackfillRow): void {
  assert(
    backfill.chunks_planned >= 0 && backfill.chunks_running >= 0 && pendingChunks(backfill) >= 0,
    () => `the chunks of ${backfill.backfill_id} add up`,
  );
  assert(
    backfill.partitions_planned >= 0 &&
      backfill.partitions_running >= 0 &&
      backfill.partitions_failed >= 0 &&
      pendingPartitions(backfill) >= 0,
    () => `the partitions of ${backfill.backfill_id} add up`,
  );
  rows.backfills.put(backfill);
}

const NO_COUNTS = {
  chunks_planned: 0,
  chunks_running: 0,
  chunks_succeeded: 0,
  chunks_failed: 0,
  chunks_cancelled: 0,
  partitions_planned: 0,
  partitions_running: 0,
  partitions_succeeded: 0,
  partitions_failed: 0,
  partitions_cancelled: 0,
  partitions_skipped: 0,
};

const backfillCreated: Folding<"BackfillCreated"> = {
  subject: (_data, pos) => pos,
  touches: ({ backfill_id, after_backfill_id, request }) => [
    ["backfills", [backfill_id]],
    ...(request === null ? [] : [["requestKeys", [request.request_key]] as const]),
    ...(after_backfill_id === null ? [] : [["backfills", [after_backfill_id]] as const]),
  ],
  apply(rows, { data, pos, occurred_at }) {
    const { total_pairs, request, timing, ...created } = data;
    assert(rows.backfills.get(data.backfill_id) === null, "a backfill is created once");
    if (request !== null) {
      const known = rows.requestKeys.get(request.request_key);
      assert(known === null, () => `the request ${request.request_key} makes backfills once`);
      rows.requestKeys.put(request);
    }
    rows.backfills.put({
      ...NO_COUNTS,
      ...created,
      removed: data.removed ?? null,
      continue_on_failure: data.continue_on_failure ? 1 : 0,
      created_pos: pos,
      state: "PENDING",
      state_version: 1,
      reason: null,
      failure_limit_reached: 0,
      cancel_runs: 0,
      start_at: timing?.start_at ?? null,
      window: timing?.window ?? null,
      window_open: timing?.is_open === false ? 0 : 1,
      window_changes_at: timing?.changes_at ?? null,
      followers: [],
      base_chunks: data.total_chunks,
      next_chunk: 0,
      pending_tiles: [],
      tiles_made: 0,
      partitions_total: total_pairs,
      first_error: null,
      created_at: occurred_at,
      started_at: null,
      finished_at: null,
      row_version: pos,
    });
    if (data.after_backfill_id === null) return;
    const earlier = backfillOf(rows, data.after_backfill_id);
    rows.backfills.put({ ...earlier, followers: [...earlier.followers, data.backfill_id] });
  },
};

const windowChanged: Folding<"BackfillWindowChanged"> = {
  subject: ({ backfill_pos }) => backfill_pos,
  touches: ({ backfill_id }) => [["backfills", [backfill_id]]],
  apply(rows, { data, pos }) {
    rows.backfills.put({
      ...backfillOf(rows, data.backfill_id),
      window_open: data.is_open ? 1 : 0,
      window_changes_at: data.changes_at,
      row_version: pos,
    });
  },
};

const keysSurveyed: Folding<"KeysSurveyed"> = {
  subject: ({ backfill_pos }) => backfill_pos,
  touches: ({ backfill_id, page }) => [["surveyPages", [backfill_id, page]]],
  apply(rows, { data }) {
    assert(rows.surveyPages.get(data.backfill_id, data.page) === null, "a page is surveyed once");
    const { backfill_id, page, first_index, count, parts } = data;
    rows.surveyPages.put({ backfill_id, page, first_index, count, parts });
  },
};

const chunkPlanned: Folding<"BackfillChunkPlanned"> = {
  subject: ({ backfill_pos }) => backfill_pos,
  touches: ({ backfill_id, chunk_index }) => [
    ["backfills", [backfill_id]],
    ["chunks", [backfill_id, chunk_index]],
  ],
  apply(rows, { data, pos, occurred_at }) {
    const { backfill_id, chunk_index, generation, parts, partitions } = data;
    const backfill = backfillOf(rows, backfill_id);
    const before = rows.chunks.get(backfill_id, chunk_index);
    assert(backfill.state === "RUNNING", () => `${backfill_id} is running when a chunk is planned`);
    assert(backfill.window_open === 1, () => `the window of ${backfill_id} is open`);
    assert(
      backfill.chunks_planned + backfill.chunks_running < backfill.max_concurrent_runs,
      () => `${backfill_id} has room for another chunk`,
    );
    const isTile = chunk_index >= backfill.base_chunks;
    if (isTile)
      assert(before?.state === "PENDING", () => `tile ${chunk_index} waits to be planned`);
    else assert(before === null && chunk_index === backfill.next_chunk, "chunks come in order");
    rows.chunks.put({
      ...NEW_CHUNK,
      backfill_id,
      chunk_index,
      generation,
      state: "PLANNED",
      parts,
      partitions,
      planned_at: occurred_at,
      row_version: pos,
    });
    putBackfill(rows, {
      ...backfill,
      next_chunk: isTile ? backfill.next_chunk : backfill.next_chunk + 1,
      pending_tiles: isTile
        ? backfill.pending_tiles.filter((tile) => tile !== chunk_index)
        : backfill.pending_tiles,
      chunks_planned: backfill.chunks_planned + 1,
      partitions_planned: backfill.partitions_planned + partitions,
      row_version: pos,
    });
  },
};

const chunkSplit: Folding<"BackfillChunkSplit"> = {
  subject: ({ backfill_pos }) => backfill_pos,
  touches: ({ backfill_id, chunk_index, tiles }) => [
    ["backfills", [backfill_id]],
    ["chunks", [backfill_id, chunk_index]],
    ...tiles.map((tile) => ["chunks", [backfill_id, tile.chunk_index]] as const),
  ],
  apply(rows, { data, pos, occurred_at }) {
    const { backfill_id, chunk_index, tiles, partitions } = data;
    const backfill = backfillOf(rows, backfill_id);
    const chunk = present(rows.chunks.get(backfill_id, chunk_index), "the split chunk exists");
    assert(chunk.state === "RUNNING", "a chunk is split when its run has failed");
    rows.chunks.put({
      ...chunk,
      state: "SPLIT",
      split_into: tiles.map((tile) => tile.chunk_index),
      finished_at: occurred_at,
      row_version: pos,
    });
    for (const tile of tiles) {
      rows.chunks.put({
        ...NEW_CHUNK,
        backfill_id,
        chunk_index: tile.chunk_index,
        generation: chunk.generation,
        state: "PENDING",
        parts: tile.parts,
        partitions: tile.partitions,
        row_version: pos,
      });
    }
    putBackfill(rows, {
      ...backfill,
      total_chunks: backfill.total_chunks - 1 + tiles.length,
      chunks_running: backfill.chunks_running - 1,
      partitions_failed: backfill.partitions_failed - partitions,
      pending_tiles: [...backfill.pending_tiles, ...tiles.map((tile) => tile.chunk_index)],
      tiles_made: backfill.tiles_made + tiles.length,
      row_version: pos,
    });
  },
};

const backfillStateChanged: Folding<"BackfillStateChanged"> = {
  subject: ({ backfill_pos }) => backfill_pos,
  touches: ({ backfill_id }) => [["backfills", [backfill_id]]],
  apply(rows, { data, pos, occurred_at }) {
    const before = backfillOf(rows, data.backfill_id);
    assert(before.state === data.from_state, () => `${data.backfill_id} is ${data.from_state}`);
    assert(data.state_version === before.state_version + 1, "state versions grow by one");
    const ended = isTerminalBackfill(data.to_state);
    const after: BackfillRow = {
      ...before,
      state: data.to_state,
      state_version: data.state_version,
      reason: data.reason,
      failure_limit_reached: data.failure_limit_reached ? 1 : before.failure_limit_reached,
      cancel_runs: data.cancel_runs ? 1 : before.cancel_runs,
      started_at: before.started_at ?? (data.to_state === "RUNNING" ? occurred_at : null),
      finished_at: ended ? occurred_at : null,
      row_version: pos,
    };
    if (ended) {
      assert(
        before.chunks_planned === 0 && before.chunks_running === 0,
        () => `${data.backfill_id} ends when no chunk is active`,
      );
      // What was never planned will not be: it counts as cancelled.
      after.chunks_cancelled += pendingChunks(before);
      after.partitions_cancelled += pendingPartitions(before);
      after.pending_tiles = [];
      // Nothing is due any more.
      after.window_changes_at = null;
    }
    putBackfill(rows, after);
  },
};

const backfillRetuned: Folding<"BackfillRetuned"> = {
  subject: ({ backfill_pos }) => backfill_pos,
  touches: ({ backfill_id }) => [["backfills", [backfill_id]]],
  apply(rows, { data, pos }) {
    const backfill = backfillOf(rows, data.backfill_id);
    assert(data.state_version === backfill.state_version + 1, "state versions grow by one");
    putBackfill(rows, {
      ...backfill,
      state_version: data.state_version,
      max_concurrent_runs: data.max_concurrent_runs ?? backfill.max_concurrent_runs,
      priority: data.priority ?? backfill.priority,
      row_version: pos,
    });
  },
};

/** Runs of chunks. */
export const CHUNK_RUNS: FoldedRuns = {
  touchesAsked: ({ backfill_id, chunk_index }) =>
    backfill_id === null || chunk_index === null ? [] : [["chunks", [backfill_id, chunk_index]]],
  touches: ({ backfill_id, chunk_index }) =>
    backfill_id === null || chunk_index === null
      ? []
      : [
          ["backfills", [backfill_id]],
          ["chunks", [backfill_id, chunk_index]],
        ],
  queued(rows, { data, pos }) {
    if (data.backfill_id === null || data.chunk_index === null) return;
    const chunk = rows.chunks.get(data.backfill_id, data.chunk_index);
    assert(chunk?.state === "PLANNED", "the chunk of a run is planned");
    rows.chunks.put({ ...chunk, run_pos: pos, run_id: data.run_id, row_version: pos });
  },
  runStarted(rows, { data, pos }) {
    if (data.backfill_id === null || data.chunk_index === null) return;
    const chunk = present(rows.chunks.get(data.backfill_id, data.chunk_index), "its chunk exists");
    rows.chunks.put({ ...chunk, state: "RUNNING", row_version: pos });
    const backfill = backfillOf(rows, data.backfill_id);
    putBackfill(rows, {
      ...backfill,
      chunks_planned: backfill.chunks_planned - 1,
      chunks_running: backfill.chunks_running + 1,
      row_version: pos,
    });
  },
  counted(rows, { backfill_id }, counts, { pos }) {
    if (backfill_id === null) return;
    const backfill = backfillOf(rows, backfill_id);
    putBackfill(rows, {
      ...backfill,
      partitions_planned: backfill.partitions_planned + counts.planned,
      partitions_running: backfill.partitions_running + counts.running,
      partitions_succeeded: backfill.partitions_succeeded + counts.succeeded,
      partitions_failed: backfill.partitions_failed + counts.failed,
      partitions_cancelled: backfill.partitions_cancelled + counts.cancelled,
      partitions_skipped: backfill.partitions_skipped + counts.skipped,
      row_version: pos,
    });
  },
  finished: finishChunk,
};

function finishChunk(rows: Rows, run: RunRow, event: Recorded<"RunFinished">): void {
  const { data, pos, occurred_at } = event;
  if (data.backfill_id === null || data.chunk_index === null) return;
  const backfill = backfillOf(rows, data.backfill_id);
  const chunk = present(rows.chunks.get(data.backfill_id, data.chunk_index), "its chunk exists");
  const first_error = backfill.first_error ?? run.first_error;
  const toOrdinals = (lists: Recorded<"RunFinished">["data"]["failed"]): OrdinalsByAsset | null =>
    lists.length === 0
      ? null
      : lists.map(({ asset, indexes }) => ({
          asset: backfill.asset_selection.indexOf(run.asset_selection[asset] ?? ""),
          ordinals: ordinalsOf(chunk.parts, indexesOf(indexes, 0)),
        }));
  const ended = {
    ...chunk,
    failed: toOrdinals(data.failed),
    cancelled: toOrdinals(data.cancelled),
    skipped: toOrdinals(data.skipped),
    row_version: pos,
  };
  if (data.splits) {
    // It stays RUNNING for the BackfillChunkSplit beside this event, which replaces it.
    assert(chunk.state === "RUNNING", "a chunk that is split has run");
    rows.chunks.put(ended);
    putBackfill(rows, { ...backfill, first_error, row_version: pos });
    return;
  }
  rows.chunks.put({ ...ended, state: data.outcome, finished_at: occurred_at });
  const wasRunning = chunk.state === "RUNNING" ? 1 : 0;
  putBackfill(rows, {
    ...backfill,
    chunks_planned: backfill.chunks_planned - (1 - wasRunning),
    chunks_running: backfill.chunks_running - wasRunning,
    chunks_succeeded: backfill.chunks_succeeded + (data.outcome === "SUCCEEDED" ? 1 : 0),
    chunks_failed: backfill.chunks_failed + (data.outcome === "FAILED" ? 1 : 0),
    chunks_cancelled: backfill.chunks_cancelled + (data.outcome === "CANCELLED" ? 1 : 0),
    first_error,
    row_version: pos,
  });
}

/** The ordinals at the given places among a chunk's partitions. */
function ordinalsOf(parts: readonly ChunkPart[], places: readonly number[]): [number, number][] {
  const ordinals = parts.flatMap(({ from, to }) =>
    Array.from({ length: to - from + 1 }, (_, offset) => from + offset),
  );
  return intervalsOf(
    places.map((place) => present(ordinals[place], "a run's partitions are its chunk's")),
  ).map(([from, to]) => [from, to]);
}

/** The foldings of backfills and their chunks. */
export const BACKFILL_FOLDS = {
  BackfillCreated: backfillCreated,
  BackfillWindowChanged: windowChanged,
  KeysSurveyed: keysSurveyed,
  BackfillChunkPlanned: chunkPlanned,
  BackfillChunkSplit: chunkSplit,
  BackfillStateChanged: backfillStateChanged,
  BackfillRetuned: backfillRetuned,
};
