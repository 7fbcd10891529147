import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { cellsOf, countsOf, nextCell } from "./map-cells.ts";

/** Lists of states with how often each comes, and the same spelt out. */
const runs = fc
  .array(fc.tuple(fc.nat({ max: 3 }), fc.integer({ min: 1, max: 9 })))
  .map((pairs) => ({
    lengths: pairs.flat(),
    cells: pairs.flatMap(([state, length]) => Array.from({ length }, () => state)),
  }));

describe("the cells of a run-length list", () => {
  test("are the states, each as often as the list says", () => {
    fc.assert(
      fc.property(runs, ({ lengths, cells }) => {
        expect([...cellsOf(cells.length, lengths)]).toEqual(cells);
        expect(countsOf(4, lengths)).toEqual(
          [0, 1, 2, 3].map((state) => cells.filter((cell) => cell === state).length),
        );
      }),
    );
  });

  test("are no more than there should be, and blank where the list is too short", () => {
    expect([...cellsOf(3, [1, 5])]).toEqual([1, 1, 1]);
    expect([...cellsOf(3, [1, 2])]).toEqual([1, 1, 0]);
    expect([...cellsOf(0, [])]).toEqual([]);
  });
});

describe("nextCell", () => {
  const cells = Uint8Array.of(0, 4, 0, 4, 0);

  test("goes to the next one, and round at the end", () => {
    expect(nextCell(cells, 4, 0, 1)).toBe(1);
    expect(nextCell(cells, 4, 1, 1)).toBe(3);
    expect(nextCell(cells, 4, 3, 1)).toBe(1);
    expect(nextCell(cells, 4, 1, -1)).toBe(3);
    expect(nextCell(cells, 4, 4, -1)).toBe(3);
  });

  test("finds the only one from itself, and nothing where there is none", () => {
    expect(nextCell(Uint8Array.of(0, 7), 7, 1, 1)).toBe(1);
    expect(nextCell(cells, 2, 0, 1)).toBeNull();
    expect(nextCell(new Uint8Array(), 0, 0, 1)).toBeNull();
  });
});
