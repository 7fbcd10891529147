import type { ClaimedMove, MoveReport } from "../../../work/shard/step-protocol.ts";
import { SPLIT_LIMITS, type SplitLimits } from "../split/work.ts";
import type { StepHost } from "../run-step.ts";
import { checkPlaces } from "./check-places.ts";
import { compareSegment } from "./open-segment.ts";
import { copySegment } from "./copy-segment.ts";
import { discardCopy, removeSegment } from "./remove-segment.ts";
import { surveyLane } from "./survey-lane.ts";

/** Does a step of a move; done again, from wherever it was broken off, it comes to the same end. */
export async function runMoveStep(
  step: ClaimedMove,
  host: StepHost<MoveReport>,
  limits: SplitLimits = SPLIT_LIMITS,
): Promise<MoveReport> {
  host.signal.throwIfAborted();
  switch (step.step) {
    case "survey":
      return surveyLane(step, host);
    case "copy":
      return copySegment(step, host, limits);
    case "verify":
      return compareSegment(step, host);
    case "remove":
      return step.digest === null ? discardCopy(step, host, limits) : removeSegment(step, host);
    case "check":
      return checkPlaces(step, host);
  }
}
