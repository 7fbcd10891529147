import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  cellAt,
  cellAtPoint,
  firstSize,
  layoutOf,
  type LayoutInput,
  movedBy,
  placeOf,
  selectedRange,
  selectedRectangle,
  selectedViews,
  SIZES,
  viewOf,
  zoomed,
} from "./map-geometry.ts";

const inputs: fc.Arbitrary<LayoutInput> = fc.record({
  cells: fc.integer({ min: 1, max: 500 }),
  columns: fc.option(fc.integer({ min: 1, max: 40 }), { nil: undefined }),
  down: fc.option(fc.integer({ min: 1, max: 40 }), { nil: undefined }),
  lead: fc.nat({ max: 6 }),
  size: fc.constantFrom(...SIZES),
  width: fc.integer({ min: 1, max: 400 }),
});

describe("a layout", () => {
  test("gives each cell one place, and each point of that place the cell", () => {
    fc.assert(
      fc.property(inputs, fc.nat(), (input, choice) => {
        const layout = layoutOf(input);
        const index = choice % layout.cells;
        const { row, column } = placeOf(layout, index);
        expect(row).toBeLessThan(layout.rows);
        expect(column).toBeLessThan(layout.columns);
        expect(cellAt(layout, row, column)).toBe(index);
        const x = column * layout.size;
        const y = row * layout.size;
        expect(cellAtPoint(layout, x, y)).toBe(index);
        expect(cellAtPoint(layout, x + layout.size - 0.5, y + layout.size - 0.5)).toBe(index);
      }),
    );
  });

  test("has no cell in the blanks before the first and after the last", () => {
    const layout = layoutOf({ cells: 10, columns: 7, lead: 2, size: 8, width: 100 });
    expect(layout.rows).toBe(2);
    expect(cellAt(layout, 0, 1)).toBeNull();
    expect(cellAt(layout, 0, 2)).toBe(0);
    expect(cellAt(layout, 1, 4)).toBe(9);
    expect(cellAt(layout, 1, 5)).toBeNull();
    expect(cellAt(layout, 0, 7)).toBeNull();
    expect(cellAtPoint(layout, -1, 0)).toBeNull();
  });

  test("has room for a column even in a window that is narrower", () => {
    expect(layoutOf({ cells: 3, size: 24, width: 10 })).toMatchObject({ columns: 1, rows: 3 });
  });
});

describe("the size of cells", () => {
  test("is at first the largest at which all are seen, within bounds", () => {
    const window = { width: 1_000, height: 400 };
    expect(firstSize({ cells: 20, ...window })).toBe(16);
    expect(firstSize({ cells: 10_000, ...window })).toBe(6);
    expect(firstSize({ cells: 1_000_000, ...window })).toBe(2);
    expect(firstSize({ cells: 3_650, columns: 365, ...window })).toBe(2);
  });

  test("can be read where that is asked for, and what goes on along the page uses its height", () => {
    const window = { width: 1_000, height: 400, sizeMin: 12 };
    expect(firstSize({ cells: 1_000_000, ...window })).toBe(12);
    expect(firstSize({ cells: 100_056, down: 24, ...window })).toBe(16);
    expect(firstSize({ cells: 90 * 3, down: 3, ...window, width: 300 })).toBe(16);
    // All of it is seen at a smaller size that can be read as well.
    expect(firstSize({ cells: 80 * 3, down: 3, ...window })).toBe(12);
  });

  test("goes up and down by steps, and stops at the ends", () => {
    expect(zoomed(4, 1)).toBe(6);
    expect(zoomed(4, -1)).toBe(3);
    expect(zoomed(1, -1)).toBe(1);
    expect(zoomed(24, 1)).toBe(24);
  });
});

test("a view holds exactly the rows and columns that are seen, in part too", () => {
  const layout = layoutOf({ cells: 100, columns: 10, size: 8, width: 80 });
  expect(viewOf(layout, { x: 0, y: 0, width: 80, height: 24 })).toEqual({
    fromRow: 0,
    toRow: 2,
    fromColumn: 0,
    toColumn: 9,
  });
  expect(viewOf(layout, { x: 12, y: 4, width: 20, height: 24 })).toEqual({
    fromRow: 0,
    toRow: 3,
    fromColumn: 1,
    toColumn: 3,
  });
  expect(viewOf(layout, { x: 0, y: 70, width: 500, height: 500 })).toMatchObject({
    fromRow: 8,
    toRow: 9,
    toColumn: 9,
  });
});

describe("keys", () => {
  test("never leave the map", () => {
    const arrows = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"];
    const key = fc.constantFrom(...arrows, "PageUp", "PageDown", "Home", "End");
    fc.assert(
      fc.property(inputs, fc.nat(), key, (input, choice, pressed) => {
        const layout = layoutOf(input);
        const to = movedBy(layout, choice % layout.cells, pressed, 5);
        expect(to).toBeGreaterThanOrEqual(0);
        expect(to).toBeLessThan(layout.cells);
      }),
    );
  });

  test("go on in the next row where rows mean nothing, and stay in the row on a grid", () => {
    const flow = layoutOf({ cells: 20, size: 8, width: 80 });
    expect(movedBy(flow, 9, "ArrowRight", 5)).toBe(10);
    expect(movedBy(flow, 10, "ArrowLeft", 5)).toBe(9);
    expect(movedBy(flow, 3, "ArrowDown", 5)).toBe(13);
    expect(movedBy(flow, 3, "ArrowUp", 5)).toBe(3);
    const grid = layoutOf({ cells: 20, columns: 10, size: 8, width: 80 });
    expect(movedBy(grid, 9, "ArrowRight", 5)).toBe(9);
    expect(movedBy(grid, 10, "ArrowLeft", 5)).toBe(10);
    expect(movedBy(grid, 3, "x", 5)).toBeNull();
  });

  test("go along the page from column to column where cells follow each other down", () => {
    const weeks = layoutOf({ cells: 20, down: 7, lead: 2, runsOn: true, size: 8, width: 80 });
    expect(movedBy(weeks, 4, "ArrowDown", 5)).toBe(5);
    expect(movedBy(weeks, 4, "ArrowRight", 5)).toBe(11);
    expect(movedBy(weeks, 4, "ArrowLeft", 5)).toBe(4);
    expect(movedBy(weeks, 5, "ArrowUp", 5)).toBe(4);
    const grid = layoutOf({ cells: 21, down: 7, size: 8, width: 80 });
    expect(movedBy(grid, 6, "ArrowDown", 5)).toBe(6);
    expect(movedBy(grid, 7, "ArrowUp", 5)).toBe(7);
  });

  test("page by whole rows and stay in the column", () => {
    const layout = layoutOf({ cells: 100, size: 8, width: 80 });
    expect(movedBy(layout, 3, "PageDown", 4)).toBe(43);
    expect(movedBy(layout, 83, "PageDown", 4)).toBe(93);
    expect(movedBy(layout, 13, "PageUp", 4)).toBe(3);
  });
});

describe("a selection", () => {
  test("is a rectangle on a grid, whichever corners were given", () => {
    const expected = { fromRow: 1, toRow: 3, fromColumn: 2, toColumn: 5 };
    expect(selectedRectangle({ anchor: 12, end: 35 }, 10)).toEqual(expected);
    expect(selectedRectangle({ anchor: 15, end: 32 }, 10)).toEqual(expected);
    const grid = layoutOf({ cells: 100, down: 10, size: 8, width: 80 });
    const turned = { fromRow: 2, toRow: 5, fromColumn: 1, toColumn: 3 };
    expect(selectedViews(grid, { anchor: 15, end: 32 })).toEqual([turned]);
    expect(selectedRange({ anchor: 9, end: 4 })).toEqual({ from: 4, to: 9 });
  });

  test("covers exactly its cells where rows mean nothing", () => {
    const selections = fc.tuple(fc.nat({ max: 99 }), fc.nat({ max: 99 }));
    fc.assert(
      fc.property(selections, fc.boolean(), ([anchor, end], isDown) => {
        const lines = isDown ? { down: 9, lead: 4, runsOn: true } : {};
        const layout = layoutOf({ cells: 100, ...lines, size: 8, width: 80 });
        const covered = selectedViews(layout, { anchor, end }).flatMap((view) =>
          Array.from({ length: layout.cells }, (_, index) => index).filter((index) => {
            const { row, column } = placeOf(layout, index);
            const inRows = row >= view.fromRow && row <= view.toRow;
            return inRows && column >= view.fromColumn && column <= view.toColumn;
          }),
        );
        const { from, to } = selectedRange({ anchor, end });
        const wanted = Array.from({ length: to - from + 1 }, (_, offset) => from + offset);
        expect(covered.toSorted((one, other) => one - other)).toEqual(wanted);
      }),
    );
  });
});
