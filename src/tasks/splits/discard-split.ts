import { PawlError } from "../../core/errors.ts";
import type { SplitReport } from "../../core/step-protocol.ts";
import type { Fence } from "../../shards/shard.ts";
import { dropStreams } from "./finish-split.ts";
import { removeRows } from "./remove-rows.ts";
import { settleOwnership } from "./settle-ownership.ts";
import type { SplitWork } from "./split-work.ts";

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
