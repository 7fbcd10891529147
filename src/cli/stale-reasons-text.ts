import { StaleReason, type StaleReasons } from "../core/partitions/stale-reason.ts";

/** How many partitions are stale, for whatever reason. */
export function staleCount(reasons: StaleReasons | null): number {
  return reasons === null ? 0 : StaleReason.options.reduce((sum, each) => sum + reasons[each], 0);
}

/** Says for which reasons how many partitions are stale. */
export function staleReasonsText(reasons: StaleReasons): string {
  const there = StaleReason.options.filter((reason) => reasons[reason] > 0);
  const texts = there.map((reason) => `${reasons[reason]} ${wordsOf(reason)}`);
  return texts.length === 0 ? "none" : texts.join(", ");
}

/** A reason as a person says it. */
function wordsOf(reason: StaleReason): string {
  return reason === "FRESHNESS_POLICY" ? "out of date" : reason.toLowerCase().replaceAll("_", " ");
}
