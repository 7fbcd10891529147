import { present } from "../../../kernel/assert.ts";
import { PawlError } from "../../../kernel/errors.ts";
import type { SplitReport } from "../../../work/shard/step-protocol.ts";
import type { FenceStand, Fence } from "../../../shards/shard.ts";
import { dropMarks, markRemoval, removeMarked, removeRows } from "./remove-rows.ts";
import { fencesOf, settleOwnership } from "./settle-ownership.ts";
import { type SplitWork, streamName } from "./work.ts";

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

/**
 * Takes a split back: the copy, the streams, the capture and the fences. A target that once was the
 * owner goes on saying where the tenants are, as somebody may still come with its epoch.
 */
export async function discardSplit(work: SplitWork): Promise<SplitReport> {
  const { step, guard, source, target } = work;
  const { tenants, routing_version_cutover: there, routing_version_rollback: back } = step;
  if (there !== null && back === null) throw targetOwns(work);
  // Where the source has no fences any more, an earlier attempt has come to its last lines.
  const isLate = (await source.fences(tenants)).length < tenants.length;
  if (back !== null && !isLate) await settleOwnership(work);
  const fences = await target.fences(tenants);
  if (fences.some((fence) => isOwners(work, fence))) throw targetOwns(work);

  // Fences go last. Where one is missing, or not this split's, there is no copy: it was not begun,
  // or is gone already.
  let removed = 0;
  const ours = fencesOfCopy(work, fences);
  if (ours.length === tenants.length) {
    const done = await removeRows(work, target, await target.describe(step.tables), ours);
    if (done.isStopped) return { rows_removed: done.removed };
    removed = done.removed;
  }
  await dropStreams(work);
  await source.dropFences(guard, tenants);
  if (back === null) await putFencesBack(work, ours);
  return { rows_removed: removed };
}

/** Whether a fence takes writes, and not only because it was left from before an earlier move. */
function isOwners({ step }: SplitWork, { tenant, state, epoch }: Fence): boolean {
  if (state === "incoming" || state === "moved") return false;
  return epoch >= (step.epochs[step.tenants.indexOf(tenant)] ?? 0);
}

/** The fences on the target that this split has set there. */
function fencesOfCopy({ step }: SplitWork, fences: readonly Fence[]): Fence[] {
  const { routing_version_rollback: back } = step;
  return fences.filter(({ state, epoch }) =>
    back === null ? state === "incoming" : state === "moved" && epoch === back,
  );
}

/** Tenants that never were on the target leave no fence there. */
async function putFencesBack({ step, guard, target }: SplitWork, ours: Fence[]): Promise<void> {
  const names = (fences: Fence[]): string[] => fences.map(({ tenant }) => tenant);
  await target.dropFences(guard, names(ours.filter(({ shard }) => shard === null)));
  const moved = ours.flatMap(({ tenant, epoch, shard }) =>
    shard === null ? [] : [{ tenant, epoch, state: "moved" as const, shard: step.source }],
  );
  if (moved.length > 0) await target.setFences(guard, moved);
}

function targetOwns({ step }: SplitWork): PawlError {
  return new PawlError(
    "STATE_ILLEGAL",
    `Shard ${step.target} owns the tenants of split ${step.split_id}: its rows are no copy that can be ` +
      "discarded. Roll back first.",
    { details: { split_id: step.split_id } },
  );
}
