import type { TaskResultField } from "../run/events.ts";
import type { Instant } from "../../kernel/instant.ts";
import type { Rows } from "../rows.ts";
import type { RunState } from "../run/rows.ts";
import type { ShardWorkRef } from "./step-protocol.ts";
import type { Touch } from "../fold.ts";
import {
  endMoveAttempt,
  finishMoveStep,
  queueMoveStep,
  startMoveStep,
  touchesOfMoveStep,
} from "../move/fold-steps.ts";
import { endSplitAttempt, finishSplitStep, queueSplitStep, startSplitStep } from "../split/fold.ts";

/** The place and time of an event. */
export type At = { pos: number; occurred_at: Instant };

/** The rows that the run of a step on shards is about. */
export function touchesOfShardWork(ref: ShardWorkRef | undefined): Touch[] {
  if (ref === undefined) return [];
  return ref.work === "split" ? [["splits", [ref.split_id]]] : touchesOfMoveStep(ref);
}

/** A run of the step was asked for. */
export function queueStep(
  rows: Rows,
  ref: ShardWorkRef,
  run: { run_pos: number; run_id: string },
  at: At,
): void {
  if (ref.work === "split") queueSplitStep(rows, ref, run, at);
  else queueMoveStep(rows, ref, run, at);
}

/** A worker has begun with the step. */
export function startStep(
  rows: Rows,
  ref: ShardWorkRef,
  attempt: { attempt: number; worker_id: string },
  at: At,
): void {
  if (ref.work === "split") startSplitStep(rows, ref, attempt, at);
  else startMoveStep(rows, ref, attempt, at);
}

/** An attempt has ended; another follows when the result says when. */
export function endStepAttempt(
  rows: Rows,
  ref: ShardWorkRef,
  result: TaskResultField,
  at: At,
): void {
  if (ref.work === "split") endSplitAttempt(rows, ref, result, at);
  else endMoveAttempt(rows, ref, result, at);
}

/** The run of the step has ended. */
export function finishStep(
  rows: Rows,
  ref: ShardWorkRef,
  outcome: Extract<RunState, "SUCCEEDED" | "FAILED" | "CANCELLED">,
  at: At,
): void {
  if (ref.work === "split") finishSplitStep(rows, ref, outcome, at);
  else finishMoveStep(rows, ref, outcome, at);
}
