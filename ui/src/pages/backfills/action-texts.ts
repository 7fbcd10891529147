import { counted } from "../../parts/time-text.ts";
import { type Backfill, hasEnded } from "./backfill-texts.ts";

const activeChunks = ({ chunks_planned, chunks_running }: Backfill): number =>
  chunks_planned + chunks_running;

/** What pausing does, with the numbers of this backfill. */
export function pauseConsequence(backfill: Backfill): string {
  const active = activeChunks(backfill);
  const finish =
    active === 0
      ? "Nothing is under way. "
      : `${counted(active, "chunk that is under way finishes", "chunks that are under way finish")}. `;
  const left = `${counted(backfill.chunks_pending, "chunk waits", "chunks wait")} until it is resumed.`;
  return `No further chunk is planned. ${finish}${left}`;
}

/** What resuming does, with the numbers of this backfill. */
export function resumeConsequence(backfill: Backfill): string {
  const { chunks_pending, max_concurrent_runs, state, after_backfill_id } = backfill;
  const left = counted(chunks_pending, "chunk is", "chunks are");
  const pace = `at most ${counted(max_concurrent_runs, "run")} at once`;
  const early =
    state === "PENDING" && after_backfill_id !== null
      ? `It starts although the backfill before it did not succeed. `
      : "";
  return `${early}Planning goes on with the first chunk that has none yet: ${left} left, ${pace}.`;
}

/** What cancelling does, with the numbers of this backfill. */
export function cancelConsequence(backfill: Backfill, now: boolean): string {
  const active = activeChunks(backfill);
  const never = counted(
    backfill.chunks_pending,
    "chunk that is not planned never runs and counts",
    "chunks that are not planned never run and count",
  );
  const running =
    active === 0
      ? ""
      : now
        ? ` ${counted(active, "active run is", "active runs are")} stopped; unfinished work is lost.`
        : ` ${counted(active, "active run goes", "active runs go")} on to the end first.`;
  return (
    `${never} as cancelled.${running} What has succeeded stays. ` +
    "This cannot be taken back, but a retry can make a new backfill of what is left."
  );
}

/** What a retry does. */
export function retryConsequence(backfill: Backfill): string {
  const goesOn = hasEnded(backfill)
    ? "this one stays as it is"
    : "this one goes on as it is, and what fails later can be retried again";
  return (
    `A new backfill is created for exactly these partitions; ${goesOn}. The two are linked. ` +
    "What another retry has taken on is left out."
  );
}

/** What can be retried of a backfill: of one that goes on, only what failed. */
export type RetryChoice = "FAILED" | "CANCELLED" | "FAILED,CANCELLED" | "SKIPPED" | "missing";

/** The retries that would have something to do, in words with their numbers. */
export function retryChoices(backfill: Backfill): [choice: RetryChoice, text: string][] {
  const { partitions_failed: failed, partitions_cancelled: cancelled } = backfill;
  const choices: [RetryChoice, string][] = [];
  if (!hasEnded(backfill)) {
    return [["FAILED", `The ${counted(failed, "partition")} that failed so far`]];
  }
  if (failed > 0) {
    choices.push(["FAILED", `The ${counted(failed, "partition")} that failed`]);
  }
  if (failed > 0 && cancelled > 0) {
    const both = counted(failed + cancelled, "partition");
    choices.push(["FAILED,CANCELLED", `The ${both} that failed or were cancelled`]);
  }
  if (failed === 0 && cancelled > 0) {
    const text = counted(cancelled, "partition that was", "partitions that were");
    choices.push(["CANCELLED", `The ${text} cancelled`]);
  }
  if (backfill.partitions_skipped > 0) {
    const text = counted(backfill.partitions_skipped, "partition that was", "partitions that were");
    choices.push(["SKIPPED", `The ${text} skipped`]);
  }
  choices.push(["missing", "Everything it was for that is not materialized now"]);
  return choices;
}
