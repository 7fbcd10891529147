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
  const hashes = await store.read(ws, stateHashes);
  await store.close();
  return hashes;
}
