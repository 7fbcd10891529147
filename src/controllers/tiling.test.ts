import { describe, expect, test } from "vitest";
import { tilingFault } from "./tiling.ts";

function tiles(...bounds: readonly [from: number, to: number][]) {
  return bounds.map(([from_block, to_block], segment_index) => ({
    segment_index,
    from_block,
    to_block,
  }));
}

describe("tilingFault", () => {
  test("finds nothing wrong with what tiles the range", () => {
    expect(tilingFault(tiles([5, 5], [6, 9], [10, 20]), 5, 20)).toBeNull();
    expect(tilingFault([], 5, null)).toBeNull();
  });

  test("I47: names the segment where blocks are missing or had twice", () => {
    expect(tilingFault(tiles([0, 4], [6, 9]), 0, 9)).toBe(
      "segment 1 (6 to 9) leaves a gap: 5 to 5 is nobody's",
    );
    expect(tilingFault(tiles([0, 4], [4, 9]), 0, 9)).toBe(
      "segment 1 (4 to 9) begins before 5, where its neighbour ends",
    );
    expect(tilingFault(tiles([0, -1], [0, 9]), 0, 9)).toBe(
      "segment 0 (0 to -1) ends before it begins",
    );
  });

  test("I47: looks at both ends of the range", () => {
    expect(tilingFault(tiles([1, 9]), 0, 9)).toContain("0 to 0 is nobody's");
    expect(tilingFault(tiles([0, 8]), 0, 9)).toBe("the segments end at 8 and not at 9");
    expect(tilingFault(tiles([0, 8]), 0, null)).toBe("the segments end at 8 and not at -1");
  });
});
