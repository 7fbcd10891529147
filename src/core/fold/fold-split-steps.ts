import { assert, present } from "../assert.ts";
import type { TaskResultField } from "../events/run-events.ts";
import type { Rows } from "../rows/rows.ts";
import type { SplitRow, StepState } from "../rows/split-rows.ts";
import type { ShardWorkRef, SplitReport, SplitStep } from "../step-protocol.ts";
import type { At } from "./fold-shard-work.ts";

type SplitRef = Extract<ShardWorkRef, { work: "split" }>;

/** A split that an event is about, which therefore exists. */
export function splitOf(rows: Rows, splitId: string): SplitRow {
  return present(rows.splits.get(splitId), `split ${splitId} exists`);
}

/** Writes a split, with the time of what changed it. */
export function putSplit(rows: Rows, split: SplitRow, { pos, occurred_at }: At): void {
  rows.splits.put({ ...split, updated_at: occurred_at, row_version: pos });
}

/** A run of the next step was asked for. */
export function queueSplitStep(
  rows: Rows,
  { split_id, step, n }: SplitRef,
  run: { run_pos: number; run_id: string },
  at: At,
): void {
  const split = splitOf(rows, split_id);
  assert(
    split.run_pos === null && split.step_state === null,
    "one step at a time works on a split",
  );
  assert(n === split.steps + 1, "steps are numbered");
  const queued = {
    steps: n,
    step,
    step_state: "QUEUED",
    step_report: null,
    worker_id: null,
    // What was due is being done; should it fail for good, the time has no more to say.
    due_at: step === "remove" ? null : split.due_at,
  } as const;
  putSplit(rows, { ...split, ...queued, ...run }, at);
}

/** A worker has begun with the step, for the first time or again. */
export function startSplitStep(
  rows: Rows,
  { split_id, step, n }: SplitRef,
  { worker_id }: { worker_id: string },
  at: At,
): void {
  const split = splitOf(rows, split_id);
  assert(split.steps === n, "the last step is the one that runs");
  // Once a worker has begun to take capture down, nobody knows what is left of it.
  const armed = step === "finish" || step === "discard" ? 0 : split.armed;
  const status = statusOfStep(split, step, "running");
  putSplit(rows, { ...split, ...status, armed, step_state: "RUNNING", worker_id }, at);
}

/** What a step that has begun, or has failed for good, makes of the state of the copy or the tail. */
function statusOfStep(
  split: SplitRow,
  step: SplitStep,
  status: "running" | "failed",
): Partial<SplitRow> {
  if (step === "copy") return { backfill_status: status };
  if (step !== "tail" && step !== "reverse") return {};
  const isCaughtUp = status === "running" && split.tail_status === "caught_up";
  return isCaughtUp ? {} : { tail_status: status };
}

/** The steps that say whether both shards are fit for a split: before it, and before anything is armed. */
const LOOKS_AT_BOTH: ReadonlySet<SplitStep> = new Set(["check", "arm"]);

/** An attempt has ended: what it found, and why it failed. */
export function endSplitAttempt(
  rows: Rows,
  { split_id, step }: SplitRef,
  result: TaskResultField,
  at: At,
): void {
  const split = splitOf(rows, split_id);
  const failed = result.outcome === "FAILED" && result.released !== true;
  const report = reportOf(result);
  putSplit(
    rows,
    {
      ...split,
      ...(report === null ? {} : reported(split, report)),
      checks: LOOKS_AT_BOTH.has(step) ? (report?.checks ?? split.checks) : split.checks,
      step_report: report ?? split.step_report,
      failures: split.failures + (failed ? 1 : 0),
      ...(failed && result.error !== undefined
        ? { error: result.error, error_at: at.occurred_at }
        : {}),
    },
    at,
  );
}

function reportOf({ step }: TaskResultField): SplitReport | null {
  if (step?.work !== "split") return null;
  const { work, ...report } = step;
  assert(work === "split", "the report is about a split");
  return report;
}

/** What a report of the last step says about how far a split is. */
export function reported(split: SplitRow, report: SplitReport): Partial<SplitRow> {
  // The way back has a stream of its own, which says nothing about the copy.
  const isBack = split.step === "reverse" || split.step === "cutback";
  return {
    ...(isBack ? {} : copied(split, report)),
    last_event_id: report.last_event_id ?? split.last_event_id,
    last_event_ts: report.last_event_at ?? split.last_event_ts,
    tail_lag_events: report.lag_events ?? split.tail_lag_events,
    tail_lag_ms: report.lag_ms ?? split.tail_lag_ms,
    write_pause_us:
      report.write_pause_ms === undefined
        ? split.write_pause_us
        : Math.round(report.write_pause_ms * 1_000),
  };
}

function copied(split: SplitRow, report: SplitReport): Partial<SplitRow> {
  return {
    total_rows_copied: report.rows_copied ?? split.total_rows_copied,
    table_progress: report.tables ?? split.table_progress,
    tenant_rows: report.tenant_rows ?? split.tenant_rows,
    verification: report.verification ?? split.verification,
  };
}

/** The run of the step has ended; what follows from that is for the controller. */
export function finishSplitStep(
  rows: Rows,
  { split_id, step }: SplitRef,
  outcome: Extract<StepState, "SUCCEEDED" | "FAILED" | "CANCELLED">,
  at: At,
): void {
  const split = splitOf(rows, split_id);
  const failed = outcome === "FAILED" ? statusOfStep(split, step, "failed") : {};
  // A tail that failed has to catch up again first, whenever a cutover was to be tried again.
  const due_at = outcome === "FAILED" && step === "tail" ? null : split.due_at;
  const ended = { step_state: outcome, run_pos: null, worker_id: null, due_at };
  putSplit(rows, { ...split, ...failed, ...ended }, at);
}
