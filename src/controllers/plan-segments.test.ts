import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { planSegments } from "./plan-segments.ts";
import { tilingFault } from "./tiling.ts";

describe("planSegments", () => {
  test("spreads what does not divide over the first segments", () => {
    expect(planSegments(100, 110, { max: 4, min_size: 1 })).toEqual([102, 105, 108, 110]);
  });

  test("makes fewer segments rather than smaller ones than are worth it", () => {
    expect(planSegments(0, 2_499, { max: 365, min_size: 1_000 })).toEqual([1_249, 2_499]);
    expect(planSegments(7, 9, { max: 365, min_size: 1_000 })).toEqual([9]);
  });

  test("I47: tiles any range, with sizes that differ by one block at most", () => {
    const numbers = fc.tuple(
      fc.nat(1_000_000),
      fc.nat(1_000_000),
      fc.integer({ min: 1, max: 400 }),
      fc.integer({ min: 1, max: 5_000 }),
    );
    fc.assert(
      fc.property(numbers, ([from, more, max, min_size]) => {
        const ends = planSegments(from, from + more, { max, min_size });
        const segments = ends.map((to_block, index) => ({
          segment_index: index,
          from_block: index === 0 ? from : (ends[index - 1] ?? 0) + 1,
          to_block,
        }));
        expect(tilingFault(segments, from, from + more)).toBeNull();
        const sizes = segments.map(({ from_block, to_block }) => to_block - from_block + 1);
        expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThanOrEqual(1);
        expect(ends.length).toBeLessThanOrEqual(max);
        if (ends.length > 1) expect(Math.min(...sizes)).toBeGreaterThanOrEqual(min_size);
      }),
    );
  });
});
