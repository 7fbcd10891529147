import { describe, expect, test } from "vitest";
import { marksOf, markText, placeOn } from "./gantt-scale.ts";

describe("placeOn", () => {
  test("keeps what is outside at the ends", () => {
    const scale = { fromMs: 1_000, toMs: 2_000 };
    expect([0, 1_000, 1_250, 2_000, 9_000].map((at) => placeOn(scale, at))).toEqual([
      0, 0, 25, 100, 100,
    ]);
  });

  test("bears a stretch without length", () => {
    expect(placeOn({ fromMs: 5, toMs: 5 }, 5)).toBe(0);
  });
});

describe("marksOf", () => {
  test("counts in steps that people count in", () => {
    expect(marksOf({ fromMs: 0, toMs: 47_000 }, 5)).toEqual([0, 10_000, 20_000, 30_000, 40_000]);
    expect(marksOf({ fromMs: 0, toMs: 3_600_000 }, 4)).toEqual([
      0, 900_000, 1_800_000, 2_700_000, 3_600_000,
    ]);
  });

  test("never has many more than asked for, however long it lasts", () => {
    for (const toMs of [0, 7, 1_234, 86_400_000, 400 * 86_400_000]) {
      expect(marksOf({ fromMs: 0, toMs }, 6).length).toBeLessThanOrEqual(7);
    }
  });
});

describe("markText", () => {
  test("tells two marks apart, however close they are", () => {
    expect([0, 500, 1_000, 1_500, 12_000, 90_000].map(markText)).toEqual([
      "0",
      "500 ms",
      "1 s",
      "1.5 s",
      "12 s",
      "1 min 30 s",
    ]);
  });
});
