import {
  civilDayOf,
  DAYS_IN_CYCLE,
  dayNumberOf,
  daysInMonth,
  weekdayOf,
} from "../partitions/civil-day.ts";
import type { CronDayFields } from "./cron-day-fields.ts";

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

  return {
    matchesBefore(dayNumber) {
      const cycle = Math.floor((dayNumber - CYCLE_START) / DAYS_IN_CYCLE);
      const { year, month, day } = civilDayOf(dayNumber - cycle * DAYS_IN_CYCLE);
      const at = (KIND_OF_YEAR[year] ?? 0) * 12 + month - 1;
      const earlier = (masks[at] ?? 0) & ((1 << (day - 1)) - 1);
      return (
        cycle * perCycle + (yearsBefore[year] ?? 0) + (monthsBefore[at] ?? 0) + bitCount(earlier)
      );
    },
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
    matches(dayNumber) {
      const cycle = Math.floor((dayNumber - CYCLE_START) / DAYS_IN_CYCLE);
      const { year, month, day } = civilDayOf(dayNumber - cycle * DAYS_IN_CYCLE);
      const mask = masks[(KIND_OF_YEAR[year] ?? 0) * 12 + month - 1] ?? 0;
      return ((mask >> (day - 1)) & 1) === 1;
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
