import {
  asset,
  daily,
  definePawl,
  dimension,
  monthly,
  multi,
  pool,
  staticPartitions,
  timeWindow,
} from "pawl";
import { cleanOrders } from "./clean-orders.ts";
import { downloadOrders } from "./download-orders.ts";
import { REGIONS } from "./shop.ts";
import { sumDays } from "./sum-days.ts";
import { sumMonth } from "./sum-month.ts";

const days = daily({ start: "2025-01-01", end: "2025-04-01" });
const months = monthly({ start: "2025-01", end: "2025-04" });
const daysAndRegions = multi({ date: days, region: staticPartitions(REGIONS) });

/** The shop bears four downloads at once, whatever else runs. */
const shop = pool("shop", { limit: 4 });

const rawOrders = asset("raw_orders", {
  description: "What the shop says, as it said it: one file a day and region.",
  partitions: daysAndRegions,
  pool: shop,
  retry: { maxAttempts: 4, delayMs: 200 },
  timeoutMs: 60_000,
  materialize: downloadOrders,
});

const cleanedOrders = asset("clean_orders", {
  description: "Orders without repetitions, with corrections, as rows of a table.",
  partitions: daysAndRegions,
  upstream: [rawOrders],
  codeVersion: "1",
  materialize: cleanOrders,
});

const dailySales = asset("daily_sales", {
  description: "Orders and turnover of a day, all regions together.",
  partitions: days,
  upstream: [{ asset: cleanedOrders, mapping: dimension("date") }],
  batch: true,
  // What is missing does not come by waiting.
  retry: { maxAttempts: 1 },
  codeVersion: "1",
  materialize: sumDays,
});

const monthlySales = asset("monthly_sales", {
  description: "Orders and turnover of a month.",
  partitions: months,
  upstream: [{ asset: dailySales, mapping: timeWindow() }],
  freshness: { maximumLagMinutes: 7 * 24 * 60 },
  codeVersion: "1",
  materialize: sumMonth,
});

export default definePawl({
  assets: [rawOrders, cleanedOrders, dailySales, monthlySales],
  pools: [shop],
});
