import type { PartitionStatus, PartitionSummary } from "../../../../src/work/asset/api.ts";
import type {
  PartitionDefinition,
  SingleDefinition,
} from "../../../../src/kernel/keyspace/definition.ts";
import type { StaleReason } from "../../../../src/kernel/keyspace/selector.ts";
import type { ProgressPart } from "../../parts/progress.tsx";

/** The statuses that a partition can be shown as. */
export const PARTITION_STATUSES: readonly PartitionStatus[] = [
  "NEVER_MATERIALIZED",
  "FAILED",
  "IN_PROGRESS",
  "MATERIALIZED",
  "MATERIALIZED_LAST_ATTEMPT_FAILED",
  "STALE",
];

/** The reasons that a partition can be stale for, in the order in which they count. */
export const STALE_REASONS: readonly StaleReason[] = [
  "NEVER_MATERIALIZED",
  "CODE_CHANGED",
  "UPSTREAM_CHANGED",
  "FRESHNESS_POLICY",
];

/** Why partitions are stale, in words. */
export const STALE_WORDS: Readonly<Record<StaleReason, string>> = {
  NEVER_MATERIALIZED: "never materialized",
  CODE_CHANGED: "code changed",
  UPSTREAM_CHANGED: "upstream changed",
  FRESHNESS_POLICY: "freshness policy",
};

/** How an asset is cut into partitions, in a few words. */
export function definitionText(definition: PartitionDefinition | null): string {
  if (definition === null) return "not partitioned";
  if (definition.type !== "multi") return singleText(definition);
  return Object.entries(definition.dimensions)
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, single]) => `${name} (${singleText(single)})`)
    .join(" × ");
}

function singleText(definition: SingleDefinition): string {
  switch (definition.type) {
    case "static":
      return `${definition.keys.length} keys`;
    case "dynamic":
      return `keys of ${definition.name}`;
    case "integers":
      return definition.size === 1 ? "integers" : `integers by ${definition.size}`;
    case "cron":
      return `cron ${definition.expression} from ${definition.start}`;
    default:
      return `${definition.type} from ${definition.start}`;
  }
}

/** The parts of an asset's bar: what is stale stands apart from what is materialized. */
export function summaryParts(summary: PartitionSummary): ProgressPart[] {
  const { NEVER_MATERIALIZED: _, ...reasons } = summary.stale_reasons;
  // One whose last attempt failed may be stale too, and is shown as failed.
  const stale = Math.min(
    summary.materialized - summary.being_remade,
    Object.values(reasons).reduce((sum, count) => sum + count, 0),
  );
  return [
    { state: "MATERIALIZED", count: summary.materialized - summary.being_remade - stale },
    { state: "BEING_REMADE", count: summary.being_remade },
    { state: "STALE", count: stale },
    { state: "MATERIALIZED_LAST_ATTEMPT_FAILED", count: summary.materialized_last_attempt_failed },
    { state: "FAILED", count: summary.failed },
    { state: "IN_PROGRESS", count: summary.in_progress - summary.being_remade },
  ];
}

/**
 * The one state that says most about an asset: what somebody should look at comes first. Undefined
 * when it has no partitions.
 */
export function summaryState(summary: PartitionSummary): string | undefined {
  if (summary.total === 0) return undefined;
  const parts = summaryParts(summary).filter(({ count }) => count > 0);
  const order = [
    "IN_PROGRESS",
    "BEING_REMADE",
    "FAILED",
    "MATERIALIZED_LAST_ATTEMPT_FAILED",
    "STALE",
  ];
  const found = order.find((state) => parts.some((part) => part.state === state));
  if (found !== undefined) return found;
  return summary.never_materialized > 0 && summary.materialized === 0
    ? "NEVER_MATERIALIZED"
    : "MATERIALIZED";
}
