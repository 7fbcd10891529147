import { PawlError } from "../core/errors.ts";
import type { NewEvent } from "../core/events/index.ts";
import { IDEMPOTENCY_KEYS } from "../core/keys.ts";
import type { MoveRow, MoveState } from "../core/rows/move-rows.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { Decide } from "./decision.ts";
import { knownMove } from "./find-move.ts";
import { refuseOverlaps } from "./move-overlaps.ts";
import { moveStateChanged, stopMoveRuns } from "./move-state.ts";

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
