import { taskOf } from "../run/task-blocks.ts";
import { present, unreachable } from "../../kernel/errors.ts";
import type { NewEvent } from "../events.ts";
import { type Instant, addMs } from "../../kernel/instant.ts";
import { stepRunKey } from "../keys.ts";
import type { Rows } from "../rows.ts";
import type { SplitRow, SplitPhase } from "./rows.ts";
import { shardWorkName } from "../shard/spec.ts";
import type { SplitStep, ClaimedSplit, ShardWorkRef } from "../shard/step-protocol.ts";
import { pinnedWork } from "../asset/look-up.ts";
import { cancelEvents } from "../run/cancel.ts";
import type { Context, Controller } from "../decision.ts";
import { currentShards } from "../shard/look-up.ts";
import { RUN_CLASS, singleTaskRun } from "../run/request.ts";
import { splitPhaseChanged, splitStepSettled, splitWanted, type StepOutcome } from "./look-up.ts";
import { areChecksOk, isReadyToCutOver } from "./rules.ts";

/** Steps that go through many rows have the priority of backfills; those that follow writes go first. */
const CLASS_OF_STEP: Partial<Record<SplitStep, number>> = {
  copy: RUN_CLASS.backfill,
  remove: RUN_CLASS.backfill,
  discard: RUN_CLASS.backfill,
  tail: RUN_CLASS.live,
  reverse: RUN_CLASS.live,
};

/** The step that should be working on a split by now; null when it waits for somebody or for the time. */
export function stepDue(split: SplitRow, now: Instant): SplitStep | null {
  const { phase, wanted, remove_after } = split;
  const isBack = split.routing_version_rollback !== null;
  // A commit record decides: it is carried out to the end, whatever else is wished.
  if (split.committing === 1) return isBack ? "cutback" : "cutover";
  switch (phase) {
    case "completed":
      return remove_after !== null && remove_after <= now ? "remove" : null;
    case "rolled_back":
      return null;
    case "planning":
      return split.step_state === null && areChecksOk(split) ? null : "check";
    default:
      if (wanted === "rollback") return phase === "reversible" && !isBack ? "cutback" : "discard";
      return wanted === "ddl" ? "ddl" : stepOfPhase(split);
  }
}

function stepOfPhase({ phase, wanted, armed }: SplitRow): SplitStep | null {
  switch (phase) {
    case "dual_write":
      return armed === 1 ? null : "arm";
    case "backfill":
      return "copy";
    case "cutover_pending":
      return wanted === "cutover" ? "cutover" : "tail";
    case "reversible":
      return wanted === "complete" ? "finish" : "reverse";
    default:
      return "tail";
  }
}

/** Whether a step is at work that should come to an end because another one is due. */
export function isSuperseded(split: SplitRow, now: Instant): boolean {
  return split.run_pos !== null && stepDue(split, now) !== split.step;
}

/** Most runs of one step in a row that are looked back on for the one that failed. */
const RUNS_BACK_MAX = 100;

/**
 * Whether what failed is being tried again: by the run that is at work, or by a later one of the same
 * step. What was given up for another step, as a cutover that fell back, is not.
 */
export function isTriedAgain(rows: Rows, split: SplitRow, now: Instant): boolean {
  const { split_id, step, steps, run_pos } = split;
  if (split.error === null || step === null || stepDue(split, now) !== step) return false;
  const task = run_pos === null ? null : taskOf(rows, run_pos, 0);
  if (task !== null && task.failures + task.lost_attempts > 0) return true;
  const last = run_pos === null ? steps : steps - 1;
  for (let n = last; n > 0 && last - n < RUNS_BACK_MAX; n--) {
    const known = rows.runKeys.get(stepRunKey({ work: "split", split_id, step, n }));
    const run = known === null ? null : rows.runs.get(known.run_pos);
    if (run === null) return false;
    if (run.state === "FAILED") return true;
  }
  return false;
}

/**
 * Cancels the run of a step when another step is due, unless a worker has it: that hears
 * of it with its next word, and comes to an end where nothing is left half done.
 */
export function stopStep(rows: Rows, split: SplitRow, context: Context): NewEvent[] {
  if (split.run_pos === null || !isSuperseded(split, context.now)) return [];
  const run = present(rows.runs.get(split.run_pos), "a step that is at work has its run");
  const task = taskOf(rows, split.run_pos, 0);
  const isIdle = task?.state === "READY" || task?.state === "RETRY_WAIT";
  if (!isIdle || run.cancel_requested_at !== null) return [];
  const because = split.wanted === null ? `is ${split.phase}` : `is to come to ${split.wanted}`;
  return cancelEvents(rows, run, `split ${split.split_id} ${because}`, context);
}

/** The request of a run of a step: one task, on a worker that knows both shards. */
export function stepRun(rows: Rows, split: SplitRow, step: SplitStep, context: Context): NewEvent {
  const { split_id, source, target } = split;
  const work = { work: "split", split_id, step, n: split.steps + 1 } as const;
  // Once begun, a split comes to its end even where the shards are not published any more.
  const spec_hash = currentShards(rows)?.spec_hash ?? split.spec_hash;
  return singleTaskRun(
    {
      run_key: stepRunKey(work),
      asset_key: shardWorkName(source, target),
      spec_hash,
      code_version: pinnedWork(rows, spec_hash).code_version,
      pool: null,
      trigger: { type: "shards", work },
      class: CLASS_OF_STEP[step] ?? RUN_CLASS.automation,
      priority: 0,
      retry: null,
    },
    context,
  );
}

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

/** What a worker is told of a step of a split; null when it is not the split's current one. */
export function claimedSplit(
  rows: Rows,
  { split_id, step, n }: Extract<ShardWorkRef, { work: "split" }>,
): ClaimedSplit | null {
  const split = rows.splits.get(split_id);
  if (split === null || split.steps !== n) return null;
  const { source, target, tenants, tables, epochs, ddl } = split;
  const { routing_version_cutover, routing_version_rollback } = split;
  const { lag_limit_ms, fence_wait_ms, fence_hold_ms } = split;
  return {
    work: "split",
    split_id,
    step,
    n,
    source,
    target,
    tenants,
    tables,
    epochs,
    routing_version_cutover,
    routing_version_rollback,
    lag_limit_ms,
    fence_wait_ms,
    fence_hold_ms,
    ddl,
  };
}
