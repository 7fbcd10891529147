import { describe, expect, test } from "vitest";
import { previewTimes } from "./preview-times.ts";

const ms = (text: string): number => Date.parse(text);

function lines(expression: string, zone: string, after: string, count: number): string[] {
  const preview = previewTimes(expression, zone, ms(after), count);
  if (typeof preview === "string") throw new Error(preview);
  return preview.map(({ wall, offset, change }) => `${wall}${offset} ${change ?? "-"}`);
}

describe("previewTimes", () => {
  test("shows where a fixed time was moved out of the missing hour", () => {
    expect(previewTimes("30 2 * * *", "Europe/Berlin", ms("2026-03-28T12:00Z"), 2)).toEqual([
      { at: ms("2026-03-29T01:00Z"), wall: "2026-03-29T03:00:00", offset: "+02:00", change: "gap" },
      { at: ms("2026-03-30T00:30Z"), wall: "2026-03-30T02:30:00", offset: "+02:00", change: null },
    ]);
  });

  test("shows no gap for a time that exists at the end of the missing hour", () => {
    expect(lines("0 3 * * *", "Europe/Berlin", "2026-03-28T12:00Z", 1)).toEqual([
      "2026-03-29T03:00:00+02:00 -",
    ]);
    expect(lines("30 * * * *", "Europe/Berlin", "2026-03-29T00:00Z", 2)).toEqual([
      "2026-03-29T01:30:00+01:00 -",
      "2026-03-29T03:30:00+02:00 -",
    ]);
  });

  test("shows which times come twice", () => {
    expect(lines("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00Z", 2)).toEqual([
      "2026-10-25T02:30:00+02:00 overlap",
      "2026-10-26T02:30:00+01:00 -",
    ]);
    expect(lines("0 * * * *", "Europe/Berlin", "2026-10-24T22:30Z", 4)).toEqual([
      "2026-10-25T01:00:00+02:00 -",
      "2026-10-25T02:00:00+02:00 overlap",
      "2026-10-25T02:00:00+01:00 overlap",
      "2026-10-25T03:00:00+01:00 -",
    ]);
  });

  test("shows offsets behind UTC and seconds", () => {
    expect(lines("5 30 6 * * *", "America/St_Johns", "2026-01-01T00:00Z", 1)).toEqual([
      "2026-01-01T06:30:05-03:30 -",
    ]);
  });

  test("stops where the calendar does", () => {
    expect(lines("@yearly", "UTC", "9997-06-01T00:00Z", 5)).toHaveLength(2);
  });

  test("says what is wrong with the expression", () => {
    expect(previewTimes("0 24 * * *", "UTC", 0, 1)).toContain("an hour that is not within 0 to 23");
  });
});
