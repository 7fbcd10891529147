import { z } from "zod";

/** Why a partition is stale, in the order in which reasons are looked for: the first counts. */
export const StaleReason = z.enum([
  "NEVER_MATERIALIZED",
  "CODE_CHANGED",
  "UPSTREAM_CHANGED",
  "FRESHNESS_POLICY",
]);
export type StaleReason = z.infer<typeof StaleReason>;

const Some = z.int().nonnegative();

/** How many partitions are stale for which reason. */
export const StaleReasons = z.strictObject({
  NEVER_MATERIALIZED: Some,
  CODE_CHANGED: Some,
  UPSTREAM_CHANGED: Some,
  FRESHNESS_POLICY: Some,
}) satisfies z.ZodType<Record<StaleReason, number>>;
export type StaleReasons = z.infer<typeof StaleReasons>;

/** Nothing is stale. */
export const NO_STALE_REASONS: StaleReasons = {
  NEVER_MATERIALIZED: 0,
  CODE_CHANGED: 0,
  UPSTREAM_CHANGED: 0,
  FRESHNESS_POLICY: 0,
};

/** The counts of both together. */
export function addStaleReasons(one: StaleReasons, other: StaleReasons): StaleReasons {
  const sum = { ...one };
  for (const reason of StaleReason.options) sum[reason] += other[reason];
  return sum;
}
