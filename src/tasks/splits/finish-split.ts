import { PawlError } from "../../core/errors.ts";
import type { SplitReport } from "../../core/step-protocol.ts";
import type { Shard } from "../../shards/shard.ts";
import { removeRows } from "./remove-rows.ts";
import { fencesOf, settleOwnership } from "./settle-ownership.ts";
import { type SplitWork, streamName } from "./split-work.ts";

/** Ends a split that was cut over: no more way back. The source goes on refusing the tenants. */
export async function finishSplit(work: SplitWork): Promise<SplitReport> {
  await settleOwnership(work);
  await requireMoved(work, work.source, "finished");
  await dropStreams(work);
  return {};
}

/** Removes what is left of the tenants on the source. */
export async function removeMoved(work: SplitWork): Promise<SplitReport> {
  const { source, step } = work;
  await requireMoved(work, source, "removed from its source");
  const { removed } = await removeRows(work, source, await source.describe(step.tables));
  return { rows_removed: removed };
}

/** Takes away what captures and carries changes, on both shards. */
export async function dropStreams({ step, guard, source, target }: SplitWork): Promise<void> {
  await source.dropStream(guard, streamName(step, "back"));
  await target.dropStream(guard, streamName(step, "forward"));
  await source.disarmCapture(guard);
  await target.disarmCapture(guard);
}

async function requireMoved({ step }: SplitWork, shard: Shard, what: string): Promise<void> {
  const fences = await fencesOf(shard, step.tenants);
  const here = fences.find(({ state }) => state !== "moved");
  if (here === undefined) return;
  throw new PawlError(
    "STATE_ILLEGAL",
    `Tenant ${here.tenant} has not moved (its fence on ${step.source} is ${here.state}), so split ` +
      `${step.split_id} cannot be ${what}.`,
    { details: { tenant: here.tenant, state: here.state } },
  );
}
