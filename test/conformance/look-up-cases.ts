import { describe, expect, test } from "vitest";
import { PARTITIONS, type PartitionRow } from "../../src/work/run/rows.ts";
import {
  type AnyRow,
  type Condition,
  type Find,
  type Order,
  compareRows,
  compareText,
  fulfils,
} from "../../src/kernel/table.ts";
import { changesOf, commit, partition } from "./builders.ts";
import type { Suite } from "./store-conformance.ts";

/** Keys whose order by code points differs from JavaScript's, from a dictionary's and by length. */
const KEYS = ["", "A", "Z", "a", "ab", "b", "z", "é", "\ue000", "\uffff", "🙂", "𐀀", "a b", "_"];
const OUTCOMES = ["SUCCEEDED", "FAILED", "CANCELLED"] as const;

const ROWS: PartitionRow[] = ["sales", "visits"].flatMap((asset_key) =>
  KEYS.map((partition_key, index) =>
    partition({
      asset_key,
      partition_key,
      last_attempt_outcome: OUTCOMES[index % 3] ?? "FAILED",
      last_attempt_start_pos: index % 4,
      last_materialization_start_pos: index % 5 === 0 ? null : index % 5,
      last_materialization_run_id: index % 2 === 0 ? null : `run-${index}`,
    }),
  ),
);

const BY_KEY: Order[] = [{ cell: "asset_key" }, { cell: "partition_key" }];
const BACKWARDS: Order[] = BY_KEY.map(({ cell }) => ({ cell, descending: true }));
const MIXED: Order[] = [
  { cell: "last_attempt_start_pos", descending: true },
  { cell: "asset_key" },
  { cell: "partition_key", descending: true },
];

const CONDITIONS: Record<string, Condition[]> = {
  everything: [],
  "=": [{ cell: "partition_key", is: "=", value: "é" }],
  "= of an integer": [{ cell: "last_attempt_start_pos", is: "=", value: 2 }],
  "<>, which null is not": [{ cell: "last_materialization_start_pos", is: "<>", value: 2 }],
  "<": [{ cell: "partition_key", is: "<", value: "b" }],
  "<=": [{ cell: "last_attempt_start_pos", is: "<=", value: 1 }],
  "> by code points": [{ cell: "partition_key", is: ">", value: "\uffff" }],
  ">=, which null is not": [{ cell: "last_materialization_start_pos", is: ">=", value: 0 }],
  in: [{ cell: "last_attempt_outcome", is: "in", values: ["FAILED", "CANCELLED"] }],
  "in of integers": [{ cell: "last_attempt_start_pos", is: "in", values: [0, 3, 3] }],
  "in with awkward texts": [
    { cell: "partition_key", is: "in", values: ['"', "\\", "a,b", "{}", "NULL", "🙂", ""] },
  ],
  "in nothing": [{ cell: "partition_key", is: "in", values: [] }],
  "not in": [{ cell: "last_attempt_outcome", is: "not in", values: ["FAILED"] }],
  "not in, which null is not": [
    { cell: "last_materialization_run_id", is: "not in", values: ["run-1"] },
  ],
  "not in nothing": [{ cell: "last_materialization_run_id", is: "not in", values: [] }],
  null: [{ cell: "last_materialization_run_id", is: "null" }],
  "not null": [{ cell: "last_materialization_run_id", is: "not null" }],
  several: [
    { cell: "asset_key", is: "=", value: "visits" },
    { cell: "last_attempt_start_pos", is: ">", value: 0 },
    { cell: "last_materialization_run_id", is: "not null" },
  ],
};

/** Look-ups agree with `fulfils` and `compareRows`, which the overlay of a commit goes by. */
export function lookUpCases({ store, ws }: Suite): void {
  const find = async (given: Partial<Find>): Promise<AnyRow[]> => {
    return store().read(ws(), (reader) =>
      reader.find({ table: PARTITIONS, where: [], order: BY_KEY, limit: 100, ...given }),
    );
  };
  const insert = (rows: readonly PartitionRow[]): Promise<void> =>
    commit(store(), ws(), { changes: [changesOf(PARTITIONS, { inserted: rows })] });

  describe.each(Object.entries(CONDITIONS))("%s", (_name, where) => {
    test("finds, orders and counts what the conditions say", async () => {
      await insert(ROWS);
      for (const order of [BY_KEY, BACKWARDS, MIXED]) {
        expect(await find({ where, order })).toEqual(expected({ where, order }));
        expect(await find({ where, order, limit: 3 })).toEqual(
          expected({ where, order }).slice(0, 3),
        );
      }
      const counts = await store().read(ws(), (reader) => reader.countBy(PARTITIONS, where, []));
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
    const rows = await find({ where: [{ cell: "asset_key", is: "=", value: "sales" }] });
    const keys = rows.map((row) => row["partition_key"]);
    expect(keys).toEqual(KEYS.toSorted(compareText));
    expect(keys.indexOf("🙂")).toBeGreaterThan(keys.indexOf("\uffff"));
  });

  test("finds only some cells, in the order they are named", async () => {
    await insert(ROWS);
    const where: Condition[] = [{ cell: "asset_key", is: "=", value: "sales" }];
    const found = { table: PARTITIONS, where, order: BACKWARDS, limit: 5 };
    const cells = ["last_attempt_start_pos", "partition_key", "last_materialization_run_id"];
    const values = await store().read(ws(), (reader) => reader.findCells(found, cells));
    const rows = expected({ where, order: BACKWARDS }).slice(0, 5);
    expect(values).toEqual(rows.map((row) => cells.map((cell) => row[cell])));
  });

  test("counts by the values of cells", async () => {
    await insert(ROWS);
    const where: Condition[] = [{ cell: "asset_key", is: "=", value: "sales" }];
    const cells = ["last_attempt_outcome", "last_materialization_start_pos"];
    const counts = await store().read(ws(), (reader) => reader.countBy(PARTITIONS, where, cells));
    for (const { values, count } of counts) {
      const same = ROWS.filter((row) => {
        const sales: AnyRow = row;
        return row.asset_key === "sales" && cells.every((cell) => sales[cell] === values[cell]);
      });
      expect(count).toBe(same.length);
    }
    expect(counts.reduce((sum, { count }) => sum + count, 0)).toBe(KEYS.length);
  });
}

function expected({ where, order }: Pick<Find, "where" | "order">): AnyRow[] {
  const find: Find = { table: PARTITIONS, where, order, limit: 100 };
  return ROWS.filter((row) => fulfils(row, find)).toSorted((a, b) => compareRows(a, b, order));
}
