import { describe, expect, test } from "vitest";
import { chosenRange, chosenRectangle } from "./chosen-partitions.ts";

const two = [
  { name: "day", count: 10, stride: 3 },
  { name: "region", count: 3, stride: 1 },
];

const three = [
  { name: "day", count: 4, stride: 6 },
  { name: "kind", count: 2, stride: 3 },
  { name: "region", count: 3, stride: 1 },
];

/** A rectangle by its corners: row and column of each. */
function chosen(dimensions: typeof two, from: [number, number], to: [number, number]) {
  const columns = dimensions.at(-1)?.count ?? 1;
  const anchor = to[0] * columns + to[1];
  const end = from[0] * columns + from[1];
  const found = chosenRectangle({ anchor, end }, dimensions);
  if (found.type !== "filter") return found.type;
  const ranges = found.ranges.map(({ dimension, from: a, to: b }) => `${dimension} ${a}-${b}`);
  return `${ranges.join(", ")}: ${found.count}`;
}

describe("chosenRange", () => {
  test("is the same whichever end was first, and ends where the partitions do", () => {
    const expected = { type: "range", from: 3, to: 7, count: 5 };
    expect(chosenRange({ anchor: 7, end: 3 }, 10)).toEqual(expected);
    expect(chosenRange({ anchor: 3, end: 9 }, 8)).toEqual(expected);
  });
});

describe("chosenRectangle", () => {
  test("is a stretch of rows and one of columns", () => {
    expect(chosen(two, [2, 1], [4, 2])).toBe("day 2-4, region 1-2: 6");
    expect(chosen(two, [9, 0], [9, 0])).toBe("day 9-9, region 0-0: 1");
  });

  test("is one of each dimension where rows stand for several", () => {
    expect(chosen(three, [2, 0], [3, 2])).toBe("day 1-1, kind 0-1, region 0-2: 6");
    expect(chosen(three, [3, 1], [3, 1])).toBe("day 1-1, kind 1-1, region 1-1: 1");
    expect(chosen(three, [2, 0], [7, 0])).toBe("day 1-3, kind 0-1, region 0-0: 6");
  });

  test("is unclear where rows begin or end within another dimension", () => {
    expect(chosen(three, [1, 0], [2, 0])).toBe("unclear");
    expect(chosen(three, [0, 0], [2, 0])).toBe("unclear");
  });
});
