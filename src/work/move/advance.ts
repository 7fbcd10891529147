import type { NewEvent } from "../events.ts";
import type { MoveRow } from "./rows.ts";
import type { Rows } from "../rows.ts";
import type { Context, Controller } from "../decision.ts";
import { isBeforeCopies, moveStateChanged, stopMoveRuns } from "./look-up.ts";
import { checkRun, copyRuns, discardRuns, removeRuns, surveyRuns, verifyRuns } from "./request.ts";

/**
 * Moves a move on: surveys its lanes, looks whether all of it can be done, copies their segments table
 * by table, removes what was copied from where it came from once there is nothing left to copy, and
 * says when all rows are where they belong. What stands still only has its runs stopped; comparisons
 * that somebody asked for go on.
 */
export const advanceMove: Controller<MoveRow> = (rows, move, context) => {
  switch (move.state) {
    case "PLANNED":
      return [...surveyRuns(rows, move, context), ...lookFirst(rows, move, context)];
    case "RUNNING":
      return goOn(rows, move, context);
    case "PAUSED":
      return [
        ...stopMoveRuns(rows, move, context, { comparisons: false }),
        ...verifyRuns(rows, move, roomOf(move), context),
      ];
    case "COMPLETE":
      return [...verifyRuns(rows, move, roomOf(move), context), ...lookAgain(rows, move, context)];
    case "CANCELLED":
      return stopMoveRuns(rows, move, context, { comparisons: true });
  }
};

/** How many more segments may have a run. */
function roomOf(move: MoveRow): number {
  return Math.max(0, move.segment_concurrency - move.segments_active);
}

function goOn(rows: Rows, move: MoveRow, context: Context): NewEvent[] {
  const { retry_budget: budget } = move.plan;
  if (budget !== null && move.retries_counted >= budget) {
    const last = move.last_error === null ? "" : `; the last one: ${move.last_error.message}`;
    const reason = `${move.retries_counted} attempts failed, which is all that its budget allows${last}`;
    return [moveStateChanged(move, "PAUSED", { reason })];
  }
  const events = surveyRuns(rows, move, context);
  // With copies under way it has been looked at, and what they find is looked at when they end.
  const isBegun = move.segments_active > 0 || !isBeforeCopies(move);
  if (!isBegun && move.check_ok !== 1) return [...events, ...look(rows, move, context)];
  const take = (more: NewEvent[]): number => {
    events.push(...more);
    return more.length;
  };
  let room = roomOf(move);
  room -= take(verifyRuns(rows, move, room, context));
  room -= take(discardRuns(rows, move, room, context));
  room -= take(copyRuns(rows, move, room, context));
  const isCopied =
    move.lanes_sealed === move.lanes.length &&
    move.segments_pending === 0 &&
    move.segments_poisoned === 0;
  if (!isCopied) return events;
  const isRemoved = move.plan.keep_source || move.segments_copied === 0;
  // What somebody wants compared has to be on both sides still.
  if (!isRemoved && move.verify_waiting === 0) take(removeRuns(rows, move, room, context));
  const isIdle = move.segments_active === 0 && move.segments_discarding === 0;
  return isRemoved && isIdle ? [...events, ...becomeComplete(rows, move, context)] : events;
}

function becomeComplete(rows: Rows, move: MoveRow, context: Context): NewEvent[] {
  if (move.check_run_pos !== null || move.verify_waiting > 0) return [];
  if (move.check_ok === null) return checkRun(rows, move, context);
  if (move.check_ok === 1) return [moveStateChanged(move, "COMPLETE")];
  return [moveStateChanged(move, "PAUSED", { reason: whyNot(move, "the last look at it failed") })];
}

/** Why a look was not good: what it found, or that there is no verdict as nobody could look. */
function whyNot({ check_report }: MoveRow, verdict: string): string {
  const note = check_report?.note ?? "rows are where they do not belong";
  return check_report?.equal === false ? `${verdict}: ${note}` : note;
}

/** A dry run ends with the look that a real one begins to copy with. */
function lookFirst(rows: Rows, move: MoveRow, context: Context): NewEvent[] {
  const isSurveyed = move.lanes_sealed === move.lanes.length;
  if (move.dry_run === 0 || !isSurveyed || move.check_ok === 1) return [];
  return look(rows, move, context);
}

/** Looks whether the tables fit, and whether the topologies have a place for all rows; pauses if not. */
function look(rows: Rows, move: MoveRow, context: Context): NewEvent[] {
  if (move.check_ok === null) return checkRun(rows, move, context);
  const reason = whyNot(move, "it would not come to a good end");
  return [moveStateChanged(move, "PAUSED", { reason })];
}

/** A request of a complete move is answered by a look at where all rows are. */
function lookAgain(rows: Rows, move: MoveRow, context: Context): NewEvent[] {
  if (move.checked_n >= move.verifications || move.verify_waiting > 0) return [];
  return checkRun(rows, move, context);
}
