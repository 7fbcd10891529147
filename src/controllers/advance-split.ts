import { unreachable } from "../core/assert.ts";
import { addMs, type Instant } from "../core/instant.ts";
import type { SplitPhase, SplitRow } from "../core/rows/split-rows.ts";
import type { Controller } from "./decision.ts";
import {
  splitPhaseChanged,
  splitStepSettled,
  splitWanted,
  type StepOutcome,
} from "./split-state.ts";
import { areChecksOk, isReadyToCutOver, stepDue, stepRun, stopStep } from "./split-step.ts";

/** How long a split that cuts over by itself waits after a cutover that could not be had. */
export const CUTOVER_AGAIN_MS = 60_000;

/** What the end of a step means, and the phase it leads to. */
type Settlement = StepOutcome & { to?: SplitPhase };

/**
 * Moves a split on: takes note of a step that has ended, asks for the one that is due, and has one
 * stopped that another is due instead of. A step that failed for good stays until somebody resumes
 * the split or wants something else of it.
 */
export const advanceSplit: Controller<SplitRow> = (rows, split, context) => {
  const { now, principal } = context;
  if (split.run_pos === null && split.step_state !== null) {
    const settled = settlementOf(split, now);
    if (settled === null) return [];
    const { to } = settled;
    return [
      ...splitStepSettled(split, settled),
      ...(to === undefined ? [] : [splitPhaseChanged(split, to)]),
    ];
  }
  if (wantsCutover(split, now)) {
    return [
      splitWanted(split, "cutover", { changedBy: principal, reason: "it cuts over by itself" }),
    ];
  }
  if (split.run_pos !== null) return stopStep(rows, split, context);
  const due = stepDue(split, now);
  return due === null ? [] : [stepRun(rows, split, due, context)];
};

/** Whether a split that cuts over by itself may do so now. */
function wantsCutover(split: SplitRow, now: Instant): boolean {
  if (split.auto_cutover === 0 || split.wanted !== null || !isReadyToCutOver(split)) return false;
  return split.due_at === null || split.due_at <= now;
}

/** What the end of the last step means; null when it stays, for a person to look at. */
function settlementOf(split: SplitRow, now: Instant): Settlement | null {
  switch (split.step_state) {
    case "SUCCEEDED":
      return afterSuccess(split, now);
    case "FAILED":
      return afterFailure(split, now);
    case "CANCELLED":
      return { outcome: "stopped" };
    default:
      return null;
  }
}

function afterFailure(split: SplitRow, now: Instant): Settlement | null {
  const { step, wanted, committing } = split;
  const reason = split.error?.message ?? null;
  if ((step === "cutover" || step === "cutback") && committing === 0) {
    return fellBack(split, now, reason);
  }
  if (step === "ddl") return { outcome: "failed", clears: wanted === "ddl", reason };
  return stepDue(split, now) === step ? null : { outcome: "failed", reason };
}

/** A cutover that could not be had: it is wanted no more, and what ran before it goes on. */
function fellBack(split: SplitRow, now: Instant, reason: string | null): Settlement {
  const { step, wanted } = split;
  const clears = wanted === (step === "cutover" ? "cutover" : "rollback");
  const isAuto = step === "cutover" && clears && split.auto_cutover === 1;
  const again = isAuto ? { again_at: addMs(now, CUTOVER_AGAIN_MS) } : {};
  return { outcome: "fell_back", clears, reason, ...again };
}

function afterSuccess(split: SplitRow, now: Instant): Settlement | null {
  const { step, wanted, committing } = split;
  switch (step) {
    case "check":
      if (areChecksOk(split)) return { outcome: "done" };
      return stepDue(split, now) === step ? null : { outcome: "stopped" };
    case "copy": {
      if (!isCopied(split)) return { outcome: "stopped" };
      const goesOn = split.phase === "backfill" && wanted !== "rollback";
      return { outcome: "done", ...(goesOn ? { to: "tailing" } : {}) };
    }
    case "tail":
    case "reverse":
      return { outcome: "stopped" };
    case "cutover":
    case "cutback":
      if (committing === 1) return { outcome: "done", clears: wanted === "cutover" };
      if (stepDue(split, now) !== step) return { outcome: "stopped" };
      return fellBack(split, now, "it ended without its commit record");
    case "ddl":
      return { outcome: "done", clears: wanted === "ddl" };
    case "finish":
      return { outcome: "done", to: "completed" };
    case "discard":
      return { outcome: "done", to: "rolled_back" };
    case "arm":
    case "remove":
      return { outcome: "done" };
    case null:
      return null;
    default:
      return unreachable(step);
  }
}

/** Whether the last report says of every table that all its rows are copied. */
function isCopied({ tables, step_report }: SplitRow): boolean {
  const done = new Set(
    step_report?.tables?.flatMap(({ table, done: isDone }) => (isDone ? [table] : [])),
  );
  return tables.every(({ table }) => done.has(table));
}
