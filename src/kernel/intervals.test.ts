import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  countIntervals,
  expandIntervals,
  intersectIntervals,
  intervalsContain,
  intervalsOf,
  mergeIntervals,
  runLengths,
  subtractIntervals,
  uniteIntervals,
} from "./intervals.ts";

const numbers = fc
  .uniqueArray(fc.nat(60), { maxLength: 40 })
  .map((values) => values.toSorted((one, other) => one - other));

describe("intervals", () => {
  test("hold exactly the integers they were made from, in the fewest pieces", () => {
    fc.assert(
      fc.property(numbers, fc.nat(50), fc.nat(50), (values, offset, limit) => {
        const intervals = intervalsOf(values);
        expect(expandIntervals(intervals)).toEqual(values);
        expect(expandIntervals(intervals, offset, limit)).toEqual(
          values.slice(offset, offset + limit),
        );
        expect(countIntervals(intervals)).toBe(values.length);
        for (let at = 1; at < intervals.length; at++) {
          expect((intervals[at]?.[0] ?? 0) - (intervals[at - 1]?.[1] ?? 0)).toBeGreaterThan(1);
        }
        for (let value = -1; value < 62; value++) {
          expect(intervalsContain(intervals, value)).toBe(values.includes(value));
        }
      }),
    );
  });

  test("unite, intersect and subtract as sets do", () => {
    fc.assert(
      fc.property(numbers, numbers, (one, other) => {
        const left = intervalsOf(one);
        const right = intervalsOf(other);
        const both = one.filter((value) => other.includes(value));
        const either = [...new Set([...one, ...other])].toSorted((a, b) => a - b);
        expect(uniteIntervals(left, right)).toEqual(intervalsOf(either));
        expect(mergeIntervals([...right, ...left])).toEqual(intervalsOf(either));
        expect(intersectIntervals(left, right)).toEqual(intervalsOf(both));
        expect(subtractIntervals(left, right)).toEqual(
          intervalsOf(one.filter((value) => !other.includes(value))),
        );
      }),
    );
  });

  test("count a repeated integer once", () => {
    expect(intervalsOf([1, 1, 2, 5, 5])).toEqual([
      [1, 2],
      [5, 5],
    ]);
  });
});

describe("runLengths", () => {
  test("writes neighbours that are alike as one", () => {
    expect(runLengths(Uint8Array.of(0, 0, 0, 2, 1, 1))).toEqual([0, 3, 2, 1, 1, 2]);
    expect(runLengths(new Uint8Array(0))).toEqual([]);
  });

  test("can be read back, and never has two like neighbours or an empty one", () => {
    fc.assert(
      fc.property(fc.uint8Array({ max: 3 }), (cells) => {
        const lengths = runLengths(cells);
        const read: number[] = [];
        for (let at = 0; at < lengths.length; at += 2) {
          expect(lengths[at + 1]).toBeGreaterThan(0);
          if (at > 0) expect(lengths[at]).not.toBe(lengths[at - 2]);
          read.push(...Array<number>(lengths[at + 1] ?? 0).fill(lengths[at] ?? 0));
        }
        expect(read).toEqual([...cells]);
      }),
    );
  });
});
