import type { EventData, NewEvent } from "../events.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import type { Rows } from "../rows.ts";
import type { Condition } from "../../kernel/table.ts";
import type { RunRow } from "../run/rows.ts";
import type { SegmentRow, SyncRow } from "./rows.ts";
import { cancelEvents, needForCancel } from "../run/cancel.ts";
import type { Context } from "../decision.ts";
import { segmentOfRun } from "../run/tasks.ts";
import { runsOfSegments, segmentsWithin, syncedTo } from "./look-up.ts";

/** Segments that one event opens again. */
export const REOPENED_MAX = 200;

type Reopened = EventData<"SyncSegmentsReopened">;

/** Why segments are opened again. */
export type ReopenCause = Pick<Reopened, "cause" | "reason" | "changed_by" | "undo">;

/** What of a range has to be opened again, lowest first, and the runs that work on it. */
export type Reopenable = {
  segments: SegmentRow[];
  runs: ReadonlyMap<number, RunRow>;
  /** Whether nothing was left out because there was too much. */
  isAll: boolean;
};

/**
 * The segments that meet a range and hold, or may come to hold, what is void; at most so many. With
 * `safe`, also those whose run was asked for although they reach beyond that block now.
 */
export function reopenable(
  rows: Rows,
  sync: SyncRow,
  { from, to, safe }: { from: number; to: number; safe?: number | null },
  most: number,
): Reopenable {
  const segments: SegmentRow[] = [];
  const runs = new Map<number, RunRow>();
  for (const page of segmentsWithin(rows, sync.sync_id, from, to)) {
    const runsOfPage = runsOfSegments(rows, page);
    for (const segment of page) {
      const run = segment.run_pos === null ? undefined : runsOfPage.get(segment.run_pos);
      const isTooEarly = segment.to_block > (safe ?? segment.to_block) && !isOld(segment, run);
      if (!holdsAnything(segment, run) && !isTooEarly) continue;
      if (segments.length === most) return { segments, runs, isAll: false };
      segments.push(segment);
      if (run !== undefined) runs.set(run.run_pos, run);
    }
  }
  return { segments, runs, isAll: true };
}

/** Whether anything was stored of a segment that its next run would not replace anyway. */
function holdsAnything(segment: SegmentRow, run: RunRow | undefined): boolean {
  if (segment.status !== "PENDING") return true;
  if (segment.started_at === null) return false;
  const isVoid = segment.undo === 1 && segment.last_processed_block === null;
  // A run of this generation may have got somewhere.
  return !isVoid || (run !== undefined && !isOld(segment, run));
}

/** Whether no run, or only one of an earlier generation, which has to end, is the segment's. */
function isOld(segment: SegmentRow, run: RunRow | undefined): boolean {
  return run === undefined || segmentOfRun(run)?.generation !== segment.generation;
}

/**
 * Opens segments again: complete ones are cut where they stick out of the range, and whoever works
 * on one of them is told to stop.
 */
export function reopenSegments(
  rows: Rows,
  sync: SyncRow,
  range: { from: number; to: number },
  { segments, runs }: Reopenable,
  cause: ReopenCause & { rewrites_seen: number | null },
  context: Context,
): NewEvent[] {
  const events: NewEvent[] = [];
  const opened = segments.map((segment) =>
    segment.status === "COMPLETE" ? Math.max(segment.from_block, range.from) : segment.from_block,
  );
  const first = opened.reduce((least, block) => Math.min(least, block), Number.POSITIVE_INFINITY);
  const synced_to = syncedTo(rows, sync, { openedFrom: first });
  let nextSegment = sync.next_segment;
  const { rewrites_seen, ...why } = cause;
  for (let at = 0; at === 0 || at < segments.length; at += REOPENED_MAX) {
    const cut = cutTo(range, segments.slice(at, at + REOPENED_MAX), nextSegment);
    nextSegment = cut.nextSegment;
    const n = sync.reopenings + events.length + 1;
    events.push({
      type: "SyncSegmentsReopened",
      idempotency_key: IDEMPOTENCY_KEYS.syncReopen(sync.sync_id, n),
      data: {
        sync_id: sync.sync_id,
        n,
        ...why,
        splits: cut.splits,
        segments: cut.opened,
        synced_to,
        rewrites_seen,
      },
    });
  }
  const active = [...runs.values()].filter((run) => run.cancel_requested_at === null);
  needForCancel(rows, active);
  for (const run of active) {
    events.push(...cancelEvents(rows, run, cause.reason, context));
  }
  return events;
}

/** The cuts that keep what lies outside of a range, and what is opened then. */
function cutTo(range: { from: number; to: number }, segments: SegmentRow[], firstIndex: number) {
  let nextSegment = firstIndex;
  const splits: Reopened["splits"] = [];
  const opened: Reopened["segments"] = [];
  for (const { segment_index, from_block, to_block, status, generation } of segments) {
    const from = Math.max(from_block, range.from);
    const to = Math.min(to_block, range.to);
    const isWithin = from === from_block && to === to_block;
    if (isWithin || status !== "COMPLETE") {
      opened.push({ segment_index, generation: generation + 1 });
      continue;
    }
    const bounds = [
      { from_block, to_block: from - 1 },
      { from_block: from, to_block: to },
      { from_block: to + 1, to_block },
    ].filter((tile) => tile.from_block <= tile.to_block);
    const tiles = bounds.map((tile) => ({ segment_index: nextSegment++, ...tile }));
    splits.push({ segment_index, tiles });
    for (const tile of tiles) {
      if (tile.from_block === from)
        opened.push({ segment_index: tile.segment_index, generation: 1 });
    }
  }
  return { splits, opened, nextSegment };
}

/** Segments that one event takes out of a plan. */
const CUT_MAX = 1_000;

/**
 * Takes what lies beyond a block out of a plan, the newest first, once nothing works on it any more;
 * the segment that the block is in ends there. Rows that were stored of what goes are not undone.
 */
export function cutPlan(
  rows: Rows,
  sync: SyncRow,
  through: number,
  rewritesSeen: number,
): NewEvent[] {
  const { sync_id, planned_to } = sync;
  const where: Condition[] = [
    { cell: "sync_id", is: "=", value: sync_id },
    { cell: "to_block", is: ">", value: through },
  ];
  const order = [{ cell: "from_block", descending: true }];
  const beyond = rows.segments.find(where, order, CUT_MAX + 1);
  const isAtRest = beyond.every(({ status, run_pos }) => status === "PENDING" && run_pos === null);
  // It is looked at again when their runs have ended.
  if (!isAtRest) return [];
  const page = beyond.slice(0, CUT_MAX);
  // One that nobody has begun goes as a whole: the plan is cut anew from there.
  const isShortened = (segment: SegmentRow) =>
    segment.from_block <= through && segment.started_at !== null;
  const removed = page.filter((segment) => !isShortened(segment));
  const shortened = page.find(isShortened) ?? null;
  const lowest = removed.at(-1);
  const end =
    shortened === null ? (lowest?.from_block ?? (planned_to ?? through) + 1) - 1 : through;
  const n = sync.reopenings + 1;
  return [
    {
      type: "SyncPlanCut",
      idempotency_key: IDEMPOTENCY_KEYS.syncCut(sync_id, n),
      data: {
        sync_id,
        n,
        removed: removed.map(({ segment_index }) => segment_index),
        shortened: shortened?.segment_index ?? null,
        planned_to: end,
        rewrites_seen: beyond.length > CUT_MAX ? null : rewritesSeen,
      },
    },
  ];
}
