import { describe, expect, test } from "vitest";
import { heldUntil, samplesByMinute } from "./samples-by-minute.ts";

describe("samplesByMinute", () => {
  test("adds up the buckets of each minute, and has those without one too", () => {
    const points = [
      [120, 1],
      [170, 2],
      [240, 5],
    ] as const;
    expect(samplesByMinute(points, 90, 300)).toEqual([
      [120, 3],
      [180, 0],
      [240, 5],
      [300, 0],
    ]);
  });
});

describe("heldUntil", () => {
  test("goes on with the last value to the end, and with nothing where there is none", () => {
    expect(heldUntil([[10, 4]], 30)).toEqual([
      [10, 4],
      [30, 4],
    ]);
    expect(heldUntil([[30, 4]], 30)).toEqual([[30, 4]]);
    expect(heldUntil([], 30)).toEqual([]);
  });
});
