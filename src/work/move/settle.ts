import { taskOf } from "../run/task-blocks.ts";
import { present } from "../../kernel/errors.ts";
import type { NewEvent } from "../events.ts";
import { IDEMPOTENCY_KEYS, moveSegmentIdOf } from "../keys.ts";
import type { Failure } from "../backfill/rows.ts";
import type { MoveRow, MoveSegmentRow } from "./rows.ts";
import type { Rows } from "../rows.ts";
import type { RunRow, RunState } from "../run/rows.ts";
import type { MoveReport } from "../shard/step-protocol.ts";
import type { Context } from "../decision.ts";
import { moveSegmentChanged, moveStateChanged } from "./look-up.ts";
import { stepOfRun } from "../run/tasks.ts";

/** Longest note of a finding. */
const NOTE_LENGTH_MAX = 2_000;

type Outcome = Extract<RunState, "SUCCEEDED" | "FAILED" | "CANCELLED">;

/** What has to be recorded after the end of the run of a move's step; its tasks have all ended. */
export function moveStepEnd(
  rows: Rows,
  run: RunRow,
  outcome: Outcome,
  context: Context,
): NewEvent[] {
  const ref = stepOfRun(run);
  if (ref?.work !== "move") return [];
  const move = present(rows.moves.get(ref.move_id), "a step has its move");
  if (ref.step === "survey")
    return surveyed(move, present(ref.index, "a lane"), run, outcome, context);
  if (ref.step === "check") return looked(move, ref.n, run, outcome);
  const index = present(ref.index, "the step is about a segment");
  const segment = present(rows.moveSegments.get(ref.move_id, index), "a step has its segment");
  if (segment.run_pos !== run.run_pos) return [];
  switch (ref.step) {
    case "copy":
      return outcome === "SUCCEEDED"
        ? copied(move, segment, context)
        : failed(rows, move, segment, run, outcome);
    case "remove":
      if (segment.state !== "COPIED") return discarded(move, segment, run, outcome);
      return outcome === "SUCCEEDED"
        ? removed(move, segment)
        : failed(rows, move, segment, run, outcome);
    case "verify":
      return compared(move, segment, run, outcome);
  }
}

function surveyed(
  move: MoveRow,
  index: number,
  run: RunRow,
  outcome: Outcome,
  { hash }: Context,
): NewEvent[] {
  const lane = present(move.lanes[index], "a survey has its lane");
  const { table, from, to, report, pages: page } = lane;
  const bounds = report?.bounds ?? [];
  if (outcome === "CANCELLED" || lane.run_pos !== run.run_pos) return [];
  // Without a bound it would be asked the same again, for ever.
  const isUsable = outcome === "SUCCEEDED" && (bounds.length > 0 || report?.sealed === true);
  if (!isUsable) {
    if (move.state !== "PLANNED" && move.state !== "RUNNING") return [];
    const why = run.first_error?.message ?? "it found nothing";
    const reason = `the survey of ${table.table} on ${from} failed: ${why}`;
    return [moveStateChanged(move, "PAUSED", { reason })];
  }
  let lower = lane.after;
  const segments = bounds.map(({ upper, rows }) => {
    const names = { table: table.table, from, to };
    const segment_id = moveSegmentIdOf(hash, move.move_id, names, lower);
    const segment = { segment_id, lower, upper, rows };
    lower = upper;
    return segment;
  });
  const { move_id, next_segment: first_index } = move;
  return [
    {
      type: "MoveSegmentsPlanned",
      idempotency_key: IDEMPOTENCY_KEYS.moveSurvey(move_id, index, page),
      data: { move_id, lane: index, page, first_index, segments, sealed: report?.sealed === true },
    },
  ];
}

/** What a copy that came to its end found when both sides were compared. */
function copied(move: MoveRow, segment: MoveSegmentRow, context: Context): NewEvent[] {
  const { report } = segment;
  if (report?.equal === false) {
    const message = report.note ?? "both sides differ after the copy";
    return again(move, segment, { class: "verification", message });
  }
  // It was stopped on its way, and goes on from there.
  if (report?.equal !== true || report.digest === undefined || report.rows === undefined) return [];
  const done = moveSegmentChanged(segment, "copied", { report: withoutPlace(report) });
  if (report.split_at === undefined) return [done];
  return [segmentSplit(move, segment, report.split_at, report.rows, context), done];
}

function withoutPlace(report: MoveReport): MoveReport {
  const { split_at: _, ...rest } = report;
  return rest;
}

function segmentSplit(
  move: MoveRow,
  segment: MoveSegmentRow,
  split_at: string[],
  rowsCopied: number,
  { hash }: Context,
): NewEvent {
  const { move_id, segment_index, generation, rows_estimated } = segment;
  const { table, from, to } = present(move.lanes[segment.lane], "a segment has its lane");
  const names = { table: table.table, from, to };
  return {
    type: "MoveSegmentSplit",
    idempotency_key: IDEMPOTENCY_KEYS.moveSegmentSplit(move_id, segment_index, generation),
    data: {
      move_id,
      segment_index,
      generation,
      split_at,
      rest: {
        segment_id: moveSegmentIdOf(hash, move_id, names, split_at),
        segment_index: move.next_segment,
        rows: Math.max(0, rows_estimated - rowsCopied),
      },
    },
  };
}

/** Copies a segment again from its beginning, unless that was tried too often. */
function again(move: MoveRow, segment: MoveSegmentRow, error: Failure): NewEvent[] {
  if (segment.failures + 1 >= move.plan.segment_attempts) {
    return [moveSegmentChanged(segment, "poisoned", { error })];
  }
  return [moveSegmentChanged(segment, "pending", { generation: segment.generation + 1, error })];
}

function removed(move: MoveRow, segment: MoveSegmentRow): NewEvent[] {
  const { report } = segment;
  if (report?.equal === true) return [moveSegmentChanged(segment, "removed", { report })];
  if (report?.equal !== false) return [];
  const message = report.note ?? "the source has changed since it was copied";
  return again(move, segment, { class: "verification", message });
}

/** What was copied of an excluded segment is not there any more; where it is, a person has to look. */
function discarded(
  move: MoveRow,
  { segment_index }: MoveSegmentRow,
  run: RunRow,
  outcome: Outcome,
): NewEvent[] {
  if (outcome !== "FAILED" || move.state !== "RUNNING") return [];
  const reason = `what was copied of the excluded segment ${segment_index} is still there: ${whyNot(run)}`;
  return [moveStateChanged(move, "PAUSED", { reason })];
}

/** What failed too often, or cannot be helped by trying again, is quarantined; the rest is tried again. */
function failed(
  rows: Rows,
  move: MoveRow,
  segment: MoveSegmentRow,
  run: RunRow,
  outcome: Outcome,
): NewEvent[] {
  if (outcome === "CANCELLED") return [];
  const attempts = taskOf(rows, run.run_pos, 0)?.failures ?? 0;
  const most = run.retry?.max_attempts ?? null;
  const isFinal = most === null || attempts < most;
  if (!isFinal && segment.failures < move.plan.segment_attempts) return [];
  const error = run.first_error ?? { class: "user", message: "its run failed" };
  return [moveSegmentChanged(segment, "poisoned", { error })];
}

/** What a comparison found; one that was cancelled found nothing, and is not begun again. */
function compared(
  move: MoveRow,
  segment: MoveSegmentRow,
  run: RunRow,
  outcome: Outcome,
): NewEvent[] {
  const { move_id, verifications: n } = move;
  const { segment_index } = segment;
  if (move.state === "CANCELLED" || segment.state !== "COPIED" || segment.verify_n >= n) return [];
  const found = findingOf(segment.report, run, outcome, "both sides could not be compared");
  return [
    {
      type: "MoveChecked",
      idempotency_key: IDEMPOTENCY_KEYS.moveChecked(move_id, segment_index, n),
      data: { move_id, segment_index, n, ...found },
    },
  ];
}

/**
 * What a look at the shards found. One that was cancelled found nothing, and a move that depends on it,
 * which can be paused, has it done again.
 */
function looked(move: MoveRow, n: number, run: RunRow, outcome: Outcome): NewEvent[] {
  const isDoneAgain = outcome === "CANCELLED" && move.state !== "COMPLETE";
  if (isDoneAgain || move.check_run_pos !== run.run_pos) return [];
  const { move_id } = move;
  const found = findingOf(move.check_report, run, outcome, "the shards could not be looked at");
  return [
    {
      type: "MoveChecked",
      idempotency_key: IDEMPOTENCY_KEYS.moveChecked(move_id, null, n),
      data: { move_id, segment_index: null, n, ...found },
    },
  ];
}

/** A report that says whether all is well is a verdict; without one it is only said why there is none. */
function findingOf(
  report: MoveReport | null,
  run: RunRow,
  outcome: Outcome,
  failure: string,
): { ok: boolean; report: MoveReport } {
  if (outcome === "SUCCEEDED" && report?.equal !== undefined) return { ok: report.equal, report };
  const note = `${failure}: ${whyNot(run)}`.slice(0, NOTE_LENGTH_MAX);
  return { ok: false, report: { note } };
}

function whyNot(run: RunRow): string {
  if (run.cancel_requested_at === null)
    return run.first_error?.message ?? "its run came to nothing";
  return `its run was cancelled: ${run.cancel_reason ?? "nobody said why"}`;
}
