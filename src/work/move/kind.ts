import { OPEN_MOVES } from "./rows.ts";
import type { ControlledWork, WorkKind } from "../kind.ts";
import { shardStepRuns } from "../shard/step-runs.ts";
import { advanceMove } from "./advance.ts";
import { claimedMove } from "./claimed.ts";
import {
  endMoveAttempt,
  finishMoveStep,
  queueMoveStep,
  startMoveStep,
  touchesOfMoveStep,
} from "./fold-steps.ts";
import { moveStepEnd } from "./settle.ts";
import { MOVE_STORIES } from "./story.ts";

const WORK: ControlledWork<"moves"> = {
  table: "moves",
  advance: advanceMove,
  weight: 2.5,
  rounds: 8,
  open: [{ where: [OPEN_MOVES] }],
  page: 10_000,
};

/** Rows of tables from shard to shard, in segments that are verified. */
export const MOVE: WorkKind = {
  name: "move",
  runs: {
    ...shardStepRuns("move", {
      touches: touchesOfMoveStep,
      queue: queueMoveStep,
      start: startMoveStep,
      endAttempt: endMoveAttempt,
      finish: finishMoveStep,
      claimed: claimedMove,
    }),
    ended: (rows, { run, outcome }, context) => ({
      after: moveStepEnd(rows, run, outcome, context),
    }),
  },
  work: WORK,
  stories: MOVE_STORIES,
};
