import { StaleReason, type StaleReasons } from "../../kernel/keyspace/selector.ts";

/** How many partitions are stale, for whatever reason. */
export function staleCount(reasons: StaleReasons | null): number {
  return reasons === null ? 0 : StaleReason.options.reduce((sum, each) => sum + reasons[each], 0);
}

/**
 * Says for which reasons how many partitions are stale. Of those that were never materialized, the
 * ones that failed are called that where it is known, as wherever they are counted.
 */
export function staleReasonsText(reasons: StaleReasons, failed = 0): string {
  const parts = StaleReason.options.flatMap((reason): [number, string][] =>
    reason === "NEVER_MATERIALIZED"
      ? [
          [reasons[reason] - failed, wordsOf(reason)],
          [failed, "failed"],
        ]
      : [[reasons[reason], wordsOf(reason)]],
  );
  const texts = parts.filter(([count]) => count > 0).map(([count, text]) => `${count} ${text}`);
  return texts.length === 0 ? "none" : texts.join(", ");
}

/** A reason as a person says it. */
function wordsOf(reason: StaleReason): string {
  return reason === "FRESHNESS_POLICY" ? "out of date" : reason.toLowerCase().replaceAll("_", " ");
}
