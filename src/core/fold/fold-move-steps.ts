import type { TaskResultField } from "../events/run-events.ts";
import type { Rows } from "../rows/rows.ts";
import type { RunState } from "../rows/run-rows.ts";
import type { ShardWorkRef } from "../step-protocol.ts";
import type { At } from "./fold-shard-work.ts";
import type { Touch } from "./fold.ts";

type MoveRef = Extract<ShardWorkRef, { work: "move" }>;

/** The rows that a step of a move is about. */
export function touchesOfMoveStep({ move_id }: MoveRef): Touch[] {
  return [["moves", [move_id]]];
}

/** A run of the step was asked for. */
export function queueMoveStep(
  _rows: Rows,
  _ref: MoveRef,
  _run: { run_pos: number; run_id: string },
  _at: At,
): void {}

/** A worker has begun with the step. */
export function startMoveStep(
  _rows: Rows,
  _ref: MoveRef,
  _attempt: { attempt: number; worker_id: string },
  _at: At,
): void {}

/** An attempt has ended. */
export function endMoveAttempt(
  _rows: Rows,
  _ref: MoveRef,
  _result: TaskResultField,
  _at: At,
): void {}

/** The run of the step has ended. */
export function finishMoveStep(
  _rows: Rows,
  _ref: MoveRef,
  _outcome: Extract<RunState, "SUCCEEDED" | "FAILED" | "CANCELLED">,
  _at: At,
): void {}
