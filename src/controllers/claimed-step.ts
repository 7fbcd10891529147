import type { Rows } from "../core/rows/rows.ts";
import type { RunRow } from "../core/rows/run-rows.ts";
import type { ClaimedStep } from "../core/step-protocol.ts";
import { claimedMove } from "./claimed-move.ts";
import { claimedSplit } from "./claimed-split.ts";
import { stepOfRun } from "./run-lookup.ts";

/**
 * What a worker is told of the step that a run is; undefined for a run of something else, null when
 * it is not to be done any more.
 */
export function claimedStep(rows: Rows, run: RunRow): ClaimedStep | null | undefined {
  const ref = stepOfRun(run);
  if (ref === null) return undefined;
  return ref.work === "split" ? claimedSplit(rows, ref) : claimedMove(rows, ref);
}
