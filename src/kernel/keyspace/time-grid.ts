import { unreachable } from "../assert.ts";
import {
  civilDayOf,
  DAY_MS,
  dayNumberOf,
  dayNumberOfText,
  daysInMonth,
  dayText,
  fourDigits,
  twoDigits,
  weekdayOf,
  WEEKDAYS,
} from "./civil-day.ts";
import { cronGrid, hourGrid, keyFormatOf } from "./grids.ts";
import type { TimeAxis } from "./keyspace.ts";
import type { TimeDefinition } from "./definition.ts";
import { lastStarted, type ZoneClock, zoneClockOf } from "./time-zone.ts";

/** The partitions of a definition by time as if they had no end; ordinal 0 is the first. */
export interface TimeGrid extends TimeAxis {
  keyAt(ordinal: number): string;
  slice(offset: number, limit: number): string[];
  /** The ordinal, perhaps outside the definition's bounds, of a key in the exact form; or null. */
  indexOf(key: string): number | null;
  /** The first millisecond that the text of a definition's `start` or `end` names. */
  msOf(text: string): number;
}

/** The grid of a definition by time. */
export function timeGridOf(definition: TimeDefinition): TimeGrid {
  const clock = zoneClockOf(definition.time_zone);
  switch (definition.type) {
    case "hourly":
      return hourGrid(definition, clock);
    case "daily":
      return dayGrid(dayNumberOfText(definition.start), 1, definition.format, clock);
    case "weekly": {
      const start = dayNumberOfText(definition.start);
      const wanted = WEEKDAYS.indexOf(definition.starts_on);
      return dayGrid(start + ((wanted - weekdayOf(start) + 7) % 7), 7, definition.format, clock);
    }
    case "monthly":
      return monthGrid(definition.start, definition.format, clock);
    case "cron":
      return cronGrid(definition.expression, definition.start, clock);
    default:
      return unreachable(definition);
  }
}

function localDayNumber(clock: ZoneClock, epochMs: number): number {
  return Math.floor((epochMs + clock.offsetMsAt(epochMs)) / DAY_MS);
}

/** Days, or stretches of `step` days. */
function dayGrid(
  first: number,
  step: number,
  format: string | undefined,
  clock: ZoneClock,
): TimeGrid {
  const own = format === undefined ? null : keyFormatOf(format);
  const keyOfDay =
    own === null ? dayText : (day: number) => own.print({ ...civilDayOf(day), hour: 0, minute: 0 });
  const plain = keyFormatOf("YYYY-MM-DD");
  const startMsAt = (ordinal: number): number => clock.startMsOf((first + ordinal * step) * DAY_MS);

  return {
    startMsAt,
    keyAt: (ordinal) => keyOfDay(first + ordinal * step),
    slice(offset, limit) {
      if (own === null && step === 1) return dayTexts(first + offset, limit);
      const keys: string[] = [];
      for (let at = 0; at < limit; at++) keys.push(keyOfDay(first + (offset + at) * step));
      return keys;
    },
    indexOf(key) {
      const time = (own ?? plain).parse(key);
      if (time === null || time.month < 1 || time.month > 12) return null;
      if (time.day < 1 || time.day > daysInMonth(time.year, time.month)) return null;
      const days = dayNumberOf(time.year, time.month, time.day) - first;
      return days % step === 0 ? days / step : null;
    },
    ordinalAt(epochMs) {
      const started = Math.floor((localDayNumber(clock, epochMs) - first) / step);
      return lastStarted(startMsAt, epochMs, started);
    },
    msOf: (text) => clock.startMsOf(dayNumberOfText(text) * DAY_MS),
  };
}

/** Consecutive days as `YYYY-MM-DD`; the calendar is worked out once a month. */
function dayTexts(firstDay: number, limit: number): string[] {
  const keys: string[] = [];
  let at = 0;
  while (at < limit) {
    const { year, month, day } = civilDayOf(firstDay + at);
    const prefix = `${fourDigits(year)}-${twoDigits(month)}-`;
    const last = daysInMonth(year, month);
    for (let next = day; next <= last && at < limit; next++, at++) {
      keys.push(prefix + twoDigits(next));
    }
  }
  return keys;
}

function monthGrid(start: string, format: string | undefined, clock: ZoneClock): TimeGrid {
  const own = keyFormatOf(format ?? "YYYY-MM");
  // Months are numbered from the year 0, so that arithmetic on them is plain.
  const month = Number(start.slice(0, 4)) * 12 + Number(start.slice(5, 7)) - 1;
  const first = start.length === 10 && !start.endsWith("-01") ? month + 1 : month;
  const keyAt = (ordinal: number): string => {
    const at = first + ordinal;
    const year = Math.floor(at / 12);
    return own.print({ year, month: at - year * 12 + 1, day: 1, hour: 0, minute: 0 });
  };
  const startMsAt = (ordinal: number): number => {
    const at = first + ordinal;
    const year = Math.floor(at / 12);
    return clock.startMsOf(dayNumberOf(year, at - year * 12 + 1, 1) * DAY_MS);
  };

  return {
    startMsAt,
    keyAt,
    slice: (offset, limit) => Array.from({ length: limit }, (_, at) => keyAt(offset + at)),
    indexOf(key) {
      const time = own.parse(key);
      if (time === null || time.month < 1 || time.month > 12) return null;
      return time.year * 12 + time.month - 1 - first;
    },
    ordinalAt(epochMs) {
      const day = civilDayOf(localDayNumber(clock, epochMs));
      return lastStarted(startMsAt, epochMs, day.year * 12 + day.month - 1 - first);
    },
    msOf(text) {
      const day = text.length === 7 ? `${text}-01` : text;
      return clock.startMsOf(dayNumberOfText(day) * DAY_MS);
    },
  };
}
