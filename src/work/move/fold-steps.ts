import { assert, present } from "../../kernel/errors.ts";
import type { TaskResultField } from "../run/events.ts";
import type { MoveLane, MoveRow, MoveSegmentRow, MoveSegmentState } from "./rows.ts";
import type { Rows } from "../rows.ts";
import type { RunState } from "../run/rows.ts";
import type { MoveReport, ShardWorkRef } from "../shard/step-protocol.ts";
import type { At } from "../kind.ts";
import type { Touch } from "../fold.ts";

type MoveRef = Extract<ShardWorkRef, { work: "move" }>;

/** Failures after which nothing is wrong with the work: it was only taken back. */
const TAKEN_BACK: ReadonlySet<string> = new Set(["lease-lost", "stalled"]);

/** A move that an event is about, which therefore exists. */
export function moveOf(rows: Rows, moveId: string): MoveRow {
  return present(rows.moves.get(moveId), `move ${moveId} exists`);
}

/** A segment that an event is about, which therefore exists. */
export function moveSegmentOf(rows: Rows, moveId: string, index: number): MoveSegmentRow {
  return present(rows.moveSegments.get(moveId, index), `segment ${index} of ${moveId} exists`);
}

/** Writes a move and checks that its counters still make sense. */
export function putMove(rows: Rows, move: MoveRow, pos: number): void {
  const { segments_pending: pending, segments_copied: copied, segments_active: active } = move;
  const { segments_removed: removed, segments_poisoned: poisoned } = move;
  const sum = pending + copied + removed + poisoned + move.segments_excluded;
  assert(sum === move.segments_total, `the segments of ${move.move_id} add up`);
  assert(
    [pending, copied, removed, poisoned, active, move.rows_copied].every((count) => count >= 0),
    "nothing is counted twice",
  );
  assert(active <= move.segments_total, "only segments have runs");
  assert(move.verify_waiting >= 0 && move.verify_waiting <= copied, "only copies are compared");
  rows.moves.put({ ...move, row_version: pos });
}

const COUNTERS = {
  PENDING: "segments_pending",
  COPIED: "segments_copied",
  REMOVED: "segments_removed",
  POISONED: "segments_poisoned",
  EXCLUDED: "segments_excluded",
} as const satisfies Record<MoveSegmentState, keyof MoveRow>;

function counted(move: MoveRow, segment: MoveSegmentRow | null, by: 1 | -1): MoveRow {
  if (segment === null) return move;
  const { state, run_pos, leftover, verify_n } = segment;
  const after = {
    ...move,
    segments_total: move.segments_total + by,
    rows_estimated: move.rows_estimated + by * segment.rows_estimated,
    rows_copied: move.rows_copied + by * segment.rows_copied,
    bytes_copied: move.bytes_copied + by * segment.bytes_copied,
  };
  after[COUNTERS[state]] += by;
  if (run_pos !== null) after.segments_active += by;
  if (state === "EXCLUDED" && leftover === 1) after.segments_discarding += by;
  if (state === "COPIED" && verify_n < move.verifications) after.verify_waiting += by;
  return after;
}

/** Writes a segment in the place of what it was (null for a new one) and answers its move with both counted. */
export function replaceMoveSegment(
  rows: Rows,
  move: MoveRow,
  before: MoveSegmentRow | null,
  after: MoveSegmentRow,
): MoveRow {
  if (before === null) rows.moveSegments.insert(after);
  else rows.moveSegments.put(after);
  return counted(counted(move, before, -1), after, 1);
}

/** The move with one of its lanes changed. */
export function withLane(move: MoveRow, index: number, change: Partial<MoveLane>): MoveRow {
  const lane = { ...present(move.lanes[index], "the move has the lane"), ...change };
  return { ...move, lanes: move.lanes.with(index, lane) };
}

/** The segment that a step is about; null for a step of a lane or of the whole. */
function segmentIndexOf({ step, index }: MoveRef): number | null {
  return step === "survey" || step === "check" ? null : index;
}

/** The rows that a step of a move is about. */
export function touchesOfMoveStep(ref: MoveRef): Touch[] {
  const index = segmentIndexOf(ref);
  const move = ["moves", [ref.move_id]] as const;
  return index === null ? [move] : [move, ["moveSegments", [ref.move_id, index]]];
}

/** A run of the step was asked for. */
export function queueMoveStep(
  rows: Rows,
  ref: MoveRef,
  run: { run_pos: number; run_id: string },
  { pos }: At,
): void {
  const { step, index, n } = ref;
  const move = moveOf(rows, ref.move_id);
  if (step === "check") {
    assert(move.check_run_pos === null, "one look at a time");
    assert(n === move.checks + 1, "looks are numbered");
    putMove(rows, { ...move, check_run_pos: run.run_pos, checks: n }, pos);
    return;
  }
  assert(index !== null, "the step is about a lane or a segment");
  if (step === "survey") {
    const lane = present(move.lanes[index], "the move has the lane");
    assert(lane.run_pos === null && !lane.sealed, "a lane is surveyed once at a time, to its end");
    assert(n === lane.runs + 1, "surveys are numbered");
    putMove(rows, withLane(move, index, { run_pos: run.run_pos, runs: n, report: null }), pos);
    return;
  }
  const segment = moveSegmentOf(rows, ref.move_id, index);
  assert(segment.run_pos === null, "a segment has one run at a time");
  assert(n === segment.runs + 1, "runs of a segment are numbered");
  assert(isStepOf(segment, step), `${step} is not for what is ${segment.state}`);
  const after = { ...segment, ...run, step, runs: n, report: null, row_version: pos };
  const asked = step === "verify" ? { ...move, verify_next: index + 1 } : move;
  putMove(rows, replaceMoveSegment(rows, asked, segment, after), pos);
}

function isStepOf(
  { state, leftover }: MoveSegmentRow,
  step: "copy" | "verify" | "remove",
): boolean {
  if (step === "copy") return state === "PENDING";
  return state === "COPIED" || (step === "remove" && state === "EXCLUDED" && leftover === 1);
}

/** The segment of a step, if the run is still its own. */
function segmentOfStep(rows: Rows, ref: MoveRef): MoveSegmentRow | null {
  const index = segmentIndexOf(ref);
  if (index === null) return null;
  const segment = moveSegmentOf(rows, ref.move_id, index);
  return segment.runs === ref.n && segment.run_pos !== null ? segment : null;
}

/** A worker has begun with the step. */
export function startMoveStep(
  rows: Rows,
  ref: MoveRef,
  { attempt, worker_id }: { attempt: number; worker_id: string },
  { pos }: At,
): void {
  const segment = segmentOfStep(rows, ref);
  if (segment === null) return;
  const move = moveOf(rows, ref.move_id);
  const retried = { ...move, retries: move.retries + (isRetry(segment, attempt) ? 1 : 0) };
  const after = {
    ...segment,
    running: 1,
    worker_id,
    attempts: segment.attempts + 1,
    next_retry_at: null,
    leftover: ref.step === "copy" ? 1 : segment.leftover,
    row_version: pos,
  };
  putMove(rows, replaceMoveSegment(rows, retried, segment, after), pos);
}

/**
 * Whether an attempt follows one that failed: in the same run, or in a new one of a segment that failed
 * before and is copied again. One that was given back is no failure.
 */
function isRetry({ state, error, next_retry_at }: MoveSegmentRow, attempt: number): boolean {
  return next_retry_at !== null || (attempt === 1 && state === "PENDING" && error !== null);
}

/** An attempt has ended: what it did, and why it failed. */
export function endMoveAttempt(rows: Rows, ref: MoveRef, result: TaskResultField, at: At): void {
  const failed = result.outcome === "FAILED" && result.released !== true;
  const error = failed ? (result.error ?? { class: "user", message: "it failed" }) : null;
  const report = result.step?.work === "move" ? withoutWork(result.step) : null;
  const move = failing(moveOf(rows, ref.move_id), ref, error, at);
  if (ref.step === "survey") {
    const index = present(ref.index, "a survey is about a lane");
    putMove(rows, withLane(move, index, { report }), at.pos);
    return;
  }
  if (ref.step === "check") {
    putMove(rows, { ...move, check_report: report ?? move.check_report }, at.pos);
    return;
  }
  const segment = segmentOfStep(rows, ref);
  if (segment === null) return;
  const after: MoveSegmentRow = {
    ...segment,
    ...(ref.step === "copy" && report !== null ? progressOf(segment, report) : {}),
    running: 0,
    report,
    failures: segment.failures + (isCounted(ref, error) ? 1 : 0),
    error: error ?? segment.error,
    next_retry_at: result.retry_at ?? null,
    row_version: at.pos,
  };
  const worked = ref.step === "copy" ? (report?.work_ms ?? 0) : 0;
  const busy = { ...move, work_ms: move.work_ms + worked };
  putMove(rows, replaceMoveSegment(rows, busy, segment, after), at.pos);
}

function withoutWork(report: MoveReport & { work: "move" }): MoveReport {
  const { work: _, ...rest } = report;
  return rest;
}

/** What a copy says of how far it is: rows of all its attempts, bytes of this one. */
function progressOf(segment: MoveSegmentRow, report: MoveReport): Partial<MoveSegmentRow> {
  return {
    rows_copied: report.rows ?? segment.rows_copied,
    bytes_copied: segment.bytes_copied + (report.bytes ?? 0),
    cursor: report.cursor ?? segment.cursor,
    position: report.position ?? segment.position,
  };
}

/** A comparison that failed says nothing against the copy, and what was taken back against nothing. */
function isCounted({ step }: MoveRef, error: { class: string } | null): boolean {
  return error !== null && step !== "verify" && !TAKEN_BACK.has(error.class);
}

function failing(
  move: MoveRow,
  ref: MoveRef,
  error: { class: string; message: string } | null,
  { occurred_at }: At,
): MoveRow {
  if (error === null) return move;
  const isOfSegment = segmentIndexOf(ref) !== null;
  return {
    ...move,
    retries_counted: move.retries_counted + (isOfSegment && isCounted(ref, error) ? 1 : 0),
    last_error: error,
    last_error_at: occurred_at,
  };
}

/** The run of the step has ended; what follows from that stands in the events after it. */
export function finishMoveStep(
  rows: Rows,
  ref: MoveRef,
  outcome: Extract<RunState, "SUCCEEDED" | "FAILED" | "CANCELLED">,
  { pos }: At,
): void {
  const move = moveOf(rows, ref.move_id);
  if (ref.step === "survey") {
    const index = present(ref.index, "a survey is about a lane");
    putMove(rows, withLane(move, index, { run_pos: null, report: null }), pos);
    return;
  }
  if (ref.step === "check") {
    putMove(rows, { ...move, check_run_pos: null }, pos);
    return;
  }
  const segment = segmentOfStep(rows, ref);
  if (segment === null) return;
  const isDiscarded =
    ref.step === "remove" && segment.state === "EXCLUDED" && outcome === "SUCCEEDED";
  const after: MoveSegmentRow = {
    ...segment,
    run_pos: null,
    running: 0,
    step: null,
    worker_id: null,
    next_retry_at: null,
    report: null,
    leftover: isDiscarded ? 0 : segment.leftover,
    row_version: pos,
  };
  putMove(rows, replaceMoveSegment(rows, move, segment, after), pos);
}
