import { type CommandRules, idle, legal, type When } from "../command.ts";
import type { BackfillRow, BackfillState } from "./rows.ts";

/** What decides whether a command about a backfill is legal. */
export type BackfillFacts = Pick<
  BackfillRow,
  "after_backfill_id" | "partitions_failed" | "partitions_cancelled" | "partitions_skipped"
> & { cancel_runs: number | boolean };

const OPEN = legal<BackfillState>("PENDING", "RUNNING", "PAUSED");

const failedSoFar: When<BackfillFacts> = ({ partitions_failed }) =>
  partitions_failed > 0 ? null : idle("Nothing has failed so far; there is nothing to retry.");

const leftAtTheEnd: When<BackfillFacts> = (facts) => {
  const { partitions_failed, partitions_cancelled, partitions_skipped } = facts;
  const left = partitions_failed + partitions_cancelled + partitions_skipped;
  return left > 0 ? null : idle("Every partition succeeded; there is nothing to retry.");
};

/** What can be asked of a backfill, and when. */
export const BACKFILL_RULES = {
  pause: {
    action: "pause",
    effect: "plans nothing more; active chunks finish",
    when: legal("RUNNING"),
  },
  resume: {
    action: "resume",
    effect:
      "goes on with the first unplanned chunk; one that follows another starts once that has ended",
    when: {
      PAUSED: true,
      PENDING: ({ after_backfill_id }) =>
        after_backfill_id === null ? idle("It starts by itself.") : null,
    },
  },
  retune: {
    action: "retune",
    effect: "changes how many runs are active at once, or the priority",
    when: OPEN,
  },
  "retry-failed": {
    action: "a retry",
    effect:
      "makes a new backfill of what failed, was cancelled or skipped; this one stays as it is",
    when: {
      PENDING: failedSoFar,
      RUNNING: failedSoFar,
      PAUSED: failedSoFar,
      CANCELLING: failedSoFar,
      SUCCEEDED: leftAtTheEnd,
      FAILED: leftAtTheEnd,
      CANCELLED: leftAtTheEnd,
    },
  },
  cancel: {
    action: "cancel",
    effect: "plans nothing more and ends as cancelled once active chunks have finished",
    when: OPEN,
  },
  "cancel --now": {
    action: "cancel",
    effect: "plans nothing more and cancels the active runs",
    when: {
      ...OPEN,
      CANCELLING: ({ cancel_runs }) =>
        Number(cancel_runs) === 1 ? idle("It is being cancelled, with its active runs.") : null,
    },
  },
} as const satisfies CommandRules<BackfillFacts, BackfillState>;
