import { describe, expect, test } from "vitest";
import { type OffsetStretch, type ZoneClock, zoneClockOf } from "../keyspace/civil-time.ts";
import { type CronTimes, comesTwice, cronTimes, previewTimes, reachedBefore } from "./times.ts";

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

function timesOf(expression: string, zone = "UTC"): CronTimes {
  const times = cronTimes(expression, zone);
  if (typeof times === "string") throw new Error(times);
  return times;
}

const ms = (text: string): number => Date.parse(text);

/** All firings of a local day, given by the offsets at its two ends. */
function firingsOf(expression: string, zone: string, from: string, until: string): string[] {
  const times = timesOf(expression, zone);
  const firings = times.newestBetween(ms(from) - 1, ms(until) - 1, 10_000);
  expect(times.countBetween(ms(from) - 1, ms(until) - 1)).toBe(firings.length);
  return firings.map((atMs) => new Date(atMs).toISOString().slice(0, 19));
}

const SPRING = ["Europe/Berlin", "2026-03-29T00:00+01:00", "2026-03-30T00:00+02:00"] as const;
const AUTUMN = ["Europe/Berlin", "2026-10-25T00:00+02:00", "2026-10-26T00:00+01:00"] as const;

describe("cronTimes", () => {
  test("fires a fixed time in the missing hour once, when the clock jumps", () => {
    expect(firingsOf("30 2 * * *", ...SPRING)).toEqual(["2026-03-29T01:00:00"]);
    expect(firingsOf("0,15,30 2 * * *", ...SPRING)).toEqual(["2026-03-29T01:00:00"]);
    expect(firingsOf("0 2,3 * * *", ...SPRING)).toEqual(["2026-03-29T01:00:00"]);
  });

  test("fires a fixed time in the doubled hour once, when it first comes", () => {
    expect(firingsOf("30 2 * * *", ...AUTUMN)).toEqual(["2026-10-25T00:30:00"]);
    expect(firingsOf("0 2,3 * * *", ...AUTUMN)).toEqual([
      "2026-10-25T00:00:00",
      "2026-10-25T02:00:00",
    ]);
  });

  test("fires an hourly cron 23 and 25 times on the days of a change", () => {
    expect(firingsOf("@hourly", ...SPRING)).toHaveLength(23);
    expect(firingsOf("0 * * * *", ...AUTUMN)).toHaveLength(25);
    expect(firingsOf("0 */2 * * *", ...SPRING)).toHaveLength(11);
    expect(firingsOf("0 */2 * * *", ...AUTUMN)).toHaveLength(13);
  });

  test("fires for every hour of the clock when they are written as a range", () => {
    expect(firingsOf("0 0-23 * * *", ...SPRING)).toHaveLength(23);
    expect(firingsOf("0 0-23 * * *", ...AUTUMN)).toHaveLength(24);
  });

  test("keeps to a shift of half an hour", () => {
    const spring = ["2026-10-04T00:00+10:30", "2026-10-05T00:00+11:00"] as const;
    const autumn = ["2026-04-05T00:00+11:00", "2026-04-06T00:00+10:30"] as const;
    expect(firingsOf("0,15,45 2 * * *", "Australia/Lord_Howe", ...spring)).toEqual([
      "2026-10-03T15:30:00",
      "2026-10-03T15:45:00",
    ]);
    expect(firingsOf("45 1 * * *", "Australia/Lord_Howe", ...autumn)).toEqual([
      "2026-04-04T14:45:00",
    ]);
    expect(firingsOf("45 * * * *", "Australia/Lord_Howe", ...autumn)).toHaveLength(25);
    expect(firingsOf("15 * * * *", "Australia/Lord_Howe", ...spring)).toHaveLength(23);
  });

  test("begins a day whose midnight does not exist at its first instant", () => {
    const day = ["2026-04-24T00:00+02:00", "2026-04-25T00:00+03:00"] as const;
    expect(firingsOf("@daily", "Africa/Cairo", ...day)).toEqual(["2026-04-23T22:00:00"]);
  });

  test("fires the times of a day that never came once, when the next day begins", () => {
    const days = ["2011-12-29T00:00-10:00", "2012-01-01T00:00+14:00"] as const;
    expect(firingsOf("0 6,18 * * *", "Pacific/Apia", ...days)).toEqual([
      "2011-12-29T16:00:00",
      "2011-12-30T04:00:00",
      "2011-12-30T10:00:00",
      "2011-12-30T16:00:00",
      "2011-12-31T04:00:00",
    ]);
    expect(firingsOf("0 */6 30 12 *", "Pacific/Apia", ...days)).toEqual([]);
    expect(firingsOf("0 6 30 12 *", "Pacific/Apia", ...days)).toEqual(["2011-12-30T10:00:00"]);
  });

  test("finds leap days, month ends and counted weekdays", () => {
    const leap = timesOf("0 0 29 2 *");
    expect(leap.nextAfter(ms("2096-02-29"))).toBe(ms("2104-02-29"));
    expect(leap.lastUpTo(ms("2104-02-28"))).toBe(ms("2096-02-29"));
    expect(leap.countBetween(ms("2000-01-01"), ms("2400-01-01"))).toBe(97);
    expect(timesOf("0 0 L * *").nextAfter(ms("2028-02-01"))).toBe(ms("2028-02-29"));
    expect(timesOf("0 0 15,L * *").nextAfter(ms("2026-04-16"))).toBe(ms("2026-04-30"));
    expect(timesOf("0 0 * * fri#2").nextAfter(ms("2026-03-07"))).toBe(ms("2026-03-13"));
    expect(timesOf("0 0 * * 5L").nextAfter(ms("2026-03-01"))).toBe(ms("2026-03-27"));
    expect(timesOf("0 0 * * 7").nextAfter(ms("2026-03-02"))).toBe(ms("2026-03-08"));
    expect(timesOf("0 0 ? 3 ?").nextAfter(ms("2026-01-01"))).toBe(ms("2026-03-01"));
  });

  test("fires on either day when both day fields are restricted", () => {
    const either = timesOf("0 0 13 * fri");
    expect(either.nextAfter(ms("2026-01-10"))).toBe(ms("2026-01-13"));
    expect(either.nextAfter(ms("2026-01-13"))).toBe(ms("2026-01-16"));
  });

  test("fires at seconds and between two milliseconds of one", () => {
    const times = timesOf("*/20 * * * * *");
    expect(times.nextAfter(ms("2026-01-01T00:00:00.001Z"))).toBe(ms("2026-01-01T00:00:20Z"));
    expect(times.nextAfter(ms("2026-01-01T00:00:19.999Z"))).toBe(ms("2026-01-01T00:00:20Z"));
    expect(times.lastUpTo(ms("2026-01-01T00:00:39.999Z"))).toBe(ms("2026-01-01T00:00:20Z"));
    expect(times.lastUpTo(ms("2026-01-01T00:00:20Z"))).toBe(ms("2026-01-01T00:00:20Z"));
  });

  test("counts every second of ten years and only the newest of them are listed", () => {
    const times = timesOf("* * * * * *", "America/New_York");
    const from = ms("2020-01-01");
    const until = ms("2030-01-01");
    expect(times.countBetween(from, until)).toBe((until - from) / 1_000);
    expect(times.newestBetween(from, until, 3)).toEqual([until - 2_000, until - 1_000, until]);
    expect(times.newestBetween(from, until, 0)).toEqual([]);
    expect(times.countBetween(until, from)).toBe(0);
  });

  test("counts daily firings over years of clock changes", () => {
    const from = ms("2020-01-01T00:00+01:00") - 1;
    const until = ms("2030-01-01T00:00+01:00") - 1;
    expect(timesOf("30 2 * * *", "Europe/Berlin").countBetween(from, until)).toBe(3_653);
    expect(timesOf("0,30 2 * * *", "Europe/Berlin").countBetween(from, until)).toBe(7_296);
  });

  test("ends with the year 9999 and begins with the year 1", () => {
    const times = timesOf("@yearly");
    expect(times.nextAfter(ms("9998-06-01"))).toBe(ms("9999-01-01"));
    expect(times.nextAfter(ms("9999-06-01"))).toBeNull();
    expect(times.nextAfter(Number.POSITIVE_INFINITY)).toBeNull();
    expect(times.nextAfter(Number.NEGATIVE_INFINITY)).toBe(ms("0001-01-01"));
    expect(times.lastUpTo(ms("0001-06-01"))).toBe(ms("0001-01-01"));
    expect(times.lastUpTo(ms("0000-06-01"))).toBeNull();
    expect(times.countBetween(Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY)).toBe(9_999);
    const zoned = timesOf("0 */12 1 1 *", "Asia/Tokyo");
    expect(zoned.nextAfter(ms("9999-06-01"))).toBe(ms("9999-12-31T15:00Z"));
    expect(zoned.nextAfter(ms("9999-12-31T15:00Z"))).toBeNull();
  });

  test("gives the same firings for the same expression and zone", () => {
    expect(cronTimes("7 7 * * *", "Asia/Tokyo")).toBe(cronTimes("7 7 * * *", "Asia/Tokyo"));
    expect(cronTimes("7 7 * * *", "Asia/Tokyo")).not.toBe(cronTimes("7 7 * * *", "UTC"));
  });
});

const HOUR_MS = 3_600_000;

/** A clock that is changed at the given hours since 1970, to the given hours ahead of UTC. */
function clockOf(...changes: [atHour: number, offsetHours: number][]): ZoneClock {
  const stretches: OffsetStretch[] = changes.map(([atHour, offsetHours], index) => ({
    fromMs: atHour * HOUR_MS,
    untilMs: (changes[index + 1]?.[0] ?? Number.POSITIVE_INFINITY) * HOUR_MS,
    offsetMs: offsetHours * HOUR_MS,
  }));
  const stretchAt = (epochMs: number): OffsetStretch => {
    const found = stretches.find(({ untilMs }) => epochMs < untilMs);
    if (found === undefined) throw new Error(`no stretch at ${epochMs}`);
    return found;
  };
  const offsetMsAt = (epochMs: number): number => stretchAt(epochMs).offsetMs;
  return { stretchAt, offsetMsAt, startMsOf: () => Number.NaN };
}

describe("reachedBefore", () => {
  test("is past the start of the stretch after a clock was set back, and short of it after a jump", () => {
    const berlin = zoneClockOf("Europe/Berlin");
    const autumn = berlin.stretchAt(ms("2026-10-25T01:00Z"));
    const spring = berlin.stretchAt(ms("2026-03-29T01:00Z"));
    expect(reachedBefore(berlin, autumn)).toBe(ms("2026-10-25T03:00Z"));
    expect(reachedBefore(berlin, spring)).toBe(ms("2026-03-29T02:00Z"));
  });

  test("remembers a later time that was shown two changes ago", () => {
    const clock = clockOf([Number.NEGATIVE_INFINITY, 12], [100, -12], [102, -11]);
    expect(reachedBefore(clock, clock.stretchAt(102 * HOUR_MS))).toBe(112 * HOUR_MS);
  });

  test("is before everything where a clock was never changed", () => {
    const utc = zoneClockOf("UTC");
    expect(reachedBefore(utc, utc.stretchAt(0))).toBe(Number.NEGATIVE_INFINITY);
  });
});

describe("comesTwice", () => {
  test("holds for both instants of a doubled hour and not beside it", () => {
    const berlin = zoneClockOf("Europe/Berlin");
    const instants = ["2026-10-24T23:59Z", "2026-10-25T00:00Z", "2026-10-25T01:59Z"];
    const twice = [...instants, "2026-10-25T02:00Z"].map((text) => comesTwice(berlin, ms(text)));
    expect(twice).toEqual([false, true, true, false]);
  });
});
