import { StaleReason, type StaleReasons } from "../core/partitions/stale-reason.ts";

/** How many partitions are stale, for whatever reason. */
export function staleCount(reasons: StaleReasons | null): number {
  return reasons === null ? 0 : StaleReason.options.reduce((sum, each) => sum + reasons[each], 0);
}

/**
 * Says for which reasons how many partitions are stale, and how many of those that were never
 * materialized failed, where that is known.
 */
export function staleReasonsText(reasons: StaleReasons, failed = 0): string {
  const there = StaleReason.options.filter((reason) => reasons[reason] > 0);
  const texts = there.map((reason) => {
    const isTold = reason === "NEVER_MATERIALIZED" && failed > 0;
    const failedText = isTold ? `, ${failed} of them failed` : "";
    return `${reasons[reason]} ${wordsOf(reason)}${failedText}`;
  });
  return texts.length === 0 ? "none" : texts.join(", ");
}

/** A reason as a person says it. */
function wordsOf(reason: StaleReason): string {
  return reason === "FRESHNESS_POLICY" ? "out of date" : reason.toLowerCase().replaceAll("_", " ");
}
