import type { Rows } from "../core/rows/rows.ts";
import type { ClaimedSplit, ShardWorkRef } from "../core/step-protocol.ts";

/** What a worker is told of a step of a split; null when it is not the split's current one. */
export function claimedSplit(
  rows: Rows,
  { split_id, step, n }: Extract<ShardWorkRef, { work: "split" }>,
): ClaimedSplit | null {
  const split = rows.splits.get(split_id);
  if (split === null || split.steps !== n) return null;
  const { source, target, tenants, tables, epochs, ddl } = split;
  const { routing_version_cutover, routing_version_rollback } = split;
  const { lag_limit_ms, fence_wait_ms, fence_hold_ms } = split;
  return {
    work: "split",
    split_id,
    step,
    n,
    source,
    target,
    tenants,
    tables,
    epochs,
    routing_version_cutover,
    routing_version_rollback,
    lag_limit_ms,
    fence_wait_ms,
    fence_hold_ms,
    ddl,
  };
}
