import { doNotRetry, type TaskContext, type TaskResult } from "pawl";
import { daysOf, sumMonthOf } from "./warehouse.ts";

const DAY_MS = 86_400_000;

/** Sums up the days of a month, all of them or none. */
export function sumMonth(context: TaskContext): TaskResult {
  const { partition: month, window } = context;
  const there = daysOf(month);
  const expected =
    window === null ? 0 : (Date.parse(window.end) - Date.parse(window.start)) / DAY_MS;
  if (there !== expected) {
    throw doNotRetry(
      `daily_sales has ${there} of the ${expected} days of ${month}. Fill it first.`,
    );
  }

  const { days, orders, cents } = sumMonthOf(month);
  context.log(`${month}: ${orders} orders on ${days} days.`, { cents });
  return { metadata: { days, orders, cents } };
}
