import type { NewEvent } from "../core/events/index.ts";
import type { SegmentEndField } from "../core/events/run-events.ts";
import { sizeOfSegment } from "../core/fold/fold-segments.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { RunRow, RunState } from "../core/rows/run-rows.ts";
import { ABANDONED_CLASS, type SegmentRow, type SyncRow } from "../core/rows/sync-rows.ts";
import { present } from "../core/assert.ts";
import type { Failure } from "../core/rows/backfill-rows.ts";
import { pinnedSync } from "./asset-lookup.ts";
import type { Context } from "./decision.ts";
import { reopenSegments } from "./reopen-segments.ts";
import { hashConflict } from "./report-segment.ts";
import { assetsOfRun, segmentOfRun, tasksOfAsset } from "./run-lookup.ts";
import { currentSync, syncedTo } from "./sync-lookup.ts";
import { syncReopened } from "./sync-state.ts";

/** Most blocks of a piece of tail that swallows its neighbours, unless segments may not be so small. */
const TAIL_SIZE = 1_000;

/** Longest message of an error in an event. */
const MESSAGE_LENGTH_MAX = 2_000;

/** What the end of its run makes of a segment, and what has to be recorded after that. */
export type SegmentEnd = { end: SegmentEndField; after: NewEvent[] };

const RELEASED: SegmentEnd = { end: { becomes: "released" }, after: [] };

/** What becomes of the segment of a run that ends; the run's tasks have all ended. */
export function segmentEnd(
  rows: Rows,
  run: RunRow,
  outcome: Extract<RunState, "SUCCEEDED" | "FAILED" | "CANCELLED">,
  context: Context,
): SegmentEnd {
  const ref = present(segmentOfRun(run), "the run is about a segment");
  const sync = present(rows.syncs.get(ref.sync_id), "a segment's run has its sync");
  const segment = rows.segments.get(ref.sync_id, ref.segment_index);
  if (segment === null || segment.generation !== ref.generation) return RELEASED;
  if (ref.purpose === "verify") return afterVerification(rows, sync, segment, context);
  switch (outcome) {
    case "CANCELLED":
      return pending(run.cancel_reason ?? "its run was cancelled", false);
    case "FAILED": {
      const failure = run.first_error ?? { class: "user", message: "its run failed" };
      const error = abandonment(rows, run, failure) ?? failure;
      return { end: { becomes: "quarantined", error }, after: [] };
    }
    case "SUCCEEDED":
      return { end: fetched(rows, sync, segment), after: [] };
  }
}

/** Why a segment is abandoned whose tries are used up; null where that is not wanted, or not why it failed. */
function abandonment(rows: Rows, run: RunRow, failure: Failure): Failure | null {
  const asset = present(assetsOfRun(rows, run)[0], "a segment's run has one task");
  const { abandon_after: most } = pinnedSync(rows, asset.spec_hash);
  const failures = tasksOfAsset(rows, asset)[0]?.failures ?? 0;
  if (most === undefined || failures < most) return null;
  const attempts = most === 1 ? "1 failed attempt" : `${failures} failed attempts`;
  const last = (tasksOfAsset(rows, asset)[0]?.error ?? failure).message;
  const message = `It was abandoned after ${attempts}. The last one: ${last}`;
  return { class: ABANDONED_CLASS, message: message.slice(0, MESSAGE_LENGTH_MAX) };
}

function pending(reason: string, undo: boolean): SegmentEnd {
  return { end: { becomes: "pending", reason, undo }, after: [] };
}

/** A verification leaves the segment as it is; what did not pass is fetched again where that was asked. */
function afterVerification(
  rows: Rows,
  sync: SyncRow,
  segment: SegmentRow,
  context: Context,
): SegmentEnd {
  const { verification, status } = segment;
  const isWrong = verification?.status === "FAILED" && verification.repair;
  if (!isWrong || status !== "COMPLETE" || sync.state === "REMOVED") return RELEASED;
  const note = verification.note === null ? "" : `: ${verification.note}`;
  const reason = `its verification failed${note}`;
  const cause = {
    cause: "verification",
    reason,
    changed_by: null,
    undo: true,
    rewrites_seen: null,
  } as const;
  const range = { from: segment.from_block, to: segment.to_block };
  const found = { segments: [segment], runs: new Map(), isAll: true };
  const after = reopenSegments(rows, sync, range, found, cause, context);
  return { ...RELEASED, after: [...after, ...syncReopened(sync, reason)] };
}

function fetched(rows: Rows, sync: SyncRow, segment: SegmentRow): SegmentEndField {
  if (segment.last_processed_block !== segment.to_block) {
    const done = segment.last_processed_block ?? "nothing";
    const reason = `its run ended before its last block: it has ${done} of ${segment.to_block}`;
    return { becomes: "pending", reason, undo: false };
  }
  // Judged when it was reported; the source may have been looked at since.
  const changed = hashConflict(rows, segment, segment.end_hash);
  if (changed !== null) return { becomes: "pending", reason: changed, undo: true };
  if (segment.set_aside !== null) return setAside(rows, sync, segment, segment.set_aside);
  return {
    becomes: "complete",
    synced_to: syncedTo(rows, sync, { completing: segment.segment_index }),
    merged_into: swallowedBy(rows, sync, segment)?.segment_index ?? null,
  };
}

/** The pieces that take the place of a segment of which some blocks could not be fetched. */
function setAside(
  rows: Rows,
  sync: SyncRow,
  segment: SegmentRow,
  blocks: NonNullable<SegmentRow["set_aside"]>,
): SegmentEndField {
  const [only] = blocks;
  if (only !== undefined && sizeOfSegment(segment) === 1) {
    return { becomes: "quarantined", error: only.error };
  }
  const tiles: Extract<SegmentEndField, { becomes: "split" }>["tiles"] = [];
  const add = (from_block: number, to_block: number, error: (typeof tiles)[number]["error"]) => {
    if (from_block > to_block) return;
    const segment_index = sync.next_segment + tiles.length;
    tiles.push({ segment_index, from_block, to_block, error });
  };
  let next = segment.from_block;
  for (const { block, error } of blocks.toSorted((a, b) => a.block - b.block)) {
    if (block < next || block > segment.to_block) continue;
    add(next, block - 1, null);
    add(block, block, error);
    next = block + 1;
  }
  add(next, segment.to_block, null);
  const openedFrom = tiles.find(({ error }) => error !== null)?.from_block ?? null;
  const change = { completing: segment.segment_index, openedFrom };
  return { becomes: "split", synced_to: syncedTo(rows, sync, change), tiles };
}

/** The complete piece of tail right before a piece of tail that is small enough to take it in. */
function swallowedBy(rows: Rows, sync: SyncRow, segment: SegmentRow): SegmentRow | null {
  const spec = currentSync(rows, sync.name)?.spec;
  if (segment.kind !== "tail" || spec === undefined) return null;
  const where = [
    { cell: "sync_id", is: "=", value: sync.sync_id },
    { cell: "from_block", is: "<", value: segment.from_block },
  ] as const;
  const [left] = rows.segments.find(where, [{ cell: "from_block", descending: true }], 1);
  if (left === undefined || left.kind !== "tail" || left.status !== "COMPLETE") return null;
  if (left.excluded !== null || left.verification !== null) return null;
  const size = segment.to_block - left.from_block + 1;
  return size <= Math.max(spec.segments.min_size, TAIL_SIZE) ? left : null;
}
