import { PawlError } from "../../kernel/errors.ts";
import type { NewEvent, EventData } from "../events.ts";
import { type Instant, instantOf, msBetween } from "../../kernel/instant.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import type { SyncSourceRow, SegmentRow, SyncRow } from "./rows.ts";
import type { HeadOutcome } from "./source-protocol.ts";
import { HEAD_RATE_MAX, type SyncSpec } from "./spec.ts";
import type { Decide, Context } from "../decision.ts";
import { currentSync, runsOfSegments, segmentsWithin, syncedTo } from "./look-up.ts";
import type { Rows } from "../rows.ts";
import type { Condition } from "../../kernel/table.ts";
import type { RunRow } from "../run/rows.ts";
import { cancelEvents, needForCancel } from "../run/cancel.ts";
import { segmentOfRun } from "../run/tasks.ts";

const START_OF_TIME = instantOf(0);

/** What a worker saw when it looked at the head of a source. */
export type SeenHead = {
  sync: string;
  source: string;
  outcome: HeadOutcome;
  /** The position of what the look was compared with; null or absent when nobody knows. */
  asOf?: number | null;
};

/**
 * Records that a head moved on, or that its source rewrote blocks. A head that stands still or goes
 * back records nothing, and so does a look that failed, or that was compared with what was known before
 * another look: it would hide a rewrite, or repeat one.
 */
export function recordHead(seen: SeenHead): Decide<"recorded" | "unchanged"> {
  return (rows, { now }) => {
    const { sync, source, outcome, asOf = null } = seen;
    const definition = currentSync(rows, sync);
    if (outcome.type === "failed" || definition === null) return UNCHANGED;
    const before = rows.syncSources.get(sync, source);
    if (asOf !== null && asOf !== (before?.row_version ?? 0)) return UNCHANGED;
    refuseImplausible(seen, outcome.head, definition.spec, before, now);
    const event = rewritten(seen, outcome, before) ?? moved(seen, outcome, before);
    return event === null ? UNCHANGED : { events: [event], result: "recorded" };
  };
}

/** So many new blocks are believed at any time: a source may make them in bursts. */
const BURST = 10_000;

/**
 * Refuses a head that the source cannot have reached since it was last seen; one that was never seen
 * is taken to have begun with 1970. What a broken or hostile node says would be believed for ever:
 * heads never go back by themselves.
 */
function refuseImplausible(
  { source }: SeenHead,
  head: number,
  { name, head_rate_max = HEAD_RATE_MAX }: SyncSpec,
  before: SyncSourceRow | null,
  now: Instant,
): void {
  const known = before?.head ?? 0;
  const seconds = msBetween(before?.head_at ?? START_OF_TIME, now) / 1_000;
  if (head - known <= BURST + head_rate_max * Math.max(0, seconds)) return;
  throw new PawlError(
    "HEAD_IMPLAUSIBLE",
    `The source ${JSON.stringify(source)} of ${name} says that its head is ${head}, ` +
      `${before === null ? "the first time it is asked" : `${Math.ceil(seconds)} s after ${known}`}; ` +
      `more than ${head_rate_max} new blocks in a second are not believed. If it is right, say so ` +
      `with \`pawl sync set-head\`, or raise headRateMax of the sync.`,
    { details: { source, head, known_head: before?.head ?? null, head_rate_max } },
  );
}

const UNCHANGED = { events: [], result: "unchanged" } as const;

type Seen = Extract<HeadOutcome, { type: "seen" }>;

/** A rewrite of blocks whose hashes are known; what was acted on before is known no more. */
function rewritten(
  { sync, source }: SeenHead,
  { fork, head, safe }: Seen,
  before: SyncSourceRow | null,
): NewEvent | null {
  if (fork === null || before === null) return null;
  const fork_block = fork.block ?? -1;
  if (!before.anchors.some(({ block }) => block > fork_block)) return null;
  const n = before.rewrites + 1;
  return {
    type: "SyncRewritten",
    idempotency_key: IDEMPOTENCY_KEYS.syncRewrite(sync, source, n),
    // The hash that it has now goes with it: the source may do it again before its head moves.
    data: { name: sync, source, n, fork_block, head, anchor: anchorOf(head, safe) },
  };
}

function moved(
  { sync, source }: SeenHead,
  { head, safe }: Seen,
  before: SyncSourceRow | null,
): NewEvent | null {
  const anchor = anchorOf(head, safe);
  if (before !== null && !isNews(before, head, anchor)) return null;
  const n = (before?.moves ?? 0) + 1;
  return {
    type: "SyncHeadMoved",
    idempotency_key: IDEMPOTENCY_KEYS.syncHead(sync, source, n),
    data: { name: sync, source, n, head, anchor },
  };
}

/** A head that moved on, or one that stands still under which more may be synced than before. */
function isNews(before: SyncSourceRow, head: number, anchor: Seen["safe"]): boolean {
  if (head !== before.head || anchor === null) return head > before.head;
  return anchor.block > (before.anchors.at(-1)?.block ?? -1);
}

function anchorOf(head: number, safe: Seen["safe"]): Seen["safe"] {
  return safe !== null && safe.block <= head ? safe : null;
}

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
