import { expect, test } from "vitest";
import { joinPoints } from "./lag-points.ts";

test("joinPoints draws what was heard here instead of the coarser samples", () => {
  const kept: [number, number][] = [
    [10, 1],
    [20, 2],
    [30, 3],
  ];
  const heard: [number, number][] = [
    [25, 7],
    [26, 8],
    [26, 9],
  ];
  expect(joinPoints(kept, heard)).toEqual([
    [10, 1],
    [20, 2],
    [25, 7],
    [26, 9],
  ]);
  expect(joinPoints(kept, [])).toEqual(kept);
  expect(joinPoints([], [])).toEqual([]);
});
