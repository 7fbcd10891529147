import { describe, expect, test } from "vitest";
import { turnedGrid } from "./turned-grid.ts";

describe("turnedGrid", () => {
  // Four days of two regions, of which the second day of the first region failed.
  const { columns, lengths, ordinalAt, cellOf } = turnedGrid([0, 2, 1, 1, 0, 5], 4, 2);

  test("draws rows as columns", () => {
    expect(columns).toBe(4);
    expect(lengths).toEqual([0, 1, 1, 1, 0, 6]);
  });

  test("finds each cell by its ordinal, and back", () => {
    for (let ordinal = 0; ordinal < 8; ordinal++) expect(ordinalAt(cellOf(ordinal))).toBe(ordinal);
    expect([cellOf(0), cellOf(1), cellOf(2)]).toEqual([0, 4, 1]);
  });
});
