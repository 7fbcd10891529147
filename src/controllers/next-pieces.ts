import type { Rows } from "../core/rows/rows.ts";
import type { SyncRow } from "../core/rows/sync-rows.ts";
import type { SyncSpec } from "../core/sync-spec.ts";
import { planSegments } from "./plan-segments.ts";

/** Pieces of tail that may wait or run before more is added. */
const TAILS_OPEN_MAX = 4;
/** Most pieces that one event adds. */
const PIECES_MAX = 365;

/** Segments to add behind those there are: what they are, and the last block of each. */
export type Pieces = { kind: "history" | "tail"; ends: number[] };

/** What to add to a plan that ends before `end`; null when there is nothing to add now. */
export function nextPieces(
  rows: Rows,
  sync: SyncRow,
  spec: SyncSpec,
  end: number | null,
): Pieces | null {
  const { planned_to } = sync;
  if (planned_to === null || end === null || end <= planned_to) return null;
  const from = planned_to + 1;
  const gap = end - planned_to;
  // A history of a few blocks must not cut all that follows as small.
  const size = Math.max(sync.segment_size ?? 1, spec.segments.min_size);
  const isTail = gap <= size;
  if (!spec.splittable) {
    const isOpen = sync.segments_complete < sync.segments_total;
    return isOpen ? null : { kind: isTail ? "tail" : "history", ends: [end] };
  }
  if (hasManyTails(rows, sync)) return null;
  if (isTail) return { kind: "tail", ends: [end] };
  // A source that was far behind itself when the history was cut must not be cut into millions.
  const larger = Math.max(size, Math.ceil(gap / spec.segments.max));
  // What one event cannot hold follows in the next.
  const to = Math.min(end, planned_to + PIECES_MAX * larger);
  const count = Math.ceil((to - planned_to) / larger);
  return { kind: "history", ends: planSegments(from, to, { max: count, min_size: 1 }) };
}

/** Whether so many pieces of tail wait or run that more would only queue behind them. */
function hasManyTails(rows: Rows, sync: SyncRow): boolean {
  const open = sync.segments_pending + sync.segments_running + sync.segments_failed;
  if (open < TAILS_OPEN_MAX) return false;
  const where = [
    { cell: "sync_id", is: "=", value: sync.sync_id },
    // What was set aside waits for somebody, and must not keep the rest from being fetched.
    { cell: "status", is: "in", values: ["PENDING", "RUNNING", "FAILED"] },
    { cell: "kind", is: "=", value: "tail" },
  ] as const;
  const order = [{ cell: "from_block", descending: true }];
  return rows.segments.find(where, order, TAILS_OPEN_MAX).length === TAILS_OPEN_MAX;
}
