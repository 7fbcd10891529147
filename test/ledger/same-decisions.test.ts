import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { openPostgresStore } from "../../src/store/postgres/store.ts";
import { openSqliteStore } from "../../src/store/sqlite/store.ts";
import type { Store } from "../../src/store/store.ts";
import { freshDatabaseUrl } from "../postgres.ts";
import { type Decided, decideEverything } from "./decide-everything.ts";

const folder = mkdtempSync(join(tmpdir(), "pawl-decisions-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function decidedOn(store: Store, seed: number): Promise<Decided> {
  try {
    return await decideEverything(store, seed);
  } finally {
    await store.close();
  }
}

describe("a seeded list of decisions", () => {
  test.each([1, 2, 3])(
    "I10: gives the same events and the same rows on SQLite and PostgreSQL (seed %i)",
    async (seed) => {
      const file = join(folder, `${seed}.db`);
      const onFile = await openSqliteStore({ path: file, clock: Date.now });
      const onSqlite = await decidedOn(onFile, seed);
      const url = await freshDatabaseUrl();
      const onPostgres = await decidedOn(await openPostgresStore({ url }), seed);

      expect(onSqlite.events.length).toBeGreaterThan(200);
      expect(onPostgres.events).toEqual(onSqlite.events);
      expect(onPostgres.hashes).toEqual(onSqlite.hashes);
      // What is decided, and the rows it folds to, are the same as ever: `vitest -u` where a change is meant.
      const last = onSqlite.events.at(-1)?.hash;
      const rows = Object.entries(onSqlite.hashes).map(([table, hash]) => `${table} ${hash}`);
      const text = [`${onSqlite.events.length} events ${last}`, ...rows.toSorted(), ""].join("\n");
      await expect(text).toMatchFileSnapshot(`frozen/decisions-${seed}.txt`);
    },
  );

  test("I19: gives the same ids again on a second store of the same tenant", async () => {
    const first = await decidedOn(await openSqliteStore({ path: ":memory:", clock: Date.now }), 4);
    const again = await decidedOn(await openSqliteStore({ path: ":memory:", clock: Date.now }), 4);

    expect(again.events.map(({ hash }) => hash)).toEqual(first.events.map(({ hash }) => hash));
  });
});
