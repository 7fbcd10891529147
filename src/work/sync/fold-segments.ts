import type { FoldedRuns } from "../kind.ts";
import { assert, present } from "../../kernel/errors.ts";
import type { SegmentEndField, SegmentRef, TaskResultField } from "../run/events.ts";
import type { Instant } from "../../kernel/instant.ts";
import type { Failure } from "../backfill/rows.ts";
import type { Rows } from "../rows.ts";
import { NEW_SEGMENT, type SegmentRow, type SegmentStatus, type SyncRow } from "./rows.ts";
import type { Touch } from "../fold.ts";

/** The place and time of an event. */
type At = { pos: number; occurred_at: Instant };

/** Failures after which nothing is wrong with the segment: it was only taken back. */
const TAKEN_BACK: ReadonlySet<string> = new Set(["lease-lost", "stalled"]);

/** A sync that an event is about, which therefore exists. */
export function syncOf(rows: Rows, syncId: string): SyncRow {
  return present(rows.syncs.get(syncId), `sync ${syncId} exists`);
}

/** The state as shown. */
function statusOf(sync: SyncRow): SyncRow["status"] {
  const acts = sync.state === "RUNNING" || sync.state === "FOLLOWING";
  return acts && sync.segments_failed > 0 ? "FAILED" : sync.state;
}

/** Writes a sync and checks that its counters still make sense. */
export function putSync(rows: Rows, sync: SyncRow, pos: number): void {
  const { segments_pending: pending, segments_running: running } = sync;
  const rest = sync.segments_failed + sync.segments_complete + sync.segments_quarantined;
  assert(
    pending >= 0 && running >= 0 && pending + running + rest === sync.segments_total,
    `the segments of ${sync.sync_id} add up`,
  );
  assert(
    sync.segments_queued >= 0 && sync.segments_queued <= pending,
    "only what is pending queues",
  );
  assert(
    sync.synced_to <= (sync.planned_to ?? sync.from_block - 1),
    "only what is planned is synced",
  );
  rows.syncs.put({ ...sync, status: statusOf(sync), row_version: pos });
}

/** Where a sync counts its segments of each status. */
export const SEGMENT_COUNTERS = {
  PENDING: "segments_pending",
  RUNNING: "segments_running",
  FAILED: "segments_failed",
  COMPLETE: "segments_complete",
  QUARANTINED: "segments_quarantined",
} as const satisfies Record<SegmentStatus, keyof SyncRow>;

/** How many blocks a segment has. */
export function sizeOfSegment({ from_block, to_block }: SegmentRow): number {
  return to_block - from_block + 1;
}

function counted(sync: SyncRow, segment: SegmentRow | null, by: 1 | -1): SyncRow {
  if (segment === null) return sync;
  const { status, run_pos, verification } = segment;
  const after = { ...sync, segments_total: sync.segments_total + by };
  after[SEGMENT_COUNTERS[status]] += by;
  if (status === "PENDING" && run_pos !== null) after.segments_queued += by;
  if (status === "COMPLETE") after.blocks_complete += by * sizeOfSegment(segment);
  if (verification?.status === "REQUESTED") after.verify_waiting += by;
  if (verification?.status === "RUNNING") after.verify_active += by;
  return after;
}

/**
 * Writes a segment in the place of what it was (null for a new one) and answers its sync with both
 * counted; null for what it becomes deletes it.
 */
export function replaceSegment(
  rows: Rows,
  sync: SyncRow,
  before: SegmentRow | null,
  after: Omit<SegmentRow, "updated_at"> | null,
  { occurred_at }: Pick<At, "occurred_at">,
): SyncRow {
  const updated = after === null ? null : { ...after, updated_at: occurred_at };
  if (updated !== null) rows.segments.put(updated);
  else if (before !== null) rows.segments.delete(before.sync_id, before.segment_index);
  return counted(counted(sync, before, -1), updated, 1);
}

/** The rows of a piece of a segment, taken to lie evenly: nobody knows which are whose. */
export function shareOfRows(
  segment: SegmentRow,
  piece: Pick<SegmentRow, "from_block" | "to_block">,
): number {
  const upTo = (block: number) =>
    Math.floor((segment.rows_stored * (block - segment.from_block + 1)) / sizeOfSegment(segment));
  return upTo(piece.to_block) - upTo(piece.from_block - 1);
}

/** The rows of a run's segment. */
function touchesOfSegment(ref: SegmentRef | undefined): Touch[] {
  if (ref === undefined) return [];
  return [
    ["syncs", [ref.sync_id]],
    ["segments", [ref.sync_id, ref.segment_index]],
  ];
}

/** The segment, if it is still the one that the run is about. */
function currentSegment(rows: Rows, ref: SegmentRef): SegmentRow | null {
  const segment = rows.segments.get(ref.sync_id, ref.segment_index);
  return segment?.generation === ref.generation ? segment : null;
}

/** A run was asked for: the segment waits for it to start. */
function queueSegment(
  rows: Rows,
  ref: SegmentRef,
  run: { run_pos: number; run_id: string },
  at: Pick<At, "occurred_at">,
): void {
  const sync = syncOf(rows, ref.sync_id);
  const segment = present(currentSegment(rows, ref), "a run is asked for what there is");
  if (ref.purpose === "verify") {
    const verification = present(segment.verification, "its verification was asked for");
    assert(verification.status === "REQUESTED", "a verification runs once");
    assert(segment.run_pos === null, "a segment has one run at a time");
    const { run_pos } = run;
    const running = { ...verification, status: "RUNNING" } as const;
    const after = { ...segment, run_pos, verification: running, row_version: run_pos };
    putSync(rows, replaceSegment(rows, sync, segment, after, at), run_pos);
    return;
  }
  assert(segment.status === "PENDING", "only what is pending is run");
  assert(segment.run_pos === null, "a segment has one run at a time");
  const after = { ...segment, ...run, row_version: run.run_pos };
  putSync(rows, replaceSegment(rows, sync, segment, after, at), run.run_pos);
}

/** An attempt has begun. */
function startSegment(
  rows: Rows,
  ref: SegmentRef,
  attempt: { attempt: number; worker_id: string },
  at: At,
): void {
  const segment = currentSegment(rows, ref);
  if (segment === null || ref.purpose === "verify") return;
  const after: SegmentRow = {
    ...segment,
    ...attempt,
    status: "RUNNING",
    next_retry_at: null,
    started_at: segment.started_at ?? at.occurred_at,
    row_version: at.pos,
  };
  putSync(rows, replaceSegment(rows, syncOf(rows, ref.sync_id), segment, after, at), at.pos);
}

/** An attempt has ended: how far it got, and whether another follows. */
function endSegmentAttempt(rows: Rows, ref: SegmentRef, result: TaskResultField, at: At): void {
  const segment = currentSegment(rows, ref);
  if (segment === null) return;
  const sync = workedOn(syncOf(rows, ref.sync_id), result);
  if (ref.purpose === "verify") {
    const after = result.retry_at === undefined ? verified(segment, result, at) : segment;
    putSync(rows, replaceSegment(rows, sync, segment, after, at), at.pos);
    return;
  }
  const failed = result.outcome === "FAILED" && result.released !== true;
  const error = failed ? (result.error ?? null) : null;
  const report = result.segment;
  const waits = result.retry_at !== undefined;
  const isBack = result.released === true || TAKEN_BACK.has(error?.class ?? "");
  const after: SegmentRow = {
    ...segment,
    status: !waits ? segment.status : isBack ? "PENDING" : "FAILED",
    retry_count: segment.retry_count + (failed ? 1 : 0),
    error_class: error?.class ?? (failed ? "user" : segment.error_class),
    error_message: error?.message ?? segment.error_message,
    next_retry_at: result.retry_at ?? null,
    ...(report === undefined
      ? {}
      : {
          last_processed_block: report.last_processed_block,
          end_hash: report.end_hash,
          rows_stored: report.rows,
          set_aside: report.quarantined.length === 0 ? null : report.quarantined,
        }),
    row_version: at.pos,
  };
  const tried = {
    ...sync,
    retry_count: sync.retry_count + (failed ? 1 : 0),
    last_error: error ?? sync.last_error,
    last_error_at: error === null ? sync.last_error_at : at.occurred_at,
    rows_stored: summed(sync.rows_stored - segment.rows_stored, after.rows_stored),
  };
  putSync(rows, replaceSegment(rows, tried, segment, after, at), at.pos);
}

/** A sum of what functions say: as much as a number can hold, however much that is. */
function summed(sum: number, more: number): number {
  return Math.max(0, Math.min(sum + more, Number.MAX_SAFE_INTEGER));
}

/** Work of long ago counts less and less. */
function workedOn(sync: SyncRow, { segment }: TaskResultField): SyncRow {
  if (segment === undefined || segment.blocks === 0) return sync;
  return {
    ...sync,
    work_blocks: summed(Math.floor((sync.work_blocks * 7) / 8), segment.blocks),
    work_ms: summed(Math.floor((sync.work_ms * 7) / 8), Math.max(1, segment.work_ms)),
  };
}

function verified(segment: SegmentRow, result: TaskResultField, { pos, occurred_at }: At) {
  const { verification } = segment;
  if (verification === null) return segment;
  const found = result.segment?.verification ?? null;
  const status = found === null ? "ERROR" : found.ok ? "PASSED" : "FAILED";
  const note = found === null ? (result.error?.message ?? null) : found.note;
  return {
    ...segment,
    verification: { ...verification, status, note, at: occurred_at },
    row_version: pos,
  } as const;
}

/** The rows besides the segment's own that the end of its run touches. */
function touchesOfSegmentEnd(
  ref: SegmentRef | undefined,
  end: SegmentEndField | undefined,
): Touch[] {
  if (ref === undefined || end === undefined) return [];
  if (end.becomes === "complete" && end.merged_into !== null) {
    return [["segments", [ref.sync_id, end.merged_into]]];
  }
  if (end.becomes !== "split") return [];
  return end.tiles.map(({ segment_index }) => ["segments", [ref.sync_id, segment_index]] as const);
}

/** The run of a segment has ended. */
function finishSegment(
  rows: Rows,
  ref: SegmentRef,
  run_pos: number,
  end: SegmentEndField,
  at: At,
): void {
  const segment = rows.segments.get(ref.sync_id, ref.segment_index);
  if (segment === null || segment.run_pos !== run_pos) return;
  const sync = syncOf(rows, ref.sync_id);
  const free: SegmentRow = { ...segment, run_pos: null, worker_id: null, row_version: at.pos };
  assert(
    end.becomes === "released" || segment.generation === ref.generation,
    "only the current generation of a segment ends",
  );
  switch (end.becomes) {
    case "released":
      putSync(rows, replaceSegment(rows, sync, segment, free, at), at.pos);
      return;
    case "complete":
      putSync(rows, completed(rows, sync, segment, free, end, at), at.pos);
      return;
    case "pending":
      putSync(rows, replaceSegment(rows, sync, segment, reopened(free, end), at), at.pos);
      return;
    case "quarantined": {
      const aside = setAside({ ...free, finished_at: at.occurred_at }, end.error);
      putSync(rows, replaceSegment(rows, sync, segment, aside, at), at.pos);
      return;
    }
    case "split":
      putSync(rows, splitUp(rows, sync, segment, free, end, at), at.pos);
  }
}

type EndOf<Becomes extends SegmentEndField["becomes"]> = Extract<
  SegmentEndField,
  { becomes: Becomes }
>;

function completed(
  rows: Rows,
  sync: SyncRow,
  segment: SegmentRow,
  free: SegmentRow,
  end: EndOf<"complete">,
  at: At,
): SyncRow {
  const { pos, occurred_at } = at;
  const after = complete({ ...free, finished_at: occurred_at });
  const moved = { ...sync, synced_to: end.synced_to };
  if (end.merged_into === null) return replaceSegment(rows, moved, segment, after, at);
  const before = present(
    rows.segments.get(sync.sync_id, end.merged_into),
    "the piece that swallows another exists",
  );
  assert(
    before.status === "COMPLETE" && before.to_block === segment.from_block - 1,
    "only complete neighbours are merged",
  );
  const merged: SegmentRow = {
    ...before,
    to_block: segment.to_block,
    last_processed_block: segment.to_block,
    end_hash: segment.end_hash,
    rows_stored: summed(before.rows_stored, segment.rows_stored),
    finished_at: occurred_at,
    row_version: pos,
  };
  const without = replaceSegment(rows, moved, segment, null, at);
  return replaceSegment(rows, without, before, merged, at);
}

function complete(segment: SegmentRow): SegmentRow {
  return {
    ...segment,
    status: "COMPLETE",
    last_processed_block: segment.to_block,
    error_class: null,
    error_message: null,
    set_aside: null,
    undo: 0,
    reason: null,
  };
}

function reopened(segment: SegmentRow, { reason, undo }: EndOf<"pending">): SegmentRow {
  return {
    ...segment,
    status: "PENDING",
    generation: segment.generation + 1,
    next_retry_at: null,
    reason,
    ...(undo ? { undo: 1, last_processed_block: null, end_hash: null, set_aside: null } : {}),
  };
}

function setAside(segment: SegmentRow, error: Failure): SegmentRow {
  return {
    ...segment,
    status: "QUARANTINED",
    was_quarantined: 1,
    error_class: error.class,
    error_message: error.message,
    set_aside: null,
  };
}

/** Replaces a segment by pieces that tile it: what is complete, and what could not be fetched. */
function splitUp(
  rows: Rows,
  sync: SyncRow,
  segment: SegmentRow,
  free: SegmentRow,
  end: EndOf<"split">,
  at: At,
): SyncRow {
  const { pos, occurred_at } = at;
  let next = segment.from_block;
  let after = replaceSegment(rows, { ...sync, synced_to: end.synced_to }, segment, null, at);
  for (const { segment_index, from_block, to_block, error } of end.tiles) {
    assert(from_block === next && to_block >= from_block, "the pieces tile the segment");
    assert(segment_index === after.next_segment, "pieces get the next indexes");
    next = to_block + 1;
    const tile: SegmentRow = {
      ...NEW_SEGMENT,
      sync_id: sync.sync_id,
      segment_index,
      kind: segment.kind,
      from_block,
      to_block,
      retry_count: error === null ? 0 : free.retry_count,
      created_at: occurred_at,
      updated_at: occurred_at,
      started_at: free.started_at,
      finished_at: occurred_at,
      undo: free.undo,
      rows_stored: error === null ? shareOfRows(free, { from_block, to_block }) : 0,
      end_hash: to_block === segment.to_block ? free.end_hash : null,
      row_version: pos,
    };
    after = { ...after, next_segment: after.next_segment + 1 };
    const piece = error === null ? complete(tile) : setAside(tile, error);
    after = replaceSegment(rows, after, null, piece, at);
  }
  assert(next === segment.to_block + 1, "the pieces tile the segment to its end");
  return after;
}

/** Runs of segments. */
export const SEGMENT_RUNS: FoldedRuns = {
  touchesAsked: ({ trigger_source_ref: source }) =>
    source.type === "sync" ? touchesOfSegment(source) : [],
  touches: ({ segment }) => touchesOfSegment(segment),
  touchesEnded: ({ segment, segment_end }) => touchesOfSegmentEnd(segment, segment_end),
  queued(rows, event) {
    const { run_id, trigger_source_ref: source } = event.data;
    if (source.type === "sync") queueSegment(rows, source, { run_pos: event.pos, run_id }, event);
  },
  attemptStarted(rows, { segment }, attempt, at) {
    if (segment !== undefined) startSegment(rows, segment, attempt, at);
  },
  attemptEnded(rows, { segment }, result, at) {
    if (segment !== undefined) endSegmentAttempt(rows, segment, result, at);
  },
  finished(rows, _run, event) {
    const { segment, segment_end, run_pos } = event.data;
    if (segment === undefined) return;
    const end = present(segment_end, "the end of a segment's run says what it becomes");
    finishSegment(rows, segment, run_pos, end, event);
  },
};
