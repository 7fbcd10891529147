import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { PARTITIONS } from "../../src/core/rows/partition-rows.ts";
import type { Store } from "../../src/store/store.ts";
import { append, changesOf, commit, partition } from "./builders.ts";
import type { Suite } from "./store-conformance.ts";

const HOLD_TRANSACTION = fileURLToPath(new URL("hold-transaction.ts", import.meta.url));

/** What happens to data when stores come, go and are killed. */
export function openingCases({ durable, place, store, ws }: Suite): void {
  const opened = async <Result>(body: (other: Store) => Promise<Result>): Promise<Result> => {
    const other = await place().open();
    try {
      return await body(other);
    } finally {
      await other.close();
    }
  };

  test.runIf(durable)("finds everything again", async () => {
    await append(store(), ws(), 2);
    await commit(store(), ws(), {
      changes: [changesOf(PARTITIONS, { inserted: [partition({})] })],
    });
    await opened(async (other) => {
      expect(await other.workspace("acme", "main")).toMatchObject({ ws: ws() });
      await other.read(ws(), async (reader) => {
        expect(await reader.head()).toMatchObject({ pos: 2 });
        expect(await reader.load(PARTITIONS, [["sales", "2026-01-01"]])).toEqual([partition({})]);
      });
    });
  });

  test.runIf(durable)("I4: a transaction of a killed process leaves nothing", async () => {
    await append(store(), ws(), 1);
    const child = spawn(process.execPath, [HOLD_TRANSACTION, ...place().address], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [said] = (await once(child.stdout, "data")) as [Buffer];
    expect(said.toString()).toContain("written up to 51");
    child.kill("SIGKILL");
    await once(child, "exit");

    expect(await append(store(), ws(), 1)).toBe(2);
    await opened((other) =>
      other.read(ws(), async (reader) => {
        expect(await reader.head()).toMatchObject({ pos: 2 });
        expect(await reader.countBy(PARTITIONS, [], [])).toEqual([{ values: {}, count: 0 }]);
      }),
    );
  });

  test.runIf(durable)(
    "I52: applies each schema step once, and keeps the ledger's bytes",
    async () => {
      await append(store(), ws(), 3);
      const bytes = "select * from pawl.events order by pos";
      const before = await place().sql(bytes);
      const steps = "select step, applied_at from pawl.schema_steps order by step";
      const applied = await place().sql(steps);
      expect(applied.length).toBeGreaterThan(0);
      await opened(async () => undefined);
      await opened(async () => undefined);
      expect(await place().sql(steps)).toEqual(applied);
      expect(await place().sql(bytes)).toEqual(before);
    },
  );

  test.runIf(durable)("I52: refuses a schema that is newer than this version knows", async () => {
    await place().sql(
      "insert into pawl.schema_steps (step, name, applied_at) values (9999, 'x', '2026-01-01')",
    );
    await expect(place().open()).rejects.toMatchObject({ code: "LEDGER_NEWER" });
  });
}
