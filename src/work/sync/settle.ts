import { boundedFailure } from "../envelope.ts";
import type { SegmentRef, SegmentEndField } from "../run/events.ts";
import type { ReportedResult } from "../run/protocol.ts";
import type { Rows } from "../rows.ts";
import { type SegmentRow, ABANDONED_CLASS, type SyncRow } from "./rows.ts";
import type { SegmentReport } from "./segment-protocol.ts";
import { seesRewrites, currentSync, syncedTo, syncReopened } from "./look-up.ts";
import type { NewEvent } from "../events.ts";
import { sizeOfSegment } from "./fold-segments.ts";
import type { RunRow, RunState } from "../run/rows.ts";
import { present } from "../../kernel/errors.ts";
import type { Failure } from "../backfill/rows.ts";
import { pinnedSync } from "../asset/look-up.ts";
import type { Context } from "../decision.ts";
import { reopenSegments } from "./reopen.ts";
import { assetsOfRun, segmentOfRun, tasksOfAsset } from "../run/tasks.ts";

/** Most characters of what is said of blocks that were quarantined, all together: events have a limit. */
const MESSAGES_LENGTH_MAX = 200_000;

/**
 * A worker's report about a segment, held against the segment: a success that did not reach its last
 * block is a failure, and what it says of blocks that are not the segment's is left out.
 */
export function checkSegmentReport(
  rows: Rows,
  ref: SegmentRef,
  reported: ReportedResult,
): ReportedResult {
  if (reported.outcome === "SKIPPED") return failed(reported, "a segment cannot be skipped");
  if (ref.purpose === "verify") return reported;
  const segment = rows.segments.get(ref.sync_id, ref.segment_index);
  // The end of a run whose segment was opened again meanwhile changes nothing any more.
  if (segment === null || segment.generation !== ref.generation) return reported;
  const { segment: report, ...rest } = reported;
  const checked = report === undefined ? undefined : withinSegment(segment, report);
  const result = checked === undefined ? rest : { ...rest, segment: checked };
  if (reported.outcome !== "SUCCEEDED") return result;
  const done = checked?.last_processed_block ?? null;
  if (done === segment.to_block) {
    const conflict = hashConflict(rows, segment, checked?.end_hash ?? null);
    return conflict === null ? result : failed(result, conflict, "rewritten");
  }
  const { from_block, to_block } = segment;
  const reached = done === null ? "stored nothing" : `got to ${done}`;
  return failed(result, `success was reported of ${from_block} to ${to_block}, but it ${reached}`);
}

/**
 * Why what was fetched is not known to hold: another look saw another block in the place of its last
 * one. Either the next attempt sees that too and starts over, or the next look at the head sees what
 * this attempt saw, and opens the segment again. Where nobody looks any more, neither may ever come.
 */
export function hashConflict(
  rows: Rows,
  { sync_id, to_block }: SegmentRow,
  endHash: string | null,
): string | null {
  if (endHash === null) return null;
  const sync = rows.syncs.get(sync_id);
  if (sync === null || !seesRewrites(rows, sync.name)) return null;
  const source = rows.syncSources.get(sync.name, sync.source);
  const anchor = source?.anchors.find(({ block }) => block === to_block);
  if (anchor === undefined || anchor.hash === endHash) return null;
  return `block ${to_block} has the hash ${anchor.hash}, and had ${endHash} when it was fetched`;
}

function failed(
  reported: ReportedResult,
  message: string,
  name: "incomplete" | "rewritten" = "incomplete",
): ReportedResult {
  return { ...reported, outcome: "FAILED", error: { class: name, message } };
}

/** The report without what cannot be; nothing when its progress is none of the segment's. */
function withinSegment(segment: SegmentRow, report: SegmentReport): SegmentReport | undefined {
  const { from_block, to_block } = segment;
  const isWithin = (block: number): boolean => block >= from_block && block <= to_block;
  const done = report.last_processed_block;
  if (done !== null && !isWithin(done)) return undefined;
  const byBlock = new Map(report.quarantined.map((item) => [item.block, item]));
  const quarantined = [...byBlock.values()]
    .filter(({ block }) => isWithin(block))
    .toSorted((a, b) => a.block - b.block);
  const length = Math.floor(MESSAGES_LENGTH_MAX / Math.max(1, quarantined.length));
  return {
    ...report,
    quarantined: quarantined.map(({ block, error }) => ({
      block,
      error: boundedFailure(error, length),
    })),
  };
}

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
