import { describe, expect, test } from "vitest";
import { axisLabels, LANES_MAX, leftOf, placeMarks, type Scale } from "./time-line-scale.ts";

const HOUR_MS = 3_600_000;
const FROM_MS = Date.parse("2026-03-01T10:30:00Z");
const SCALE: Scale = { fromMs: FROM_MS, toMs: FROM_MS + 10 * HOUR_MS, width: 1_000 };

function at(hours: number): { at: string } {
  return { at: new Date(FROM_MS + hours * HOUR_MS).toISOString() };
}

describe("placeMarks", () => {
  test("puts marks of about the same time above each other, and others beside", () => {
    const { placed, lanes } = placeMarks([at(1), at(1.01), at(5)], SCALE);
    expect(placed.map(({ lane }) => lane)).toEqual([0, 1, 0]);
    expect(placed.map(({ left }) => left)).toEqual([100, 101, 500]);
    expect(lanes).toBe(2);
  });

  test("counts what does not fit", () => {
    const many = Array.from({ length: LANES_MAX + 3 }, () => at(2));
    const { placed, crowds } = placeMarks(many, SCALE);
    expect(placed).toHaveLength(LANES_MAX);
    expect(crowds.map(({ count }) => count)).toEqual([3]);
  });
});

describe("leftOf", () => {
  test("keeps what lies outside at the edges", () => {
    expect(leftOf(FROM_MS - 1, SCALE)).toBe(0);
    expect(leftOf(FROM_MS + 20 * HOUR_MS, SCALE)).toBe(1_000);
    expect(leftOf(FROM_MS + 5 * HOUR_MS, SCALE)).toBe(500);
  });
});

describe("axisLabels", () => {
  test("stand at whole hours, none too near to the next", () => {
    const labels = axisLabels(SCALE);
    expect(labels.length).toBeGreaterThan(2);
    for (const { text } of labels) expect(text).toMatch(/^\d\d:00$|^\w{3} \d+$/);
    for (const [index, { left }] of labels.entries()) {
      expect(left - (labels[index - 1]?.left ?? -84)).toBeGreaterThanOrEqual(84);
    }
  });

  test("stay at midnight and whole hours after the clocks were set back", () => {
    const backAtMs = Date.parse("2026-10-25T01:00:00Z");
    const berlin = (ms: number): number => (ms < backAtMs ? -2 : -1) * HOUR_MS;
    const fromMs = Date.parse("2026-10-23T12:00:00Z");
    const days = axisLabels({ fromMs, toMs: fromMs + 5 * 24 * HOUR_MS, width: 600 }, berlin);
    expect(days.map(({ text }) => text)).toEqual([
      "Oct 24",
      "Oct 25",
      "Oct 26",
      "Oct 27",
      "Oct 28",
    ]);
    const hours = axisLabels(
      { fromMs: backAtMs - 4 * HOUR_MS, toMs: backAtMs + 8 * HOUR_MS, width: 400 },
      berlin,
    );
    expect(hours.map(({ text }) => text)).toEqual(["Oct 25", "03:00", "06:00", "09:00"]);
  });

  test("are days where time is long, and few even for no time at all", () => {
    const long = axisLabels({ ...SCALE, toMs: FROM_MS + 20 * 24 * HOUR_MS });
    expect(long.map(({ text }) => text)).toContain("Mar 8");
    expect(axisLabels({ ...SCALE, toMs: FROM_MS }).length).toBeLessThanOrEqual(1);
  });
});
