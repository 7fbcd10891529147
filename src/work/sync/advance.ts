import type { Rows } from "../rows.ts";
import type { SyncRow, SegmentRow, SyncSourceRow, SyncState } from "./rows.ts";
import type { SyncSpec } from "./spec.ts";
import { assert } from "../../kernel/errors.ts";
import type { NewEvent } from "../events.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import type { Context, Controller } from "../decision.ts";
import { cutPlan, REOPENED_MAX, reopenable, reopenSegments } from "./reopen.ts";
import { segmentRuns, verificationRuns } from "./request.ts";
import {
  currentSync,
  hasLeftCode,
  limitOf,
  type PinnedSync,
  safeEnd,
  wantedEnd,
  stopRuns,
  syncReopened,
  syncStateChanged,
} from "./look-up.ts";

/** How a range may be cut. */
export type SegmentLimits = { max: number; min_size: number };

/**
 * The last block of each segment of a plan: at most `max` of them, none smaller than `min_size`
 * unless the whole range is, and no two that differ by more than one block.
 */
export function planSegments(from: number, to: number, limits: SegmentLimits): number[] {
  const size = to - from + 1;
  const count = Math.min(limits.max, Math.max(1, Math.floor(size / limits.min_size)));
  const least = Math.floor(size / count);
  const larger = size - least * count;
  const ends: number[] = [];
  let end = from - 1;
  for (let index = 0; index < count; index++) {
    end += index < larger ? least + 1 : least;
    ends.push(end);
  }
  return ends;
}

/** Pieces of tail that may wait or run before more is added. */
const TAILS_OPEN_MAX = 4;
/** Most pieces that one event adds. */
const PIECES_MAX = 365;

/** Segments to add behind those there are: what they are, and the last block of each. */
export type Pieces = { kind: "history" | "tail"; ends: number[] };

/** What to add to a plan that ends before `end`; null when there is nothing to add now. */
export function planMoreSegments(
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
    // What was quarantined waits for somebody, and must not keep the rest from being fetched.
    { cell: "status", is: "in", values: ["PENDING", "RUNNING", "FAILED"] },
    { cell: "kind", is: "=", value: "tail" },
  ] as const;
  const order = [{ cell: "from_block", descending: true }];
  return rows.segments.find(where, order, TAILS_OPEN_MAX).length === TAILS_OPEN_MAX;
}

/** The bounds of a segment. */
type Tile = Pick<SegmentRow, "segment_index" | "from_block" | "to_block">;

/**
 * What is wrong with segments, in order of their first block, that should tile a range exactly; null
 * when nothing is. A range that ends at null is one that nothing is planned of.
 */
export function tilingFault(
  segments: readonly Tile[],
  from: number,
  to: number | null,
): string | null {
  let next = from;
  for (const { segment_index, from_block, to_block } of segments) {
    const name = `segment ${segment_index} (${from_block} to ${to_block})`;
    if (from_block > next) return `${name} leaves a gap: ${next} to ${from_block - 1} is nobody's`;
    if (from_block < next) return `${name} begins before ${next}, where its neighbour ends`;
    if (to_block < from_block) return `${name} ends before it begins`;
    next = to_block + 1;
  }
  const end = to ?? from - 1;
  if (next - 1 === end) return null;
  return `the segments end at ${next - 1} and not at ${end}`;
}

/** Most segments of a sync, all of which are looked at before it is called whole. */
const SEGMENTS_READ_MAX = 10_000_000;

/**
 * Moves a sync on: plans what its source has, opens again what the source rewrote, asks for as many
 * runs as there is room for, and says when it is whole. What stands still only has its runs stopped.
 * A sync whose definition is gone stays as it is.
 */
export const advanceSync: Controller<SyncRow> = (rows, sync, context) => {
  if (sync.state === "REMOVED") return stopRuns(rows, sync, true, context);
  const definition = currentSync(rows, sync.name);
  if (hasLeftCode(sync, definition?.spec ?? null)) return [leftCode(sync)];
  if (definition === null) {
    return sync.state === "PAUSED" ? stopRuns(rows, sync, false, context) : [];
  }
  const source = rows.syncSources.get(sync.name, sync.source);
  const rewritten =
    source === null ? null : answerRewrites(rows, sync, definition, source, context);
  // Nothing is asked for before all that is void is open: what runs again would be opened twice.
  if (rewritten !== null) return rewritten;
  switch (sync.state) {
    case "PENDING":
      return start(sync, definition, source);
    case "PAUSED":
      return [
        ...stopRuns(rows, sync, false, context),
        ...verificationRuns(rows, sync, definition, context),
      ];
    case "RUNNING":
    case "FOLLOWING":
    case "COMPLETE":
      return goOn(rows, sync, definition, source, context);
  }
};

/** Removes a sync that code made and does not name any more; its runs are stopped after that. */
export function leftCode(sync: SyncRow): NewEvent {
  return syncStateChanged(sync, "REMOVED", { reason: "code does not name it any more" });
}

/** Plans the history once it is known how far it reaches. */
function start(sync: SyncRow, { spec }: PinnedSync, source: SyncSourceRow | null): NewEvent[] {
  const end = wantedEnd(sync, spec, source);
  assert(sync.planned_to === null, "what is pending is not planned");
  if (end === null || end < sync.from_block) return [];
  const limits = spec.splittable ? spec.segments : { max: 1, min_size: 1 };
  const ends = planSegments(sync.from_block, end, limits);
  return [planned(sync, source, { kind: "history", ends }), syncStateChanged(sync, "RUNNING")];
}

function planned(sync: SyncRow, source: SyncSourceRow | null, { kind, ends }: Pieces): NewEvent {
  const { sync_id, next_segment: first_index, planned_to } = sync;
  const from_block = planned_to === null ? sync.from_block : planned_to + 1;
  const isVoid = ({ cut_from = -1 }) => from_block <= cut_from;
  const undo = source?.recent_rewrites.some(isVoid) === true ? ({ undo: true } as const) : {};
  return {
    type: "SyncSegmentsPlanned",
    idempotency_key: IDEMPOTENCY_KEYS.syncPlan(sync_id, first_index),
    data: {
      sync_id,
      segment_kind: kind,
      first_index,
      from_block,
      ends,
      ...undo,
    },
  };
}

function goOn(
  rows: Rows,
  sync: SyncRow,
  definition: PinnedSync,
  source: SyncSourceRow | null,
  context: Context,
): NewEvent[] {
  const { spec } = definition;
  const pieces = planMoreSegments(rows, sync, spec, wantedEnd(sync, spec, source));
  if (pieces !== null) {
    // At the head a new piece of tail is nothing special; all else is work like the history.
    const isTail = pieces.kind === "tail" && sync.state === "FOLLOWING";
    const again = isTail ? [] : syncReopened(sync, "its range has grown");
    return [planned(sync, source, pieces), ...again];
  }
  if (sync.segments_quarantined > 0 && sync.state === "FOLLOWING") {
    return syncReopened(sync, "a part of it could not be fetched");
  }
  const changed = becomeWhole(rows, sync, definition, source);
  if (changed !== null) return [changed];
  return [
    ...segmentRuns(rows, sync, definition, source, context),
    ...verificationRuns(rows, sync, definition, context),
  ];
}

/** The change of a sync that has all it should have by now, if the rows really say so. */
function becomeWhole(
  rows: Rows,
  sync: SyncRow,
  { spec }: PinnedSync,
  source: SyncSourceRow | null,
): NewEvent | null {
  const { sync_id, planned_to, synced_to } = sync;
  const end = wantedEnd(sync, spec, source);
  // One that was complete and is to follow a head now has to have it looked up first.
  const isKnown = end !== null || (sync.state === "COMPLETE" && spec.has.head);
  if (planned_to === null || !isKnown || planned_to < (end ?? planned_to)) return null;
  if (sync.segments_complete !== sync.segments_total || synced_to !== planned_to) return null;
  const limit = limitOf(sync, spec);
  const to: SyncState = limit !== null && planned_to >= limit ? "COMPLETE" : "FOLLOWING";
  if (sync.state === to) return null;
  const where = [{ cell: "sync_id", is: "=", value: sync_id }] as const;
  const segments = rows.segments.find(where, [{ cell: "from_block" }], SEGMENTS_READ_MAX);
  const fault = tilingFault(segments, sync.from_block, planned_to);
  if (fault === null) return syncStateChanged(sync, to);
  const reason = `its segments do not tile ${sync.from_block} to ${planned_to}: ${fault}`;
  return syncStateChanged(sync, "PAUSED", { reason });
}

/**
 * Opens again, lowest first, what lies above the forks of rewrites that have not been answered. They
 * count as answered with the last page only; until then each page finds what is left.
 */
function answerRewrites(
  rows: Rows,
  sync: SyncRow,
  { spec }: PinnedSync,
  source: SyncSourceRow,
  context: Context,
): NewEvent[] | null {
  const { rewrites_seen, planned_to } = sync;
  if (source.rewrites <= rewrites_seen) return null;
  const cut = lowestCut(source, rewrites_seen);
  const fork = lowestFork(source, rewrites_seen);
  const range = { from: fork + 1, to: planned_to ?? fork };
  // The head may be lower than before.
  const safe = safeEnd(spec, source);
  const found = reopenable(rows, sync, { ...range, safe }, REOPENED_MAX);
  const isToBeCut = cut !== null && planned_to !== null && planned_to > cut;
  if (isToBeCut && found.segments.length === 0) {
    return cutPlan(rows, sync, Math.max(cut, sync.from_block), source.rewrites);
  }
  const reason = isToBeCut
    ? `the head of ${source.source} was set to ${cut}`
    : `${source.source} rewrote its blocks above ${fork}`;
  const cause = {
    cause: "rewrite",
    reason,
    changed_by: null,
    undo: true,
    rewrites_seen: found.isAll && !isToBeCut ? source.rewrites : null,
  } as const;
  const events = reopenSegments(rows, sync, range, found, cause, context);
  return found.segments.length === 0 ? events : [...events, ...syncReopened(sync, reason)];
}

/** The lowest head that somebody set after so many rewrites; null when nobody did. */
function lowestCut({ recent_rewrites }: SyncSourceRow, seen: number): number | null {
  const cuts = recent_rewrites.filter(({ n, cut_from }) => n > seen && cut_from !== undefined);
  return cuts.reduce<number | null>(
    (least, { fork_block }) => Math.min(least ?? fork_block, fork_block),
    null,
  );
}

/** The lowest fork of the rewrites after so many; below all blocks where that is forgotten. */
function lowestFork({ recent_rewrites, rewrites }: SyncSourceRow, seen: number): number {
  const missed = recent_rewrites.filter(({ n }) => n > seen);
  if (missed.length < rewrites - seen) return -1;
  return missed.reduce((least, { fork_block }) => Math.min(least, fork_block), Infinity);
}
