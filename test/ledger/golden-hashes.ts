import { createHash } from "node:crypto";
import { assert } from "../../src/kernel/errors.ts";
import { canonicalJson } from "../../src/kernel/canonical.ts";
import { decodeMultiKey } from "../../src/kernel/keyspace/keyspace-of.ts";
import { compareText } from "../../src/kernel/table.ts";
import type { Reader } from "../../src/store/store.ts";
import { partitionsIn } from "../../src/work/asset/partition-blocks.ts";
import { metadataAt } from "../../src/work/asset/partition-metadata.ts";
import { PARTITION_BLOCKS, PARTITION_METADATA } from "../../src/work/run/rows.ts";
import { WorkingSet } from "../../src/work/working-set.ts";
import type { RecordedEvent } from "../../src/work/envelope.ts";
import { folded, Refold } from "../../src/engine/ledger/refold.ts";
import { stateHashes } from "../../src/engine/ledger/verify.ts";
import { openSqliteStore } from "../../src/store/sqlite/store.ts";

/** A ledger that a released version wrote, and the rows that the fold makes of it. */
export type Golden = { events: RecordedEvent[]; hashes: Record<string, string> };

/** The hashes of the tables that events fold to. */
export async function hashesOf(events: readonly RecordedEvent[]): Promise<Record<string, string>> {
  const store = await openSqliteStore({ path: ":memory:", clock: Date.now });
  const { ws } = await store.workspace("t", "w");
  await store.transact(ws, async (transaction) => {
    const refold = new Refold({
      load: (table, keys) => transaction.load(table, keys),
      write: (changes) => transaction.writeRows(changes),
    });
    await refold.fold(events.map(folded));
  });
  const hashes = await store.read(ws, async (reader) => ({
    ...(await stateHashes(reader)),
    partition_status: await partitionsHash(reader),
  }));
  await store.close();
  return hashes;
}

/** The hash of a table with a row for each partition, which older versions had. */
async function partitionsHash(reader: Reader): Promise<string> {
  const all = { where: [], order: [], limit: 1_000_000 };
  const blocks = await reader.find({ table: PARTITION_BLOCKS, ...all });
  const set = new WorkingSet();
  set.loaded(PARTITION_BLOCKS, [], blocks);
  set.loaded(PARTITION_METADATA, [], await reader.find({ table: PARTITION_METADATA, ...all }));
  const digest = createHash("sha256");
  const rows = blocks.flatMap(partitionsIn);
  rows.sort(
    (a, b) =>
      compareText(a.asset_key, b.asset_key) || compareText(a.partition_key, b.partition_key),
  );
  for (const { last_materialization_checks: checks, ...row } of rows) {
    assert(checks === null, "older versions had no checks");
    const partition_values = decodeMultiKey(row.partition_key);
    const metadata = metadataAt(set.rows, row.asset_key, row.partition_key);
    digest.update(`${canonicalJson({ ...row, partition_values, metadata })}\n`);
  }
  return digest.digest("hex");
}
