import { doNotRetry, type TaskContext, type TaskResult } from "pawl";
import { readCorrections, readOrders } from "./order-file.ts";
import { replaceOrders } from "./warehouse.ts";

/**
 * Turns the file of one day and region into rows: each order once, and what people corrected by
 * hand in `inbox/` on top.
 */
export function cleanOrders(context: TaskContext): TaskResult {
  const { date = "", region = "" } = context.values;
  const raw = readOrders(`data/raw/${date}-${region}.csv`);
  const corrections = correctionsOf(date, region);
  const orders = new Map([...raw, ...corrections].map((order) => [order.id, order]));
  replaceOrders(date, region, [...orders.values()]);

  if (corrections.length > 0) context.log(`Took ${corrections.length} corrections.`);
  return { metadata: { orders: orders.size, received: raw.length } };
}

/** A line that is wrong stays wrong until a person corrects it: another attempt cannot help. */
function correctionsOf(date: string, region: string): ReturnType<typeof readCorrections> {
  try {
    return readCorrections(date, region);
  } catch (error) {
    throw doNotRetry((error as Error).message);
  }
}
