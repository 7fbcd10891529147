import { describe, expect, test } from "vitest";
import { instantOf } from "../core/instant.ts";
import { formatDuration, parseDurationMs, relativeTime } from "./duration.ts";

describe("parseDurationMs", () => {
  test.each([
    ["50s", 50_000],
    ["500ms", 500],
    ["1h30m", 5_400_000],
    ["1.5s", 1_500],
    ["2d", 172_800_000],
    ["0s", 0],
  ])("reads %s", (text, ms) => {
    expect(parseDurationMs(text, "--for")).toBe(ms);
  });

  test.each(["", "50", "s", "5 s", "-5s", "5x", "1h-2m"])("refuses %j", (text) => {
    expect(() => parseDurationMs(text, "--for")).toThrow(
      `--for: expected a duration such as 50s, 15m or 1h30m, got ${JSON.stringify(text)}.`,
    );
  });
});

describe("formatDuration", () => {
  test.each([
    [-5, "0ms"],
    [999, "999ms"],
    [4_210, "4.2s"],
    [9_949, "9.9s"],
    [59_499, "59s"],
    [59_500, "1m 00s"],
    [185_000, "3m 05s"],
    [3_599_400, "59m 59s"],
    [3_599_600, "1h 00m"],
    [7_800_000, "2h 10m"],
    [442_800_000, "5d 03h"],
  ])("writes %d ms as %s", (ms, text) => {
    expect(formatDuration(ms)).toBe(text);
  });
});

describe("relativeTime", () => {
  const now = Date.parse("2026-01-31T08:00:00.000Z");

  test.each([
    [0, "now"],
    [999, "now"],
    [12_000, "12s ago"],
    [179_000, "2m ago"],
    [10_800_000, "3h ago"],
    [172_800_000, "2d ago"],
    [-300_000, "in 5m"],
  ])("writes %d ms before now as %s", (ms, text) => {
    expect(relativeTime(instantOf(now - ms), now)).toBe(text);
  });

  test("writes what has no time as a dash", () => {
    expect(relativeTime(null, now)).toBe("-");
  });
});
