import { DAY_MS } from "../partitions/civil-day.ts";
import { parseCronExpression } from "./cron-expression.ts";
import { dayTableOf } from "./day-table.ts";

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
