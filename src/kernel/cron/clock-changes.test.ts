import { describe, expect, test } from "vitest";
import { type OffsetStretch, type ZoneClock, zoneClockOf } from "../keyspace/time-zone.ts";
import { comesTwice, reachedBefore } from "./clock-changes.ts";

const HOUR_MS = 3_600_000;
const ms = (text: string): number => Date.parse(text);

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
