import { Temporal } from "temporal-polyfill";

/** A day of the calendar as numbers; months and days count from 1. */
export type CivilDay = { year: number; month: number; day: number };

/** Milliseconds in a day without a clock change. */
export const DAY_MS = 86_400_000;

/** Days in the 400 years after which the calendar repeats, weekdays included. */
export const DAYS_IN_CYCLE = 146_097;

/** The days a week may start on, in the order of `weekdayOf`. */
export const WEEKDAYS = [
  "sunday",
  "monday",
  "tuesday",
  "wednesday",
  "thursday",
  "friday",
  "saturday",
] as const;

const TWO_DIGITS = Array.from({ length: 100 }, (_, value) => String(value).padStart(2, "0"));

const MONTH_DAYS = [0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** How many days the month has, counting months from 1. */
export function daysInMonth(year: number, month: number): number {
  if (month === 2 && year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)) return 29;
  return MONTH_DAYS[month] ?? 0;
}

/**
 * The number of the day, 1970-01-01 being 0. Years are counted from March, so that the leap day is
 * the last of its year and needs no special case.
 */
export function dayNumberOf(year: number, month: number, day: number): number {
  const marchYear = month <= 2 ? year - 1 : year;
  const cycle = Math.floor(marchYear / 400);
  const yearOfCycle = marchYear - cycle * 400;
  const dayOfYear = Math.floor((153 * (month > 2 ? month - 3 : month + 9) + 2) / 5) + day - 1;
  const dayOfCycle =
    yearOfCycle * 365 + Math.floor(yearOfCycle / 4) - Math.floor(yearOfCycle / 100) + dayOfYear;
  return cycle * DAYS_IN_CYCLE + dayOfCycle - 719_468;
}

/** The day of the calendar with this number, 1970-01-01 being 0. */
export function civilDayOf(dayNumber: number): CivilDay {
  const shifted = dayNumber + 719_468;
  const cycle = Math.floor(shifted / DAYS_IN_CYCLE);
  const dayOfCycle = shifted - cycle * DAYS_IN_CYCLE;
  const yearOfCycle = Math.floor(
    (dayOfCycle -
      Math.floor(dayOfCycle / 1_460) +
      Math.floor(dayOfCycle / 36_524) -
      Math.floor(dayOfCycle / 146_096)) /
      365,
  );
  const dayOfYear =
    dayOfCycle - (365 * yearOfCycle + Math.floor(yearOfCycle / 4) - Math.floor(yearOfCycle / 100));
  const monthFromMarch = Math.floor((5 * dayOfYear + 2) / 153);
  const day = dayOfYear - Math.floor((153 * monthFromMarch + 2) / 5) + 1;
  const month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9;
  return { year: yearOfCycle + cycle * 400 + (month <= 2 ? 1 : 0), month, day };
}

/** The weekday of the day, Sunday being 0. */
export function weekdayOf(dayNumber: number): number {
  return (((dayNumber + 4) % 7) + 7) % 7;
}

/** The number of the day that `YYYY-MM-DD` at the start of the text names, which must be real. */
export function dayNumberOfText(text: string): number {
  return dayNumberOf(Number(text.slice(0, 4)), Number(text.slice(5, 7)), Number(text.slice(8, 10)));
}

/** A number from 0 to 99 as two digits. */
export function twoDigits(value: number): string {
  return TWO_DIGITS[value] ?? String(value);
}

/** A year from 0 to 9999 as four digits. */
export function fourDigits(year: number): string {
  return year >= 1_000 ? String(year) : String(year).padStart(4, "0");
}

/** The day as `YYYY-MM-DD`. */
export function dayText(dayNumber: number): string {
  const { year, month, day } = civilDayOf(dayNumber);
  return `${fourDigits(year)}-${twoDigits(month)}-${twoDigits(day)}`;
}

/** A stretch of instants, the end excluded, during which a zone keeps one offset from UTC. */
export type OffsetStretch = { fromMs: number; untilMs: number; offsetMs: number };

/** The clock of a time zone. */
export interface ZoneClock {
  /** How far local time is ahead of UTC at the instant. */
  offsetMsAt(epochMs: number): number;
  /** The stretch of one offset that the instant lies in. */
  stretchAt(epochMs: number): OffsetStretch;
  /**
   * The first instant at which the local clock shows at least this wall time, given as the
   * milliseconds since 1970 that it would be in UTC. A time that the clock skips begins when the
   * clock jumps over it, a time that comes twice begins the first time, so order is always kept.
   */
  startMsOf(wallMs: number): number;
}

/** No local clock is further than this from UTC, with an hour to spare. */
export const OFFSET_MAX_MS = 27 * 3_600_000;

const ALWAYS_UTC: OffsetStretch = {
  fromMs: Number.NEGATIVE_INFINITY,
  untilMs: Number.POSITIVE_INFINITY,
  offsetMs: 0,
};

const UTC_CLOCK: ZoneClock = {
  offsetMsAt: () => 0,
  stretchAt: () => ALWAYS_UTC,
  startMsOf: (wallMs) => wallMs,
};

/** More than there are zones, so that only odd spellings of their names are ever let go. */
const CLOCKS_MAX = 2_000;
const clocks = new Map<string, ZoneClock>();

/** Whether the name is that of a time zone. */
export function isTimeZone(name: string): boolean {
  try {
    Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(name);
    return true;
  } catch {
    return false;
  }
}

/** The clock of a zone that `isTimeZone` accepts; what it learns about the zone is kept. */
export function zoneClockOf(name: string): ZoneClock {
  if (name === "UTC") return UTC_CLOCK;
  const known = clocks.get(name);
  if (known !== undefined) return known;
  if (clocks.size >= CLOCKS_MAX) clocks.clear();
  const made = makeClock(name);
  clocks.set(name, made);
  return made;
}

/**
 * The last ordinal that starts at or before the instant, given one that does. The local clock may
 * have shown a later time before it was set back, so a few more may have started already.
 */
export function lastStarted(
  startMsAt: (ordinal: number) => number,
  epochMs: number,
  started: number,
): number {
  let ordinal = started;
  while (startMsAt(ordinal + 1) <= epochMs) ordinal++;
  return ordinal;
}

function makeClock(name: string): ZoneClock {
  // Sorted by time and disjoint, though not without holes: only what was asked for is in it.
  const stretches: OffsetStretch[] = [];

  function stretchAt(epochMs: number): OffsetStretch {
    let low = 0;
    let high = stretches.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const stretch = stretches[middle];
      if (stretch !== undefined && stretch.untilMs <= epochMs) low = middle + 1;
      else high = middle;
    }
    const found = stretches[low];
    if (found !== undefined && found.fromMs <= epochMs) return found;
    const made = lookUpStretch(name, epochMs);
    stretches.splice(low, 0, made);
    return made;
  }

  return {
    offsetMsAt: (epochMs) => stretchAt(epochMs).offsetMs,
    stretchAt,
    startMsOf(wallMs) {
      let stretch = stretchAt(wallMs - OFFSET_MAX_MS);
      for (;;) {
        const startMs = Math.max(stretch.fromMs, wallMs - stretch.offsetMs);
        if (startMs < stretch.untilMs) return startMs;
        stretch = stretchAt(stretch.untilMs);
      }
    },
  };
}

function lookUpStretch(name: string, epochMs: number): OffsetStretch {
  const time = Temporal.Instant.fromEpochMilliseconds(epochMs).toZonedDateTimeISO(name);
  const next = time.getTimeZoneTransition("next");
  // A transition at this very instant begins the stretch, and "previous" leaves it out.
  const previous = time.add({ milliseconds: 1 }).getTimeZoneTransition("previous");
  return {
    fromMs: previous?.epochMilliseconds ?? Number.NEGATIVE_INFINITY,
    untilMs: next?.epochMilliseconds ?? Number.POSITIVE_INFINITY,
    offsetMs: Math.round(time.offsetNanoseconds / 1e6),
  };
}
