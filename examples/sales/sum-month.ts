import type { TaskContext, TaskResult } from "pawl";
import { sumMonthOf } from "./warehouse.ts";

/** Sums up the days of a month. */
export function sumMonth(context: TaskContext): TaskResult {
  const { days, orders, cents } = sumMonthOf(context.partition);
  context.log(`${context.partition}: ${orders} orders on ${days} days.`, { cents });
  return { metadata: { days, orders, cents } };
}
