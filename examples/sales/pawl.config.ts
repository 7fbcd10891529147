import {
  asset,
  daily,
  definePawl,
  dimension,
  monthly,
  multi,
  newFiles,
  pool,
  schedule,
  sensor,
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

/** Somebody corrected orders by hand: that day and region is cleaned anew. */
const corrections = sensor("corrections", {
  description: "Cleans a day and region anew when its file of corrections changes.",
  watch: newFiles({ folder: "inbox", pattern: "*.csv" }),
  minIntervalMs: 2_000,
  evaluate({ cursor, items, request }) {
    // What lies there at the first look belongs to the first backfill.
    if (cursor === null) return;
    for (const { stem } of items) {
      const [, date, region] = /^(\d{4}-\d\d-\d\d)-(\w+)$/.exec(stem) ?? [];
      if (date === undefined || region === undefined) continue;
      request({ assets: cleanedOrders, partition: `date=${date},region=${region}` });
    }
  },
});

/** Every morning, what is missing, too old or older than what it is made from is made anew. */
const refresh = schedule("refresh", {
  description: "Sums up what is missing, too old or older than what it is made from.",
  cron: "0 6 * * *",
  timezone: "Europe/Berlin",
  assets: [dailySales, monthlySales],
  selection: "stale",
});

export default definePawl({
  assets: [rawOrders, cleanedOrders, dailySales, monthlySales],
  pools: [shop],
  sensors: [corrections],
  schedules: [refresh],
});
