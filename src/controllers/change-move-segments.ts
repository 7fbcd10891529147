import { PawlError } from "../core/errors.ts";
import type { NewEvent } from "../core/events/index.ts";
import type { MoveRow, MoveSegmentRow, MoveSegmentState } from "../core/rows/move-rows.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { Condition } from "../core/rows/table.ts";
import { commandedMove, type MoveChanged, type MoveCommand, moveChanged } from "./change-move.ts";
import { type Decide, DECISION_EVENTS_MAX } from "./decision.ts";
import { knownMoveSegment } from "./find-move.ts";
import { moveSegmentChanged } from "./move-state.ts";

/** A command about one segment of a move. */
export type MoveSegmentCommand = MoveCommand & { segment_index: number };

/** Tries what was set aside once more where it stood: one segment, or all with null. */
export function retrySegments(
  command: MoveCommand & { segment_index: number | null },
): Decide<MoveChanged> {
  return (rows, { principal }) => {
    const move = commandedMove(rows, command, "retrying a segment", ["RUNNING", "PAUSED"]);
    const { segment_index: index } = command;
    const segments =
      index === null
        ? poisonedOf(rows, move)
        : [commandedSegment(rows, move, index, "retrying", ["POISONED"])];
    const said = { changed_by: principal, reason: command.reason ?? null };
    const events = segments.map((segment): NewEvent => {
      // What was verified already only failed to be removed.
      const becomes = segment.digest === null ? "pending" : "copied";
      return moveSegmentChanged(segment, becomes, said);
    });
    return { events, result: moveChanged(move, move.state, 0) };
  };
}

function poisonedOf(rows: Rows, move: MoveRow): MoveSegmentRow[] {
  const where: Condition[] = [
    { cell: "move_id", is: "=", value: move.move_id },
    { cell: "state", is: "=", value: "POISONED" },
    { cell: "run_pos", is: "null" },
  ];
  const order = [{ cell: "table_order" }, { cell: "segment_index" }];
  return rows.moveSegments.find(where, order, DECISION_EVENTS_MAX);
}

/** Copies a segment again from its beginning; what was copied of it is removed from the target first. */
export function recopySegment(command: MoveSegmentCommand): Decide<MoveChanged> {
  return (rows, { principal }) => {
    const move = commandedMove(rows, command, "copying a segment again", ["RUNNING", "PAUSED"]);
    const legal: MoveSegmentState[] = ["COPIED", "POISONED"];
    const segment = commandedSegment(rows, move, command.segment_index, "copying again", legal);
    const event = moveSegmentChanged(segment, "pending", {
      generation: segment.generation + 1,
      changed_by: principal,
      reason: command.reason ?? null,
    });
    return { events: [event], result: moveChanged(move, move.state, 0) };
  };
}

/** Lets a segment that was set aside stay where it is, on record. */
export function excludeSegment(
  command: MoveSegmentCommand & { reason: string },
): Decide<MoveChanged> {
  return (rows, { principal }) => {
    const move = commandedMove(rows, command, "excluding a segment", ["RUNNING", "PAUSED"]);
    const legal: MoveSegmentState[] = ["POISONED"];
    const segment = commandedSegment(rows, move, command.segment_index, "excluding", legal);
    if (command.reason.trim() === "") {
      throw new PawlError("INPUT_INVALID", "Say why the segment may stay where it is.");
    }
    const said = { changed_by: principal, reason: command.reason };
    const event = moveSegmentChanged(segment, "excluded", said);
    return { events: [event], result: moveChanged(move, move.state, 0) };
  };
}

/** The segment of a command; refuses what makes no sense now. */
function commandedSegment(
  rows: Rows,
  move: MoveRow,
  index: number,
  action: string,
  legal: readonly MoveSegmentState[],
): MoveSegmentRow {
  const segment = knownMoveSegment(rows, move, index);
  const { state, run_pos, step } = segment;
  const title = `Segment ${index} of move ${move.move_id}`;
  if (!legal.includes(state)) {
    throw new PawlError(
      "STATE_ILLEGAL",
      `${title} is ${state}; ${action} is possible only while it is ${legal.join(" or ")}.`,
      { details: { segment_index: index, state, legal } },
    );
  }
  if (run_pos === null) return segment;
  throw new PawlError(
    "STATE_ILLEGAL",
    `${title} has a run (${step}) under way; wait for its end, or pause the move.`,
    { details: { segment_index: index, state, step } },
  );
}
