import type { TaskContext } from "pawl";
import { REGIONS } from "./shop.ts";
import { regionsOn, sumDay } from "./warehouse.ts";

/**
 * Sums up a whole chunk of days in one task. A day that lacks a region fails alone: a wrong sum is
 * worse than none.
 */
export function sumDays(context: TaskContext): void {
  for (const [index, date] of context.partitions.entries()) {
    const count = regionsOn(date);
    if (count === REGIONS.length) {
      sumDay(date);
    } else {
      context.partitionFailed(date, `clean_orders has ${count} of ${REGIONS.length} regions.`);
    }
    context.progress(index + 1, context.partitions.length, date);
  }
}
