import Database from "better-sqlite3";
import type { Client } from "../src/client/client.ts";
import { workOnce } from "./end-to-end/backfill-hand.ts";

/** A million partitions by day and shop, those whose last attempt failed, and the last never materialized. */
export const MANY = {
  asset: "sales/orders",
  /** What each day of it is made from. */
  upstream: "sales/days",
  start: "2015-01-01",
  days: 2_500,
  shops: 400,
  /** The first ordinal that was never materialized. */
  never: 2_400 * 400,
  /** Those failed whose ordinal leaves this rest when divided by `every`. */
  failing: 57,
  every: 1_000,
} as const;

/** The partition with an ordinal. */
export function manyKeyAt(ordinal: number): string {
  const shop = String(ordinal % MANY.shops).padStart(3, "0");
  return `day=${dayAt(Math.floor(ordinal / MANY.shops))},shop=shop-${shop}`;
}

const dayAt = (index: number): string =>
  new Date(Date.parse(MANY.start) + index * 86_400_000).toISOString().slice(0, 10);

/** Each new row is a copy of the one that failed or of the one that succeeded, under its own key. */
const COPY_PARTITIONS = `
with recursive places (place) as (
  select 0
  union all
  select place + 1 from places where place + 1 < @end
),
keyed (place, day, shop) as (
  select place,
    date(@start, '+' || (place / @shops) || ' days'),
    printf('shop-%03d', place % @shops)
  from places
)
insert or replace into partition_status
select ws, asset_key, 'day=' || day || ',shop=' || shop,
  json_object('day', day, 'shop', shop),
  last_materialization_run_id, last_materialization_at, last_materialization_code_version,
  last_materialization_start_pos, last_materialization_pos, metadata, last_attempt_run_id,
  last_attempt_at, last_attempt_outcome, last_attempt_start_pos, row_version
from keyed
join partition_status
  on partition_key = iif(place % @every = @failing, @failed, @succeeded)
where asset_key = @asset`;

/**
 * Makes an asset of a million partitions: two really run, and the rows of the others are copies of
 * theirs, which the ledger knows nothing of.
 */
export async function makeManyPartitions(client: Client, path: string): Promise<void> {
  const day = { type: "daily", start: MANY.start, end: dayAt(MANY.days) } as const;
  const keys = Array.from({ length: MANY.shops }, (_, shop) => manyKeyAt(shop).slice(-8));
  const partitions = {
    type: "multi",
    dimensions: { day, shop: { type: "static", keys } },
  } as const;
  const mapping = { type: "dimension", dimension: "day" } as const;
  const upstream = [{ asset_key: MANY.upstream, mapping }];
  await client.call("publishDefinitions", {
    body: {
      specs: [
        { kind: "asset", asset_key: MANY.upstream, partitions: day },
        { kind: "asset", asset_key: MANY.asset, partitions, upstream },
      ],
    },
  });
  await runPartitions(client, MANY.asset, [manyKeyAt(0), manyKeyAt(MANY.failing)]);
  await runPartitions(client, MANY.asset, [manyKeyAt(MANY.failing)], "no rows");
  const database = new Database(path);
  try {
    database.pragma("synchronous = off");
    database.prepare(COPY_PARTITIONS).run({
      ...MANY,
      succeeded: manyKeyAt(0),
      failed: manyKeyAt(MANY.failing),
      end: MANY.never,
    });
  } finally {
    database.close();
  }
}

/** Runs partitions of an asset to their end: to success, or to the failure with a message. */
export async function runPartitions(
  client: Client,
  asset: string,
  partition_keys: string[],
  failure: string | null = null,
): Promise<void> {
  await client.call("requestRun", { body: { assets: [asset], partition_keys } });
  let worked = 0;
  while (worked < partition_keys.length)
    worked += await workOnce(client, { assets: [asset], verdict: () => failure });
}
