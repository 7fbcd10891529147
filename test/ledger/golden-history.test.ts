import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import type { RecordedEvent } from "../../src/core/events/envelope.ts";
import { Refold, folded } from "../../src/engine/refold.ts";
import { stateHashes } from "../../src/engine/verify-ledger.ts";
import { openSqliteStore } from "../../src/store/sqlite/store.ts";

const folder = join(import.meta.dirname, "golden");

/** A ledger that a released version wrote, and the rows it had then. */
type Golden = { events: RecordedEvent[]; hashes: Record<string, string> };

describe("golden histories", () => {
  test.each(readdirSync(folder))("I15: %s still folds to the rows it had", async (name) => {
    const text = gunzipSync(readFileSync(join(folder, name))).toString("utf8");
    const golden = JSON.parse(text) as Golden;
    const store = await openSqliteStore({ path: ":memory:", clock: Date.now });
    const { ws } = await store.workspace("t", "w");

    await store.transact(ws, async (transaction) => {
      const refold = new Refold({
        load: (table, keys) => transaction.load(table, keys),
        write: (changes) => transaction.writeRows(changes),
      });
      await refold.fold(golden.events.map(folded));
    });

    expect(await store.read(ws, stateHashes)).toEqual(golden.hashes);
    await store.close();
  });
});
