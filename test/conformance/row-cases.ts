import { describe, expect, test } from "vitest";
import { canonicalJson } from "../../src/kernel/canonical.ts";
import { POOLS, RUNS, TASK_RETRIES } from "../../src/work/run/rows.ts";
import { SENSOR_MESSAGES } from "../../src/work/sensor/rows.ts";
import { type AnyTable, type AnyRow, type Key, keyOf } from "../../src/kernel/table.ts";
import { TABLES } from "../../src/work/tables.ts";
import { NOON, changesOf, commit, filledRow, flushOf, message } from "./builders.ts";
import type { Suite } from "./store-conformance.ts";

/** What is written into a table comes back, in every table. */
export function rowCases({ durable, place, store, ws }: Suite): void {
  const load = (table: AnyTable, keys: readonly Key[]): Promise<AnyRow[]> =>
    store().read(ws(), (reader) => reader.load(table, keys));

  describe.each(Object.values<AnyTable>(TABLES))("$name", (table) => {
    test("gives back the rows as they were inserted, written over and deleted", async () => {
      const rows = Array.from({ length: 60 }, (_, index) => filledRow(table, index));
      const keys = rows.map((row) => keyOf(table, row));
      const inOrder = async (): Promise<AnyRow[]> => {
        const found = await load(table, keys);
        return found.toSorted(
          (a, b) =>
            rows.findIndex((row) => sameKey(table, row, a)) -
            rows.findIndex((row) => sameKey(table, row, b)),
        );
      };
      await commit(store(), ws(), { changes: [changesOf(table, { inserted: rows })] });
      expect(await inOrder()).toEqual(rows);

      const updated = rows.slice(20, 50).map((row, index) => {
        const fixed = [...table.key, ...(table.fixed ?? [])];
        const kept = Object.fromEntries(fixed.map((cell) => [cell, row[cell]]));
        return { ...filledRow(table, index + 1_000), ...kept };
      });
      const added = [filledRow(table, 60)];
      const deleted = [...keys.slice(50), ["not there", 7, 7].slice(0, table.key.length)].filter(
        (key) => key.every((part, index) => typeof part === typeof keys[0]?.[index]),
      );
      const changes = [changesOf(table, { inserted: added, updated, deleted })];
      await commit(store(), ws(), { changes });
      expect(await inOrder()).toEqual([...rows.slice(0, 20), ...updated]);
      expect(await load(table, [keyOf(table, filledRow(table, 60))])).toEqual(added);
    });

    test("makes a row that is to be written over and is not there", async () => {
      const updated = [filledRow(table, 1)];
      await commit(store(), ws(), { changes: [changesOf(table, { updated })] });
      expect(await load(table, [keyOf(table, filledRow(table, 1))])).toEqual(updated);
    });
  });

  test.each([
    ["separators", ["a", "\u001f", "b\u001fc\u001e", "\u001e"]],
    ["nothing", [""]],
    ["nothing, more than once", ["", ""]],
    ["quotes", ['"', "\\", "{a,b}", "NULL", '\\"']],
    ["other characters", ["é\u{1f600}", "\u0001", "\n\r\t", "'; drop table x; --"]],
  ])("keeps texts with %s as they are, alone and among others", async (_name, texts) => {
    const rows = texts.map((eval_id, index) => message({ message_id: `${index}`, eval_id }));
    const keys = rows.map((row) => keyOf(SENSOR_MESSAGES, row));
    const others = [message({ message_id: "before" }), message({ message_id: "after" })];
    const batches = [
      rows.slice(0, 1),
      [...others.slice(0, 1), ...rows.slice(1), ...others.slice(1)],
    ];
    for (const inserted of batches) {
      await commit(store(), ws(), { changes: [changesOf(SENSOR_MESSAGES, { inserted })] });
    }
    expect(await load(SENSOR_MESSAGES, keys)).toEqual(expect.arrayContaining(rows));
  });

  test("gives back a run with a long list of keys, written over or not", async () => {
    const partition_keys = Array.from({ length: 1_000 }, (_, at) => `customer=é${at},hour=7`);
    const row = { ...filledRow(RUNS, 1), partition_keys };
    await commit(store(), ws(), { changes: [changesOf(RUNS, { inserted: [row] })] });
    expect(await load(RUNS, [keyOf(RUNS, row)])).toEqual([row]);
    const updated = { ...row, tasks_ready: 7 };
    await commit(store(), ws(), { changes: [changesOf(RUNS, { updated: [updated] })] });
    expect(await load(RUNS, [keyOf(RUNS, row)])).toEqual([updated]);
  });

  test("loads and deletes just the keys it is given, not their combinations", async () => {
    const grid = [1, 2, 3].flatMap((run) => [1, 2, 3].map((key) => [run, key] as const));
    const rows = grid.map(([run_pos, task_key]) => {
      return { run_pos, task_key, asset_key: "a", retry_at: NOON };
    });
    await commit(store(), ws(), { changes: [changesOf(TASK_RETRIES, { inserted: rows })] });
    const found = async (keys: readonly Key[]): Promise<string[]> => {
      const loaded = await load(TASK_RETRIES, keys);
      return loaded.map((row) => keyOf(TASK_RETRIES, row).join("/")).toSorted();
    };
    expect(
      await found([
        [1, 1],
        [2, 2],
      ]),
    ).toEqual(["1/1", "2/2"]);
    expect(
      await found([
        [1, 1],
        [2, 2],
        [1, 2],
      ]),
    ).toEqual(["1/1", "1/2", "2/2"]);
    expect(
      await found([
        [1, 1],
        [2, 2],
        [3, 3],
        [9, 9],
      ]),
    ).toEqual(["1/1", "2/2", "3/3"]);

    const remove = (deleted: Key[]): Promise<void> =>
      commit(store(), ws(), { changes: [changesOf(TASK_RETRIES, { deleted })] });
    await remove([
      [1, 1],
      [1, 1],
      [2, 2],
      [2, 2],
    ]);
    await remove([
      [3, 1],
      [3, 2],
      [3, 3],
    ]);
    expect(await found(grid)).toEqual(["1/2", "1/3", "2/1", "2/3"]);
  });

  test("loads the rows that exist, and nothing for no keys", async () => {
    await commit(store(), ws(), {
      changes: [changesOf(SENSOR_MESSAGES, { inserted: [message({})] })],
    });
    const key = ["sales", "2026-01-01"];
    expect(await load(SENSOR_MESSAGES, [["sales", "missing"], key])).toEqual([message({})]);
    expect(await load(SENSOR_MESSAGES, [])).toEqual([]);
  });

  test("keeps integers up to 2^53−1 either side of zero", async () => {
    const pools = [
      { pool: "greatest", running: Number.MAX_SAFE_INTEGER },
      { pool: "least", running: Number.MIN_SAFE_INTEGER },
      { pool: "int32", running: 2 ** 31 },
    ];
    await commit(store(), ws(), { changes: [changesOf(POOLS, { inserted: pools })] });
    const keys = pools.map(({ pool }) => [pool]);
    const read = await load(POOLS, keys);
    expect(new Set(read)).toEqual(new Set(pools));
  });

  test("tells null, empty text, the text null and JSON apart", async () => {
    const rows = [
      message({ message_id: "1", payload: null, eval_id: null }),
      message({ message_id: "2", payload: "", eval_id: "" }),
      message({ message_id: "3", payload: "null", eval_id: "null" }),
      message({ message_id: "4", payload: {}, eval_id: "NULL" }),
      message({ message_id: "", payload: [[], [null]] }),
      message({ message_id: "5", payload: 0.1, eval_id: "{}" }),
    ];
    await commit(store(), ws(), { changes: [changesOf(SENSOR_MESSAGES, { inserted: rows })] });
    const keys = rows.map(({ message_id }) => ["sales", message_id]);
    expect(new Set(await load(SENSOR_MESSAGES, keys))).toEqual(new Set(rows));
  });

  test.runIf(durable)(
    "I9: keeps JSON as canonical bytes, also when it is written over",
    async () => {
      const payload = { b: [1, { z: 1, y: "é🙂" }], a: 1e-7, "": "\u0001\n" };
      const inserted = [message({ payload })];
      await commit(store(), ws(), { changes: [changesOf(SENSOR_MESSAGES, { inserted })] });
      const text = (): Promise<unknown[][]> =>
        place().sql("select payload from pawl.sensor_messages");
      expect(await text()).toEqual([[canonicalJson(payload)]]);

      const updated = [message({ payload: { d: 1, c: 2 } })];
      await commit(store(), ws(), { changes: [changesOf(SENSOR_MESSAGES, { updated })] });
      expect(await text()).toEqual([['{"c":2,"d":1}']]);
    },
  );

  test("a deleted row makes room for another with its unique value", async () => {
    const row = (ordinal: number): AnyRow => ({
      definition: "customers",
      ordinal,
      partition_key: "acme",
      added_at: "2026-01-01T00:00:00.000Z",
    });
    const table = TABLES.dynamicKeys;
    await commit(store(), ws(), { changes: [changesOf(table, { inserted: [row(0)] })] });
    await commit(store(), ws(), { changes: [changesOf(table, { deleted: [["customers", 0]] })] });
    await commit(store(), ws(), { changes: [changesOf(table, { inserted: [row(1)] })] });
    expect(await load(table, [["customers", 1]])).toEqual([row(1)]);
  });

  test("a refold empties tables of its workspace and writes them again", async () => {
    const other = await store().workspace("acme", "other");
    const inserted = [message({})];
    for (const workspace of [ws(), other.ws]) {
      await commit(store(), workspace, { changes: [changesOf(SENSOR_MESSAGES, { inserted })] });
    }
    await store().transact(ws(), async (transaction) => {
      await transaction.clearRows([SENSOR_MESSAGES, POOLS]);
      expect(await transaction.load(SENSOR_MESSAGES, [["sales", "2026-01-01"]])).toEqual([]);
      const again = [message({ eval_id: "2" })];
      await transaction.writeRows([changesOf(SENSOR_MESSAGES, { inserted: again })]);
      const over = [message({ eval_id: "3" })];
      await transaction.writeRows([changesOf(SENSOR_MESSAGES, { updated: over })]);
      await transaction.setFoldVersion(2);
      await transaction.flush(flushOf({}));
    });
    const count = (workspace: number): Promise<AnyRow[]> =>
      store().read(workspace, (reader) => reader.load(SENSOR_MESSAGES, [["sales", "2026-01-01"]]));
    expect(await count(ws())).toEqual([message({ eval_id: "3" })]);
    expect(await count(other.ws)).toEqual(inserted);
  });

  test("a refold empties tables of the only workspace that there is", async () => {
    const changes = [changesOf(SENSOR_MESSAGES, { inserted: [message({})] })];
    await commit(store(), ws(), { changes });
    await store().transact(ws(), async (transaction) => {
      await transaction.clearRows([SENSOR_MESSAGES, POOLS]);
      await transaction.flush(flushOf({}));
    });
    const found = { table: SENSOR_MESSAGES, where: [], order: [], limit: 9 };
    expect(await store().read(ws(), (reader) => reader.find(found))).toEqual([]);
  });

  test("I66: a workspace sees no row of another", async () => {
    const other = await store().workspace("rival", "main");
    await commit(store(), ws(), {
      changes: [changesOf(SENSOR_MESSAGES, { inserted: [message({})] })],
    });
    await store().read(other.ws, async (reader) => {
      expect(await reader.load(SENSOR_MESSAGES, [["sales", "2026-01-01"]])).toEqual([]);
      expect(await reader.find({ table: SENSOR_MESSAGES, where: [], order: [], limit: 9 })).toEqual(
        [],
      );
      expect(await reader.countBy(SENSOR_MESSAGES, [], [])).toEqual([{ values: {}, count: 0 }]);
      expect(await reader.events({ after: 0, limit: 9 })).toEqual([]);
    });
  });
}

function sameKey(table: AnyTable, a: AnyRow, b: AnyRow): boolean {
  return table.key.every((cell) => a[cell] === b[cell]);
}
