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
