import { describe, expect, test } from "vitest";
import { durationText, rateText, relativeText } from "./time-text.ts";

describe("durationText", () => {
  test("tells the two largest units", () => {
    expect(durationText(320)).toBe("320 ms");
    expect(durationText(48_000)).toBe("48 s");
    expect(durationText(65_000)).toBe("1 min 5 s");
    expect(durationText(60_000)).toBe("1 min");
    expect(durationText(7_500_000)).toBe("2 h 5 min");
    expect(durationText(3_605_000)).toBe("1 h");
    expect(durationText(90_000_000)).toBe("1 d 1 h");
  });
});

describe("relativeText", () => {
  const now = Date.parse("2026-03-01T12:00:00Z");

  test("tells before, after and now", () => {
    expect(relativeText("2026-03-01T11:55:00Z", now)).toBe("5 min ago");
    expect(relativeText("2026-03-01T14:10:00Z", now)).toBe("in 2 h");
    expect(relativeText("2026-03-01T12:00:01Z", now)).toBe("now");
  });
});

describe("rateText", () => {
  test("keeps three digits", () => {
    expect([rateText(0.1234), rateText(12.34), rateText(4_123.4)]).toEqual([
      "0.12",
      "12.3",
      "4,123",
    ]);
  });
});
