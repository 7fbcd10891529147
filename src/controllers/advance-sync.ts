import { assert } from "../core/assert.ts";
import type { NewEvent } from "../core/events/index.ts";
import { IDEMPOTENCY_KEYS } from "../core/keys.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { SyncRow, SyncSourceRow, SyncState } from "../core/rows/sync-rows.ts";
import type { Context, Controller } from "./decision.ts";
import { nextPieces, type Pieces } from "./next-pieces.ts";
import { planSegments } from "./plan-segments.ts";
import { cutPlan, REOPENED_MAX, reopenable, reopenSegments } from "./reopen-segments.ts";
import { segmentRuns, verificationRuns } from "./request-segments.ts";
import {
  currentSync,
  hasLeftCode,
  limitOf,
  type PinnedSync,
  safeEnd,
  wantedEnd,
} from "./sync-lookup.ts";
import { stopRuns, syncReopened, syncStateChanged } from "./sync-state.ts";
import { tilingFault } from "./tiling.ts";

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
  const pieces = nextPieces(rows, sync, spec, wantedEnd(sync, spec, source));
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
