import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { expandIntervals, type Interval, intervalsOf } from "../../kernel/intervals.ts";
import type { ChunkPart } from "./rows.ts";
import {
  intervalsFrom,
  intervalsUpTo,
  ordinalsIn,
  pagesOf,
  pairsOf,
  partsByAsset,
} from "./plan.ts";

const intervals: fc.Arbitrary<Interval[]> = fc
  .uniqueArray(fc.nat(40))
  .map((values) => intervalsOf(values.toSorted((a, b) => a - b)));

/** Every pair of asset and ordinal that parts stand for, one by one. */
function pairs(parts: readonly ChunkPart[], assetCount: number): string[] {
  return parts
    .flatMap(({ from, to, assets }) =>
      expandIntervals([[from, to]]).flatMap((ordinal) =>
        (assets ?? Array.from({ length: assetCount }, (_, asset) => asset)).map(
          (asset) => `${asset}/${ordinal}`,
        ),
      ),
    )
    .toSorted();
}

describe("partsByAsset", () => {
  test("stands for exactly the ordinals of each asset, in order and without a repeat", () => {
    fc.assert(
      fc.property(fc.array(intervals, { minLength: 1, maxLength: 4 }), (byAsset) => {
        const parts = partsByAsset(byAsset);
        const expected = byAsset.flatMap((own, asset) =>
          expandIntervals(own).map((ordinal) => `${asset}/${ordinal}`),
        );
        expect(pairs(parts, byAsset.length)).toEqual(expected.toSorted());
        expect(pairsOf(parts, byAsset.length)).toBe(expected.length);
        const ordinals = parts.flatMap(({ from, to }) => expandIntervals([[from, to]]));
        expect(ordinals).toEqual(ordinals.toSorted((a, b) => a - b));
        expect(new Set(ordinals).size).toBe(ordinals.length);
        expect(ordinalsIn(parts)).toBe(ordinals.length);
      }),
    );
  });

  test("names no assets where all of them take part", () => {
    expect(partsByAsset([[[0, 4]], [[2, 9]]])).toEqual([
      { from: 0, to: 1, assets: [0] },
      { from: 2, to: 4 },
      { from: 5, to: 9, assets: [1] },
    ]);
  });

  test("holds a billion ordinals in one part", () => {
    expect(partsByAsset([[[0, 999_999_999]]])).toEqual([{ from: 0, to: 999_999_999 }]);
  });
});

describe("intervalsFrom and intervalsUpTo", () => {
  test("cut a list of intervals in two at any place", () => {
    fc.assert(
      fc.property(intervals, fc.nat(45), (list, place) => {
        const all = expandIntervals(list);
        expect(expandIntervals(intervalsUpTo(list, place))).toEqual(all.slice(0, place));
        expect(expandIntervals(intervalsFrom(list, place))).toEqual(all.slice(place));
      }),
    );
  });
});

describe("pagesOf", () => {
  test("keeps all parts in order, no page longer than its size and only the last one shorter", () => {
    fc.assert(
      fc.property(intervals, fc.integer({ min: 1, max: 7 }), (list, size) => {
        const parts = list.map(([from, to]) => ({ from, to }));
        const pages = pagesOf(parts, size);
        expect(pages.flat()).toEqual(parts);
        expect(pages.slice(0, -1).every((page) => page.length === size)).toBe(true);
        expect(pages.every((page) => page.length > 0 && page.length <= size)).toBe(true);
      }),
    );
  });
});
