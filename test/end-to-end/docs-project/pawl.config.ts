import { existsSync } from "node:fs";
import {
  asset,
  byTenant,
  check,
  daily,
  definePawl,
  doNotRetry,
  dynamicPartitions,
  monthly,
  move,
  sensor,
  shards,
  sqliteShard,
  sync,
  timeWindow,
} from "pawl";

// The project that the pages of the guide speak of, with functions that have little to do.

const visits = asset("visits", {
  partitions: daily({ start: "2025-01-01" }),
  materialize: (ctx) => {
    ctx.log(`Loading ${ctx.partition}.`);
    if (existsSync("closed")) throw doNotRetry("The shop is closed.");
  },
});

const report = asset("report", { materialize: () => undefined });
const cleanup = asset("cleanup", { materialize: () => undefined });

const orders = asset("orders", {
  partitions: daily({ start: "2025-01-01", end: "2025-02-01" }),
  materialize: () => ({ metadata: { rows: 3 } }),
  checks: [
    check("not_empty", { blocking: true }, ({ metadata }) => Number(metadata["rows"]) > 0),
    check("usual_size", { severity: "warn" }, ({ metadata }) => Number(metadata["rows"]) > 10),
  ],
});

const dailySales = asset("daily_sales", {
  partitions: daily({ start: "2025-01-01", end: "2025-03-01" }),
  materialize: () => undefined,
});
const monthlySales = asset("monthly_sales", {
  partitions: monthly({ start: "2025-01", end: "2025-03" }),
  upstream: [{ asset: dailySales, mapping: timeWindow() }],
  materialize: () => undefined,
});

// Days that are added, so that one can be missing at first.
const uploads = asset("uploads", {
  partitions: dynamicPartitions("days"),
  materialize: () => undefined,
});

/** Blocks that cannot be fetched, as long as a file says so. */
const BAD = [17_050_200, 17_050_400];

const transfers = sync("eth.transfers", {
  targets: [
    { wallet: "0x5e3f", network: "mainnet" },
    { wallet: "0x5e3f", network: "polygon" },
  ],
  source: "{network}",
  from: 17_000_000,
  finality: 64,
  segments: { max: 20 },
  headEveryMs: 500,
  quarantineAfter: 2,
  retry: { delayMs: 50, maxDelayMs: 50 },
  head: async () => 23_810_700,
  fetch: async ({ from, to }) => {
    const isBad = existsSync("bad") && BAD.some((block) => from <= block && block <= to);
    if (isBad) throw new Error("No such block.");
    return { rows: 1 };
  },
  verify: async () => true,
});

export default definePawl({
  assets: [visits, report, cleanup, orders, dailySales, monthlySales, uploads],
  sensors: [
    sensor("orders", {
      minIntervalMs: 10_000,
      evaluate: ({ cursor, request }) => {
        request({ assets: uploads, partition: "2025-01-03", runKey: "first" });
        return { cursor: cursor ?? "seen" };
      },
    }),
  ],
  syncs: [transfers],
  shards: shards({
    shards: { east: sqliteShard("east.db"), west: sqliteShard("west.db") },
    tables: { customers: "tenant", orders: "tenant" },
    allowDdl: true,
  }),
  moves: [
    move("archive", {
      from: byTenant({}, "east"),
      to: byTenant({ fir: "west", oak: "west" }, "east"),
      strategy: { type: "cardinality", rows: 5_000 },
    }),
  ],
});
