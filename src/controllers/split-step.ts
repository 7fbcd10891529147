import { present } from "../core/assert.ts";
import type { NewEvent } from "../core/events/index.ts";
import type { Instant } from "../core/instant.ts";
import { stepRunKey } from "../core/keys.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { SplitRow } from "../core/rows/split-rows.ts";
import { shardWorkName } from "../core/shard-spec.ts";
import type { SplitStep } from "../core/step-protocol.ts";
import { pinnedWork } from "./asset-lookup.ts";
import { cancelEvents } from "./cancel-run.ts";
import type { Context } from "./decision.ts";
import { currentShards } from "./find-shards.ts";
import { RUN_CLASS } from "./request-run.ts";
import { workRun } from "./work-run.ts";

/** Steps that go through many rows: as patient as backfills. What follows writes is sooner. */
const CLASS_OF_STEP: Partial<Record<SplitStep, number>> = {
  copy: RUN_CLASS.backfill,
  remove: RUN_CLASS.backfill,
  discard: RUN_CLASS.backfill,
  tail: RUN_CLASS.live,
  reverse: RUN_CLASS.live,
};

/** Whether a look at both schemas found nothing in the way. */
export function areChecksOk({ checks }: Pick<SplitRow, "checks">): boolean {
  return checks?.every(({ ok }) => ok) ?? false;
}

/** Whether the whole copy is there and was found equal to the source. */
export function isVerified({ backfill_status, verification }: SplitRow): boolean {
  return backfill_status === "completed" && verification?.finished === true && verification.ok;
}

/** Whether nothing that the ledger knows of stands in the way of a cutover. */
export function isReadyToCutOver(split: SplitRow): boolean {
  const isUp = split.phase === "cutover_pending" && split.tail_status === "caught_up";
  return isUp && isVerified(split);
}

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
  const task = run_pos === null ? null : rows.tasks.get(run_pos, 0);
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
 * Cancels the run of a step that another one is due instead of, unless a worker is at it: that hears
 * of it with its next word, and comes to an end where nothing is left half done.
 */
export function stopStep(rows: Rows, split: SplitRow, context: Context): NewEvent[] {
  if (split.run_pos === null || !isSuperseded(split, context.now)) return [];
  const run = present(rows.runs.get(split.run_pos), "a step that is at work has its run");
  const task = rows.tasks.get(split.run_pos, 0);
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
  return workRun(
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
