import type { FenceStand, Shard, TableShape } from "../../shards/shard.ts";
import type { SplitWork } from "./split-work.ts";

/**
 * Deletes the rows of the tenants from a shard in batches, the last table first, as long as their
 * fences stand under an epoch: whoever slept in between must not find rows that have come since.
 * Answers how many were, and whether it was told to stop before the end.
 */
export async function removeRows(
  { guard, scope, limits, pulse }: SplitWork,
  shard: Shard,
  tables: readonly TableShape[],
  fences: readonly FenceStand[],
): Promise<{ removed: number; isStopped: boolean }> {
  let removed = 0;
  for (const table of tables.toReversed()) {
    for (;;) {
      const count = removed;
      const isStopped = await pulse.beat(() => Promise.resolve({ rows_removed: count }));
      if (isStopped) return { removed, isStopped };
      const options = { limit: limits.removeRows, expect: null, fences };
      const deleted = (await shard.remove(guard, { table, scope }, options)) ?? 0;
      removed += deleted;
      if (deleted === 0) break;
    }
  }
  return { removed, isStopped: false };
}
