import { PawlError } from "../../kernel/errors.ts";
import type { NewEvent } from "../events.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import type { MoveRow, MoveState, MoveSegmentRow, MoveSegmentState } from "./rows.ts";
import type { Rows } from "../rows.ts";
import { type Decide, DECISION_EVENTS_MAX } from "../decision.ts";
import {
  knownMove,
  moveStateChanged,
  stopMoveRuns,
  knownMoveSegment,
  moveSegmentChanged,
} from "./look-up.ts";
import { refuseOverlaps } from "./overlaps.ts";
import type { Condition } from "../../kernel/table.ts";

/** A command about one move, by its id or its name; the version, when given, must be current. */
export type MoveCommand = {
  move: string;
  expected_state_version?: number | undefined;
  reason?: string | undefined;
};

/** Where a move stands after a command. */
export type MoveChanged = { move_id: string; state: MoveState; state_version: number };

/** The states of a move that has not come to an end. */
const OPEN: readonly MoveState[] = ["PLANNED", "RUNNING", "PAUSED"];

/** The move of a command; refuses another version than the one meant, and what makes no sense now. */
export function commandedMove(
  rows: Rows,
  command: MoveCommand,
  action: string,
  legal: readonly MoveState[],
): MoveRow {
  const move = knownMove(rows, command.move);
  const { move_id, state, state_version } = move;
  const expected = command.expected_state_version;
  if (expected !== undefined && expected !== state_version) {
    throw new PawlError(
      "STATE_VERSION_MISMATCH",
      `Move ${move_id} is at state version ${state_version} (${state}), not ${expected}. ` +
        "Look at it again, then decide.",
      { details: { expected_state_version: expected, state_version, state } },
    );
  }
  if (legal.includes(state)) return move;
  throw new PawlError(
    "STATE_ILLEGAL",
    `Move ${move_id} is ${state}; ${action} is possible only while it is ${legal.join(" or ")}.`,
    { details: { state, state_version, legal } },
  );
}

/** Where a move stands after so many changes of its version. */
export function moveChanged(move: MoveRow, state: MoveState, versions: number): MoveChanged {
  return { move_id: move.move_id, state, state_version: move.state_version + versions };
}

function turned(
  move: MoveRow,
  state: MoveState,
  { reason }: MoveCommand,
  principal: string,
): { event: NewEvent; result: MoveChanged } {
  const event = moveStateChanged(move, state, { changedBy: principal, reason });
  return { event, result: moveChanged(move, state, 1) };
}

/** Lets a planned move copy. */
export function startMove(command: MoveCommand): Decide<MoveChanged> {
  return (rows, { principal, hash }) => {
    const move = commandedMove(rows, command, "starting", ["PLANNED"]);
    if (move.dry_run === 1) {
      throw new PawlError(
        "STATE_ILLEGAL",
        `Move ${move.move_id} was planned as a dry run, to see how large it would be. Plan it ` +
          "once more without that, and start that one.",
        { details: { move_id: move.move_id, dry_run: true } },
      );
    }
    refuseOverlaps(rows, move, hash);
    const { event, result } = turned(move, "RUNNING", command, principal);
    return { events: [event], result };
  };
}

/** Stops a move; its segments keep how far they got. */
export function pauseMove(command: MoveCommand): Decide<MoveChanged> {
  return (rows, context) => {
    const move = commandedMove(rows, command, "pausing", ["PLANNED", "RUNNING"]);
    const { event, result } = turned(move, "PAUSED", command, context.principal);
    const stopped = stopMoveRuns(rows, move, context, { comparisons: false });
    return { events: [event, ...stopped], result };
  };
}

/** Goes on with a paused move where it stood. */
export function resumeMove(command: MoveCommand): Decide<MoveChanged> {
  return (rows, { principal, hash }) => {
    const move = commandedMove(rows, command, "resuming", ["PAUSED"]);
    const to = move.started_at === null ? "PLANNED" : "RUNNING";
    if (to === "RUNNING") refuseOverlaps(rows, move, hash);
    const { event, result } = turned(move, to, command, principal);
    return { events: [event], result };
  };
}

/** Ends a move for good; what was copied stays where it is, on both sides, and what was removed is gone. */
export function cancelMove(command: MoveCommand): Decide<MoveChanged> {
  return (rows, context) => {
    const move = commandedMove(rows, command, "cancelling", OPEN);
    const { event, result } = turned(move, "CANCELLED", command, context.principal);
    const stopped = stopMoveRuns(rows, move, context, { comparisons: true });
    return { events: [event, ...stopped], result };
  };
}

/** Changes how many segments are worked on at once, or how fast; null for no limit of rows. */
export function retuneMove(
  command: MoveCommand & {
    segment_concurrency?: number | undefined;
    rows_per_second?: number | null | undefined;
  },
): Decide<MoveChanged> {
  return (rows, { principal }) => {
    const move = commandedMove(rows, command, "retuning", OPEN);
    if (command.segment_concurrency === undefined && command.rows_per_second === undefined) {
      throw new PawlError(
        "INPUT_INVALID",
        "Nothing to retune: give segment_concurrency, rows_per_second, or both.",
      );
    }
    const { segment_concurrency = move.segment_concurrency } = command;
    const { rows_per_second = move.rows_per_second } = command;
    const state_version = move.state_version + 1;
    const event: NewEvent = {
      type: "MoveRetuned",
      idempotency_key: IDEMPOTENCY_KEYS.moveRetune(move.move_id, state_version),
      data: {
        move_id: move.move_id,
        state_version,
        segment_concurrency,
        rows_per_second,
        changed_by: principal,
      },
    };
    return { events: [event], result: moveChanged(move, move.state, 1) };
  };
}

/** Compares everything that was copied once more; of a complete move, looks where all rows are. */
export function verifyMove(command: MoveCommand): Decide<MoveChanged> {
  return (rows, { principal }) => {
    const legal: MoveState[] = ["RUNNING", "PAUSED", "COMPLETE"];
    const move = commandedMove(rows, command, "verifying", legal);
    const { move_id } = move;
    const n = move.verifications + 1;
    const event: NewEvent = {
      type: "MoveVerifyRequested",
      idempotency_key: IDEMPOTENCY_KEYS.moveVerify(move_id, n),
      data: { move_id, n, changed_by: principal },
    };
    return { events: [event], result: moveChanged(move, move.state, 0) };
  };
}

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
