import { PawlError } from "../../core/errors.ts";
import type { SplitReport } from "../../core/step-protocol.ts";
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
  if (fences.some(({ state }) => state !== "incoming" && state !== "moved")) throw targetOwns(work);

  // Fences go last. Where one is missing, there is no copy: it was not begun, or is gone already.
  let removed = 0;
  if (fences.length === tenants.length) {
    const done = await removeRows(work, target, await target.describe(step.tables));
    if (done.isStopped) return { rows_removed: done.removed };
    removed = done.removed;
  }
  await dropStreams(work);
  await source.dropFences(guard, tenants);
  if (back === null) await target.dropFences(guard, tenants);
  return { rows_removed: removed };
}

function targetOwns({ step }: SplitWork): PawlError {
  return new PawlError(
    "STATE_ILLEGAL",
    `Shard ${step.target} owns the tenants of split ${step.split_id}: its rows are no copy that can be ` +
      "discarded. Roll back first.",
    { details: { split_id: step.split_id } },
  );
}
