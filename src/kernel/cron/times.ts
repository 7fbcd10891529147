import {
  civilDayOf,
  DAY_MS,
  DAYS_IN_CYCLE,
  dayNumberOf,
  daysInMonth,
  dayText,
  isTimeZone,
  OFFSET_MAX_MS,
  type OffsetStretch,
  twoDigits,
  weekdayOf,
  type ZoneClock,
  zoneClockOf,
} from "../keyspace/civil-time.ts";
import { type CronDayFields, parseCronExpression } from "./expression.ts";

/** The days that day, month and weekday fields name, counted without walking. */
export interface DayTable {
  /** How many matching days lie before the day; the count is negative before the year 0. */
  matchesBefore(dayNumber: number): number;
  /** The matching day with this many matching days before it. */
  matchAt(index: number): number;
  matches(dayNumber: number): boolean;
}

const YEARS_IN_CYCLE = 400;
const CYCLE_START = dayNumberOf(0, 1, 1);

/**
 * Years that begin on the same weekday and have the same length have the same days, so there are
 * only 14 kinds: weekday of the first of January, plus 7 for a leap year.
 */
const KINDS = 14;
const KIND_OF_YEAR = Uint8Array.from({ length: YEARS_IN_CYCLE }, (_, year) => {
  const leap = daysInMonth(year, 2) === 29;
  return weekdayOf(dayNumberOf(year, 1, 1)) + (leap ? 7 : 0);
});
const YEAR_OF_KIND = Array.from({ length: KINDS }, (_, kind) => KIND_OF_YEAR.indexOf(kind));

const tables = new Map<string, DayTable | null>();
const TABLES_MAX = 1_000;

/** The table of the fields, which is kept; null when they name no day of any year. */
export function dayTableOf(fields: CronDayFields): DayTable | null {
  const known = tables.get(fields.text);
  if (known !== undefined) return known;
  const made = makeTable(fields);
  if (tables.size >= TABLES_MAX) tables.clear();
  tables.set(fields.text, made);
  return made;
}

/** Counts by the 400-year cycle of the calendar: whole cycles, years, months, then days. */
function makeTable(fields: CronDayFields): DayTable | null {
  // By kind of year and month of the year: the days as bits, and how many earlier months have.
  const masks = new Int32Array(KINDS * 12);
  const monthsBefore = new Int16Array(KINDS * 12);
  const perKind = new Int16Array(KINDS);
  for (let kind = 0; kind < KINDS; kind++) {
    for (let month = 0; month < 12; month++) {
      const mask = maskOfMonth(YEAR_OF_KIND[kind] ?? 0, month + 1, fields);
      masks[kind * 12 + month] = mask;
      monthsBefore[kind * 12 + month] = perKind[kind] ?? 0;
      perKind[kind] = (perKind[kind] ?? 0) + bitCount(mask);
    }
  }
  const yearsBefore = new Int32Array(YEARS_IN_CYCLE + 1);
  for (let year = 0; year < YEARS_IN_CYCLE; year++) {
    yearsBefore[year + 1] = (yearsBefore[year] ?? 0) + (perKind[KIND_OF_YEAR[year] ?? 0] ?? 0);
  }
  const perCycle = yearsBefore[YEARS_IN_CYCLE] ?? 0;
  if (perCycle === 0) return null;

  // One day is asked about again and again: for its hours, and for whether it matches at all.
  let looked = { dayNumber: Number.NaN, before: 0, isMatch: false };
  const look = (dayNumber: number): typeof looked => {
    if (looked.dayNumber === dayNumber) return looked;
    const cycle = Math.floor((dayNumber - CYCLE_START) / DAYS_IN_CYCLE);
    const { year, month, day } = civilDayOf(dayNumber - cycle * DAYS_IN_CYCLE);
    const at = (KIND_OF_YEAR[year] ?? 0) * 12 + month - 1;
    const mask = masks[at] ?? 0;
    const inMonth = bitCount(mask & ((1 << (day - 1)) - 1));
    const inYear = (monthsBefore[at] ?? 0) + inMonth;
    const before = cycle * perCycle + (yearsBefore[year] ?? 0) + inYear;
    looked = { dayNumber, before, isMatch: ((mask >> (day - 1)) & 1) === 1 };
    return looked;
  };

  return {
    matchesBefore: (dayNumber) => look(dayNumber).before,
    matches: (dayNumber) => look(dayNumber).isMatch,
    matchAt(index) {
      const cycle = Math.floor(index / perCycle);
      const inCycle = index - cycle * perCycle;
      const year = lastAtMost(yearsBefore, 0, YEARS_IN_CYCLE - 1, inCycle);
      const first = (KIND_OF_YEAR[year] ?? 0) * 12;
      const inYear = inCycle - (yearsBefore[year] ?? 0);
      const at = lastAtMost(monthsBefore, first, first + 11, inYear);
      const day = nthBit(masks[at] ?? 0, inYear - (monthsBefore[at] ?? 0)) + 1;
      return dayNumberOf(year, at - first + 1, day) + cycle * DAYS_IN_CYCLE;
    },
  };
}

/** Bit `day - 1` of the answer is set for each matching day of the month. */
function maskOfMonth(year: number, month: number, fields: CronDayFields): number {
  const { days, months, weekdays } = fields;
  if (!months.values.includes(month)) return 0;
  const length = daysInMonth(year, month);
  const firstWeekday = weekdayOf(dayNumberOf(year, month, 1));
  // The classic rule: a day matches either field when both are restricted, else both.
  const either = days.restricted && weekdays.restricted;
  let mask = 0;
  for (let day = 1; day <= length; day++) {
    const weekday = (firstWeekday + day - 1) % 7;
    const onDay = days.values.includes(day) || (fields.lastDay && day === length);
    const onWeekday =
      weekdays.values.includes(weekday) ||
      (weekday === 0 && weekdays.values.includes(7)) ||
      fields.countedWeekdays.some(
        (counted) =>
          counted.weekday === weekday &&
          (counted.nth === 0 ? day + 7 > length : Math.ceil(day / 7) === counted.nth),
      );
    if (either ? onDay || onWeekday : onDay && onWeekday) mask |= 1 << (day - 1);
  }
  return mask;
}

/** The last position from `low` to `high` whose value is at most this, the values ascending. */
function lastAtMost(
  values: Int16Array | Int32Array,
  low: number,
  high: number,
  value: number,
): number {
  let from = low;
  let to = high;
  while (from < to) {
    const middle = (from + to + 1) >> 1;
    if ((values[middle] ?? 0) <= value) from = middle;
    else to = middle - 1;
  }
  return from;
}

function bitCount(mask: number): number {
  let rest = mask;
  let count = 0;
  for (; rest !== 0; count++) rest &= rest - 1;
  return count;
}

function nthBit(mask: number, index: number): number {
  let rest = mask;
  for (let skipped = 0; skipped < index; skipped++) rest &= rest - 1;
  return 31 - Math.clz32(rest & -rest);
}

/**
 * The times a cron expression names on a clock that never changes. A wall time is given as the
 * milliseconds since 1970 that it would be in UTC.
 */
export interface WallTimes {
  /** Whether the hour field names hours of the clock rather than every so many of them. */
  readonly hoursFixed: boolean;
  /** How many named times lie before the wall time. */
  before(wallMs: number): number;
  /** The named time with this many named times before it. */
  at(index: number): number;
}

/** The named times of an expression, or what is wrong with it as the end of a sentence. */
export function wallTimesOf(expression: string): WallTimes | string {
  const cron = parseCronExpression(expression, "allowed");
  if (typeof cron === "string") return cron;
  const days = dayTableOf(cron.dayFields);
  if (days === null) return `"${expression}" names no day of any year`;

  const hours = cron.hours.values;
  const minutes = cron.minutes.values;
  const seconds = cron.seconds.values;
  const perHour = minutes.length * seconds.length;
  const perDay = hours.length * perHour;

  /** How many named times of a day lie before this second of the day. */
  const beforeSecond = (secondOfDay: number): number => {
    const hour = Math.floor(secondOfDay / 3_600);
    const minute = Math.floor(secondOfDay / 60) % 60;
    const hourIndex = lowerBound(hours, hour);
    if (hours[hourIndex] !== hour) return hourIndex * perHour;
    const minuteIndex = lowerBound(minutes, minute);
    const whole = hourIndex * perHour + minuteIndex * seconds.length;
    return minutes[minuteIndex] === minute ? whole + lowerBound(seconds, secondOfDay % 60) : whole;
  };

  return {
    hoursFixed: cron.hoursFixed,
    before(wallMs) {
      const day = Math.floor(wallMs / DAY_MS);
      const whole = days.matchesBefore(day) * perDay;
      if (!days.matches(day)) return whole;
      return whole + beforeSecond(Math.ceil((wallMs - day * DAY_MS) / 1_000));
    },
    at(index) {
      const match = Math.floor(index / perDay);
      const ofDay = index - match * perDay;
      const hour = hours[Math.floor(ofDay / perHour)] ?? 0;
      const minute = minutes[Math.floor(ofDay / seconds.length) % minutes.length] ?? 0;
      const second = seconds[ofDay % seconds.length] ?? 0;
      return days.matchAt(match) * DAY_MS + ((hour * 60 + minute) * 60 + second) * 1_000;
    },
  };
}

/** How many of the ascending values are below this one. */
function lowerBound(values: readonly number[], value: number): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((values[middle] ?? 0) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * The instants at which a cron expression fires in a time zone, as epoch milliseconds.
 *
 * An hour field of numbers, lists and ranges names times of the clock: each fires once, a time that
 * the clock jumps over at the jump, a time that comes twice when it first comes; times that end up
 * at the same instant are one firing. An hour field with a wildcard or a step fires whenever the
 * local clock shows a matching time: never for times it skips, twice for those it repeats.
 */
export interface CronTimes {
  /** The first firing after the instant; null when there is none before the year 10000. */
  nextAfter(epochMs: number): number | null;
  /** The last firing at or before the instant; null when there is none since the year 1. */
  lastUpTo(epochMs: number): number | null;
  /** How many firings lie after the first and up to the second instant, counted by arithmetic. */
  countBetween(afterMs: number, throughMs: number): number;
  /** The newest firings after the first and up to the second instant, ascending. */
  newestBetween(afterMs: number, throughMs: number, limit: number): number[];
}

/** The same without bounds: instants beyond those of the interface never come in. */
type Firings = Pick<CronTimes, "countBetween"> & {
  nextAfter(epochMs: number): number;
  lastUpTo(epochMs: number): number;
};

const FIRST_MS = dayNumberOf(1, 1, 1) * DAY_MS;
const LAST_MS = dayNumberOf(10_000, 1, 1) * DAY_MS - 1;

const known = new Map<string, CronTimes>();
/** Each takes a few hundred bytes beside the tables it shares. */
const KNOWN_MAX = 20_000;

/** The firings of an expression, which are kept, or the end of a sentence that says what is wrong. */
export function cronTimes(expression: string, timeZone: string): CronTimes | string {
  const key = `${timeZone}\n${expression}`;
  const found = known.get(key);
  if (found !== undefined) return found;

  const walls = wallTimesOf(expression);
  if (typeof walls === "string") return walls;
  if (!isTimeZone(timeZone)) {
    return `${JSON.stringify(timeZone)} must be an IANA time zone such as Europe/Berlin`;
  }
  const clock = zoneClockOf(timeZone);
  const made = bounded(walls.hoursFixed ? fixedHours(walls, clock) : steppedHours(walls, clock));
  // The oldest goes, not all of them, so that one schedule too many does not cost all the others.
  const oldest = known.size >= KNOWN_MAX ? known.keys().next().value : undefined;
  if (oldest !== undefined) known.delete(oldest);
  known.set(key, made);
  return made;
}

function bounded(firings: Firings): CronTimes {
  const lastUpTo = (epochMs: number): number | null => {
    if (epochMs < FIRST_MS) return null;
    const atMs = firings.lastUpTo(Math.min(epochMs, LAST_MS));
    return atMs < FIRST_MS ? null : atMs;
  };
  return {
    lastUpTo,
    nextAfter(epochMs) {
      if (epochMs >= LAST_MS) return null;
      const atMs = firings.nextAfter(Math.max(epochMs, FIRST_MS - 1));
      return atMs > LAST_MS ? null : atMs;
    },
    countBetween(afterMs, throughMs) {
      const after = Math.max(afterMs, FIRST_MS - 1);
      const through = Math.min(throughMs, LAST_MS);
      return after < through ? firings.countBetween(after, through) : 0;
    },
    newestBetween(afterMs, throughMs, limit) {
      const newest: number[] = [];
      let atMs = lastUpTo(throughMs);
      while (atMs !== null && atMs > afterMs && newest.length < limit) {
        newest.push(atMs);
        atMs = lastUpTo(atMs - 1);
      }
      return newest.toReversed();
    },
  };
}

/** Every named time begins when the clock first shows it or a later one. */
function fixedHours(walls: WallTimes, clock: ZoneClock): Firings {
  /** How many named times have begun by the instant. */
  const begunBy = (epochMs: number): number => {
    const stretch = clock.stretchAt(epochMs);
    return walls.before(Math.max(epochMs + stretch.offsetMs + 1, reachedBefore(clock, stretch)));
  };
  /** How many named times begin at the start of the stretch beyond the one that counts. */
  const mergedAtStartOf = (stretch: OffsetStretch): number => {
    const beforeMs = reachedBefore(clock, stretch);
    const named = walls.before(stretch.fromMs + stretch.offsetMs + 1) - walls.before(beforeMs);
    return Math.max(0, named - 1);
  };
  return {
    nextAfter: (epochMs) => clock.startMsOf(walls.at(begunBy(epochMs))),
    lastUpTo: (epochMs) => clock.startMsOf(walls.at(begunBy(epochMs) - 1)),
    countBetween(afterMs, throughMs) {
      let count = begunBy(throughMs) - begunBy(afterMs);
      let stretch = clock.stretchAt(afterMs);
      while (stretch.untilMs <= throughMs) {
        stretch = clock.stretchAt(stretch.untilMs);
        count -= mergedAtStartOf(stretch);
      }
      return count;
    },
  };
}

/** Within a stretch of one offset, wall times and instants correspond one to one. */
function steppedHours(walls: WallTimes, clock: ZoneClock): Firings {
  return {
    nextAfter(epochMs) {
      let stretch = clock.stretchAt(epochMs + 1);
      let fromMs = epochMs + 1;
      for (;;) {
        const atMs = walls.at(walls.before(fromMs + stretch.offsetMs)) - stretch.offsetMs;
        // The last stretch has no end, so this is reached.
        if (atMs < stretch.untilMs || stretch.untilMs > LAST_MS) return atMs;
        fromMs = stretch.untilMs;
        stretch = clock.stretchAt(fromMs);
      }
    },
    lastUpTo(epochMs) {
      let stretch = clock.stretchAt(epochMs);
      let upToMs = epochMs;
      for (;;) {
        const atMs = walls.at(walls.before(upToMs + stretch.offsetMs + 1) - 1) - stretch.offsetMs;
        if (atMs >= stretch.fromMs) return atMs;
        upToMs = stretch.fromMs - 1;
        stretch = clock.stretchAt(upToMs);
      }
    },
    countBetween(afterMs, throughMs) {
      let count = 0;
      let fromMs = afterMs + 1;
      for (;;) {
        const { untilMs, offsetMs } = clock.stretchAt(fromMs);
        const endMs = Math.min(untilMs, throughMs + 1);
        count += walls.before(endMs + offsetMs) - walls.before(fromMs + offsetMs);
        if (endMs > throughMs) return count;
        fromMs = endMs;
      }
    },
  };
}

/**
 * The wall time that the local clock had come up to before the stretch began: everything earlier
 * was shown or jumped over. Above the stretch's first wall time when the clock was set back, below
 * it when the clock was set forward.
 */
export function reachedBefore(clock: ZoneClock, stretch: OffsetStretch): number {
  let reached = Number.NEGATIVE_INFINITY;
  // Usually only the stretch before counts; where changes follow closely, one before it may have
  // shown later times, though none that ended longer ago than two offsets can differ.
  let fromMs = stretch.fromMs;
  while (fromMs > stretch.fromMs - 2 * OFFSET_MAX_MS) {
    const earlier = clock.stretchAt(fromMs - 1);
    reached = Math.max(reached, earlier.untilMs + earlier.offsetMs);
    fromMs = earlier.fromMs;
  }
  return reached;
}

/** Whether the local clock shows the same wall time at another instant too. */
export function comesTwice(clock: ZoneClock, epochMs: number): boolean {
  const own = clock.stretchAt(epochMs);
  const wallMs = epochMs + own.offsetMs;
  let stretch = clock.stretchAt(wallMs - OFFSET_MAX_MS);
  for (;;) {
    const atMs = wallMs - stretch.offsetMs;
    if (stretch !== own && atMs >= stretch.fromMs && atMs < stretch.untilMs) return true;
    if (stretch.untilMs > wallMs + OFFSET_MAX_MS) return false;
    stretch = clock.stretchAt(stretch.untilMs);
  }
}

/** A firing to come, as a person reads it. */
export type PreviewTime = {
  /** The instant in epoch milliseconds. */
  at: number;
  /** What the local clock shows then, such as `2026-03-29T03:00:00`. */
  wall: string;
  /** How far the local clock is ahead of UTC then, such as `+02:00`. */
  offset: string;
  /**
   * `gap` when the time was due while the clock jumped, so that it fires at the first instant
   * after; `overlap` when the local clock shows this time twice.
   */
  change: "gap" | "overlap" | null;
};

/** The next firings after the instant, or the end of a sentence that says what is wrong. */
export function previewTimes(
  expression: string,
  timeZone: string,
  afterMs: number,
  count: number,
): PreviewTime[] | string {
  const times = cronTimes(expression, timeZone);
  if (typeof times === "string") return times;
  const walls = wallTimesOf(expression);
  if (typeof walls === "string") return walls;

  const clock = zoneClockOf(timeZone);
  const preview: PreviewTime[] = [];
  let at = times.nextAfter(afterMs);
  while (at !== null && preview.length < count) {
    const offsetMs = clock.offsetMsAt(at);
    const change = changeAt(walls, clock, at);
    preview.push({ at, wall: wallText(at + offsetMs), offset: offsetText(offsetMs), change });
    at = times.nextAfter(at);
  }
  return preview;
}

function changeAt(walls: WallTimes, clock: ZoneClock, epochMs: number): PreviewTime["change"] {
  const stretch = clock.stretchAt(epochMs);
  if (walls.hoursFixed && epochMs === stretch.fromMs) {
    const skipped =
      walls.before(epochMs + stretch.offsetMs) - walls.before(reachedBefore(clock, stretch));
    if (skipped > 0) return "gap";
  }
  return comesTwice(clock, epochMs) ? "overlap" : null;
}

function wallText(wallMs: number): string {
  const day = Math.floor(wallMs / DAY_MS);
  return `${dayText(day)}T${clockText((wallMs - day * DAY_MS) / 1_000)}`;
}

function clockText(seconds: number): string {
  const hour = Math.floor(seconds / 3_600);
  const minute = Math.floor(seconds / 60) % 60;
  return `${twoDigits(hour)}:${twoDigits(minute)}:${twoDigits(seconds % 60)}`;
}

/** Offsets of more than a century ago have seconds, which are then shown too. */
function offsetText(offsetMs: number): string {
  const text = clockText(Math.abs(offsetMs) / 1_000);
  return (offsetMs < 0 ? "-" : "+") + (text.endsWith(":00") ? text.slice(0, 5) : text);
}
