import { expect, test } from "vitest";
import { findAll, type Readable } from "./rows.ts";
import { compareRows, fulfils } from "../kernel/table.ts";

type Row = { readonly group: string; readonly place: number };

const TABLE = {
  name: "places",
  key: ["group", "place"],
  cells: { group: "text", place: "int" },
} as const;
const ROWS: readonly Row[] = Array.from({ length: 10 }, (_, at) => {
  return { group: at % 2 === 0 ? "even" : "odd", place: Math.floor(at / 2) };
});

/** Answers look-ups in the rows, and counts them. */
function set(): Readable<Row> & { finds: number } {
  return {
    finds: 0,
    get: () => null,
    need: () => undefined,
    find(where, order, limit) {
      this.finds += 1;
      const found = ROWS.filter((row) => fulfils(row, { table: TABLE, where, order, limit }));
      return found.toSorted((one, other) => compareRows(one, other, order)).slice(0, limit);
    },
  };
}

const ORDER = [{ cell: "place" }, { cell: "group" }];

test.for([1, 2, 3, 9, 10, 11])(
  "findAll leaves out no row and reads none twice, %i at once",
  (size) => {
    expect(findAll(set(), [], ORDER, size)).toEqual(ROWS);
  },
);

test("findAll keeps to the conditions, and asks once where one page is enough", () => {
  const rows = set();
  const odd = findAll(rows, [{ cell: "group", is: "=", value: "odd" }], ORDER, 6);
  expect(odd.map(({ place }) => place)).toEqual([0, 1, 2, 3, 4]);
  expect(rows.finds).toBe(1);
});
