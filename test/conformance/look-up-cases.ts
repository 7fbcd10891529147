import { describe, expect, test } from "vitest";
import { canonicalJson } from "../../src/kernel/canonical.ts";
import { RUNS } from "../../src/work/run/rows.ts";
import { TABLES } from "../../src/work/tables.ts";
import { SENSOR_MESSAGES, type SensorMessageRow } from "../../src/work/sensor/rows.ts";
import {
  type AnyRow,
  type AnyTable,
  type Condition,
  type Find,
  type Order,
  compareRows,
  compareText,
  fulfils,
  keyOf,
} from "../../src/kernel/table.ts";
import { changesOf, commit, filledRow, message } from "./builders.ts";
import type { Suite } from "./store-conformance.ts";

/** Keys whose order by code points differs from JavaScript's, from a dictionary's and by length. */
const KEYS = ["", "A", "Z", "a", "ab", "b", "z", "é", "\ue000", "\uffff", "🙂", "𐀀", "a b", "_"];
const OUTCOMES = ["PENDING", "FAILED", "EVALUATED"] as const;

const ROWS: SensorMessageRow[] = ["sales", "visits"].flatMap((sensor_id) =>
  KEYS.map((message_id, index) =>
    message({
      sensor_id,
      message_id,
      state: OUTCOMES[index % 3] ?? "FAILED",
      received_pos: index % 4,
      published_at: index % 5 === 0 ? null : `${index % 5}`,
      eval_id: index % 2 === 0 ? null : `run-${index}`,
    }),
  ),
);

const BY_KEY: Order[] = [{ cell: "sensor_id" }, { cell: "message_id" }];
const BACKWARDS: Order[] = BY_KEY.map(({ cell }) => ({ cell, descending: true }));
const MIXED: Order[] = [
  { cell: "received_pos", descending: true },
  { cell: "sensor_id" },
  { cell: "message_id", descending: true },
];

const CONDITIONS: Record<string, Condition[]> = {
  everything: [],
  "=": [{ cell: "message_id", is: "=", value: "é" }],
  "= of an integer": [{ cell: "received_pos", is: "=", value: 2 }],
  "<>, which null is not": [{ cell: "published_at", is: "<>", value: "2" }],
  "<": [{ cell: "message_id", is: "<", value: "b" }],
  "<=": [{ cell: "received_pos", is: "<=", value: 1 }],
  "> by code points": [{ cell: "message_id", is: ">", value: "\uffff" }],
  ">=, which null is not": [{ cell: "published_at", is: ">=", value: "0" }],
  in: [{ cell: "state", is: "in", values: ["FAILED", "EVALUATED"] }],
  "in of integers": [{ cell: "received_pos", is: "in", values: [0, 3, 3] }],
  "in with awkward texts": [
    { cell: "message_id", is: "in", values: ['"', "\\", "a,b", "{}", "NULL", "🙂", ""] },
  ],
  "in nothing": [{ cell: "message_id", is: "in", values: [] }],
  "not in": [{ cell: "state", is: "not in", values: ["FAILED"] }],
  "not in, which null is not": [{ cell: "eval_id", is: "not in", values: ["run-1"] }],
  "not in nothing": [{ cell: "eval_id", is: "not in", values: [] }],
  null: [{ cell: "eval_id", is: "null" }],
  "not null": [{ cell: "eval_id", is: "not null" }],
  several: [
    { cell: "sensor_id", is: "=", value: "visits" },
    { cell: "received_pos", is: ">", value: 0 },
    { cell: "eval_id", is: "not null" },
  ],
};

/** Look-ups agree with `fulfils` and `compareRows`, which the overlay of a commit goes by. */
export function lookUpCases({ store, ws }: Suite): void {
  const find = async (given: Partial<Find>): Promise<AnyRow[]> => {
    return store().read(ws(), (reader) =>
      reader.find({ table: SENSOR_MESSAGES, where: [], order: BY_KEY, limit: 100, ...given }),
    );
  };
  const insert = (rows: readonly SensorMessageRow[]): Promise<void> =>
    commit(store(), ws(), { changes: [changesOf(SENSOR_MESSAGES, { inserted: rows })] });

  describe.each(Object.entries(CONDITIONS))("%s", (_name, where) => {
    test("finds, orders and counts what the conditions say", async () => {
      await insert(ROWS);
      for (const order of [BY_KEY, BACKWARDS, MIXED]) {
        expect(await find({ where, order })).toEqual(expected({ where, order }));
        expect(await find({ where, order, limit: 3 })).toEqual(
          expected({ where, order }).slice(0, 3),
        );
      }
      const counts = await store().read(ws(), (reader) =>
        reader.countBy(SENSOR_MESSAGES, where, []),
      );
      expect(counts).toEqual([{ values: {}, count: expected({ where, order: BY_KEY }).length }]);
    });
  });

  test.each([
    ["ascending", BY_KEY],
    ["descending", BACKWARDS],
    ["in mixed directions", MIXED],
  ])("I63: pages %s give each row once", async (_name, order) => {
    await insert(ROWS);
    const paged: AnyRow[] = [];
    for (let page = 0; page <= ROWS.length; page += 3) {
      const last = paged.at(-1);
      const cells = order.map(({ cell }) => cell);
      const after: Condition[] =
        last === undefined
          ? []
          : [{ cells, is: "after", key: cells.map((cell) => last[cell] as string | number) }];
      const rows = await find({ where: after, order, limit: 3 });
      expect(rows).toEqual(expected({ where: after, order }).slice(0, 3));
      paged.push(...rows);
    }
    expect(paged).toEqual(expected({ where: [], order }));
  });

  test("orders texts by code points, as the comparison in code does", async () => {
    await insert(ROWS);
    const rows = await find({ where: [{ cell: "sensor_id", is: "=", value: "sales" }] });
    const keys = rows.map((row) => row["message_id"]);
    expect(keys).toEqual(KEYS.toSorted(compareText));
    expect(keys.indexOf("🙂")).toBeGreaterThan(keys.indexOf("\uffff"));
  });

  test("finds only some cells, in the order they are named", async () => {
    await insert(ROWS);
    const where: Condition[] = [{ cell: "sensor_id", is: "=", value: "sales" }];
    const found = { table: SENSOR_MESSAGES, where, order: BACKWARDS, limit: 5 };
    const cells = ["received_pos", "message_id", "eval_id"];
    const values = await store().read(ws(), (reader) => reader.findCells(found, cells));
    const rows = expected({ where, order: BACKWARDS }).slice(0, 5);
    expect(values).toEqual(rows.map((row) => cells.map((cell) => row[cell])));
  });

  test("gives texts of rows in their canonical form, and the key to go on behind", async () => {
    await insert(ROWS);
    const payload = { text: "🙂 line\n", empty: {}, list: [null, -0.5, "\u0001"], a: true };
    await insert([message({ sensor_id: "texts", payload })]);
    const partition_keys = Array.from({ length: 1_000 }, (_, at) => `customer=é${at},hour=7`);
    const runs = [filledRow(RUNS, 1), { ...filledRow(RUNS, 2), partition_keys }];
    await commit(store(), ws(), { changes: [changesOf(RUNS, { inserted: runs })] });
    const where: Condition[] = [{ cell: "sensor_id", is: "=", value: "nobody" }];
    for (const found of [
      { table: SENSOR_MESSAGES, where: [], order: BACKWARDS, limit: 100 },
      { table: SENSOR_MESSAGES, where, order: BY_KEY, limit: 100 },
      { table: RUNS, where: [], order: [{ cell: "run_pos" }], limit: 100 },
    ]) {
      const { texts, lastKey } = await store().read(ws(), (reader) => reader.findTexts(found));
      const rows: AnyRow[] = await store().read(ws(), (reader) => reader.find<AnyRow>(found));
      expect(texts).toEqual(rows.map(canonicalJson));
      const last = rows.at(-1);
      expect(lastKey).toEqual(last === undefined ? null : keyOf(found.table, last));
    }
  });

  test("hands out no cells by themselves that may be kept compressed, or are documents", async () => {
    for (const table of Object.values<AnyTable>(TABLES)) {
      const cells = Object.keys(table.cells).filter(
        (cell) => table.cells[cell] === "json" || table.long?.includes(cell),
      );
      for (const cell of cells) {
        const one = { table, where: [], order: [], limit: 1 };
        const found = store().read(ws(), (reader) => reader.findCells(one, [cell]));
        await expect(found, `${table.name}.${cell}`).rejects.toThrow(`${cell} is plain`);
      }
    }
  });

  test("counts by the values of cells", async () => {
    await insert(ROWS);
    const where: Condition[] = [{ cell: "sensor_id", is: "=", value: "sales" }];
    const cells = ["state", "published_at"];
    const counts = await store().read(ws(), (reader) =>
      reader.countBy(SENSOR_MESSAGES, where, cells),
    );
    for (const { values, count } of counts) {
      const same = ROWS.filter((row) => {
        const sales: AnyRow = row;
        return row.sensor_id === "sales" && cells.every((cell) => sales[cell] === values[cell]);
      });
      expect(count).toBe(same.length);
    }
    expect(counts.reduce((sum, { count }) => sum + count, 0)).toBe(KEYS.length);
  });
}

function expected({ where, order }: Pick<Find, "where" | "order">): AnyRow[] {
  const find: Find = { table: SENSOR_MESSAGES, where, order, limit: 100 };
  return ROWS.filter((row) => fulfils(row, find)).toSorted((a, b) => compareRows(a, b, order));
}
