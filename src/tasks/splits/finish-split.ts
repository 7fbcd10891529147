import { present } from "../../core/assert.ts";
import { PawlError } from "../../core/errors.ts";
import type { SplitReport } from "../../core/step-protocol.ts";
import type { FenceStand } from "../../shards/shard.ts";
import { dropMarks, markRemoval } from "./removal-marks.ts";
import { removeMarked } from "./remove-rows.ts";
import { fencesOf, settleOwnership } from "./settle-ownership.ts";
import { type SplitWork, streamName } from "./split-work.ts";

/** Ends a split that was cut over: no more way back. The source goes on refusing the tenants. */
export async function finishSplit(work: SplitWork): Promise<SplitReport> {
  await settleOwnership(work);
  await requireMoved(work, "finished");
  const checks = await markRemoval(work);
  await dropStreams(work);
  return { checks };
}

/** Removes what is left of the tenants on the source, as far as the target has it too. */
export async function removeMoved(work: SplitWork): Promise<SplitReport> {
  const moved = await requireMoved(work, "removed from its source");
  const removed = await removeMarked(work, moved);
  await dropMarks(work);
  return { rows_removed: removed };
}

/** Takes away what captures and carries changes, on both shards. */
export async function dropStreams({ step, guard, source, target }: SplitWork): Promise<void> {
  await source.dropStream(guard, streamName(step, "back"));
  await target.dropStream(guard, streamName(step, "forward"));
  await source.disarmCapture(guard);
  await target.disarmCapture(guard);
}

/** How the fences on the source stand after this split's own cutover, and no later one. */
async function requireMoved({ step, source }: SplitWork, what: string): Promise<FenceStand[]> {
  const { tenants, routing_version_cutover: epoch } = step;
  const fences = await fencesOf(source, tenants);
  const here = fences.find((fence) => fence.state !== "moved" || fence.epoch !== epoch);
  if (here === undefined && epoch !== null) {
    return tenants.map((tenant) => ({ tenant, epoch, state: "moved" }));
  }
  const { tenant, state } = present(here ?? fences[0], "a split has tenants");
  throw new PawlError(
    "STATE_ILLEGAL",
    `Tenant ${tenant} has not moved, or has come back since (its fence on ${step.source} is ` +
      `${state}), so split ${step.split_id} cannot be ${what}.`,
    { details: { tenant, state } },
  );
}
