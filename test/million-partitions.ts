import Database from "better-sqlite3";
import type { Client } from "../src/client/client.ts";
import { decodeRow, encodeInto, rowCodec, type StoredValue } from "../src/store/row-reader.ts";
import { type EndedAttempt, BlockEdit } from "../src/work/asset/block-edit.ts";
import { blockOf, partitionIn } from "../src/work/asset/partition-blocks.ts";
import {
  PARTITION_BLOCKS,
  type PartitionBlockRow,
  type PartitionRow,
} from "../src/work/run/rows.ts";
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

/** The blocks of all but the last: what happened to two partitions happened to all. */
function blocksLike({ succeeded, failed }: Attempts): PartitionBlockRow[] {
  const blocks: PartitionBlockRow[] = [];
  let name = blockOf(manyKeyAt(0));
  let edit = new BlockEdit(MANY.asset, name, null);
  for (let ordinal = 0; ordinal < MANY.never; ordinal++) {
    const key = manyKeyAt(ordinal);
    if (blockOf(key) !== name) {
      blocks.push(...[edit.done()].filter((row) => row !== null));
      name = blockOf(key);
      edit = new BlockEdit(MANY.asset, name, null);
    }
    edit.record(key, succeeded);
    if (ordinal % MANY.every === MANY.failing) edit.record(key, failed);
  }
  return [...blocks, ...[edit.done()].filter((row) => row !== null)];
}

/** An attempt that went well, and a later one that did not. */
type Attempts = { succeeded: EndedAttempt; failed: EndedAttempt };

/** What really happened to the partition that failed after it had been made. */
function attemptsOf(row: PartitionRow | null): Attempts {
  if (row === null) throw new Error("The partition that failed was never tried.");
  const succeeded = {
    run_id: row.last_materialization_run_id ?? "",
    at: row.last_materialization_at ?? "",
    start_pos: row.last_materialization_start_pos ?? 0,
    pos: row.last_materialization_pos ?? 0,
    outcome: "SUCCEEDED",
    code_version: row.last_materialization_code_version,
  } as const;
  const failed = {
    run_id: row.last_attempt_run_id,
    at: row.last_attempt_at,
    start_pos: row.last_attempt_start_pos,
    pos: row.row_version,
    outcome: row.last_attempt_outcome,
    code_version: null,
  };
  return { succeeded, failed };
}

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
    writeBlocks(database);
  } finally {
    database.close();
  }
}

/** Writes over the blocks that there are, beside the server that has made them. */
function writeBlocks(database: Database.Database): void {
  const codec = rowCodec(PARTITION_BLOCKS);
  const key = manyKeyAt(MANY.failing);
  const cells = codec.names.join(", ");
  const [ws, ...values] = database
    .prepare(`select ws, ${cells} from partition_blocks where asset_key = ? and block = ?`)
    .raw()
    .get(MANY.asset, blockOf(key)) as [number, ...unknown[]];
  const row = partitionIn(decodeRow(codec, values), key);
  const parameters = codec.names.map(() => "?").join(", ");
  const write = database.prepare(
    `insert or replace into partition_blocks (ws, ${cells}) values (?, ${parameters})`,
  );
  database.transaction(() => {
    for (const block of blocksLike(attemptsOf(row))) {
      const encoded: StoredValue[] = [];
      encodeInto(encoded, 0, codec, block);
      write.run(ws, ...encoded);
    }
  })();
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
