import type { ControlledWork, WorkKind } from "../kind.ts";
import { stepOf, shardStepRuns } from "../shard/step-runs.ts";
import { advanceSplit, claimedSplit } from "./advance.ts";
import { endSplitAttempt, finishSplitStep, queueSplitStep, startSplitStep } from "./fold.ts";
import { OPEN_SPLITS } from "./rows.ts";
import { SPLIT_STORIES } from "./story.ts";

const WORK: ControlledWork<"splits"> = {
  table: "splits",
  advance: advanceSplit,
  weight: 2.5,
  rounds: 8,
  open: [
    { where: [OPEN_SPLITS] },
    {
      where: [{ cell: "remove_after", is: "not null" }],
      order: [{ cell: "remove_after" }, { cell: "split_id" }],
    },
  ],
  page: 10_000,
  due: { cell: "due_at", where: [], order: [{ cell: "due_at" }], limit: 10_000, hasTimer: true },
};

/** Tenants of a shard that go to another while they are written. */
export const SPLIT: WorkKind = {
  name: "split",
  runs: {
    ...shardStepRuns("split", {
      touches: ({ split_id }) => [["splits", [split_id]]],
      queue: queueSplitStep,
      start: startSplitStep,
      endAttempt: endSplitAttempt,
      finish: finishSplitStep,
      claimed: claimedSplit,
    }),
    isEndless(run) {
      const step = stepOf("split", run)?.step;
      return step === "tail" || step === "reverse";
    },
    // While tenants are handed over, writes wait.
    isAwaited(run) {
      const step = stepOf("split", run)?.step;
      return step === "cutover" || step === "cutback";
    },
    // A cutover whose commit record stands is carried out to its end.
    isCommitted(rows, run) {
      const ref = stepOf("split", run);
      return ref !== null && rows.splits.get(ref.split_id)?.committing === 1;
    },
  },
  work: WORK,
  stories: SPLIT_STORIES,
};
