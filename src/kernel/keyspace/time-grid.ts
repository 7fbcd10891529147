import type { z } from "zod";
import { parseCronExpression } from "../cron/expression.ts";
import { type DayTable, dayTableOf } from "../cron/times.ts";
import { assert, unreachable } from "../errors.ts";
import {
  civilDayOf,
  DAY_MS,
  dayNumberOf,
  dayNumberOfText,
  daysInMonth,
  dayText,
  fourDigits,
  lastStarted,
  twoDigits,
  WEEKDAYS,
  weekdayOf,
  type ZoneClock,
  zoneClockOf,
} from "./civil-time.ts";
import type { HourlyDefinition, TimeDefinition } from "./definition.ts";
import type { TimeAxis } from "./keyspace.ts";

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

/** Which days and which minutes of a day a cron expression names, counted without walking. */
export interface CronDays extends DayTable {
  /** The minutes of a day, ascending; the same on every day that matches. */
  readonly minutesOfDay: readonly number[];
}

const parsed = new Map<string, CronDays>();
const PARSED_MAX = 1_000;

/** The days of a five-field cron expression, or what is wrong with it as the end of a sentence. */
export function cronDays(expression: string): CronDays | string {
  const known = parsed.get(expression);
  if (known !== undefined) return known;
  const made = makeDays(expression);
  if (typeof made === "string") return made;
  if (parsed.size >= PARSED_MAX) parsed.clear();
  parsed.set(expression, made);
  return made;
}

function makeDays(expression: string): CronDays | string {
  const cron = parseCronExpression(expression, "refused");
  if (typeof cron === "string") return cron;
  const days = dayTableOf(cron.dayFields);
  if (days === null) return `"${expression}" names no day of any year`;
  const minutesOfDay = cron.hours.values.flatMap((hour) =>
    cron.minutes.values.map((minute) => hour * 60 + minute),
  );
  return { ...days, minutesOfDay };
}

/** Wall-clock times: the days that match, each with the same times of day. */
export function cronGrid(expression: string, start: string, clock: ZoneClock): TimeGrid {
  const days = cronDays(expression);
  assert(typeof days !== "string", `${expression} was checked when it was defined`);
  const perDay = days.minutesOfDay.length;
  const texts = days.minutesOfDay.map(timeText);
  const indexes = new Map(texts.map((text, index) => [text, index]));
  const wall = wallOf(start);
  const first = timesBefore(days, wall.day, wall.minute);

  const startMsAt = (ordinal: number): number => {
    const match = Math.floor((first + ordinal) / perDay);
    const minute = days.minutesOfDay[first + ordinal - match * perDay] ?? 0;
    return clock.startMsOf(days.matchAt(match) * DAY_MS + minute * 60_000);
  };

  return {
    startMsAt,
    keyAt(ordinal) {
      const match = Math.floor((first + ordinal) / perDay);
      return dayText(days.matchAt(match)) + (texts[first + ordinal - match * perDay] ?? "");
    },
    slice(offset, limit) {
      const keys: string[] = [];
      let match = Math.floor((first + offset) / perDay);
      let time = first + offset - match * perDay;
      let day = dayText(days.matchAt(match));
      for (let at = 0; at < limit; at++, time++) {
        if (time === perDay) {
          time = 0;
          match++;
          day = dayText(days.matchAt(match));
        }
        keys.push(day + (texts[time] ?? ""));
      }
      return keys;
    },
    indexOf(key) {
      const time = indexes.get(key.slice(10));
      if (time === undefined || !/^\d{4}-\d{2}-\d{2}T/.test(key)) return null;
      const day = dayNumberOfText(key);
      if (dayText(day) !== key.slice(0, 10) || !days.matches(day)) return null;
      return days.matchesBefore(day) * perDay + time - first;
    },
    ordinalAt(epochMs) {
      const wallMs = epochMs + clock.offsetMsAt(epochMs);
      const day = Math.floor(wallMs / DAY_MS);
      const minute = Math.floor((wallMs - day * DAY_MS) / 60_000);
      return lastStarted(startMsAt, epochMs, timesBefore(days, day, minute + 1) - 1 - first);
    },
    msOf(text) {
      const { day, minute } = wallOf(text);
      return clock.startMsOf(day * DAY_MS + minute * 60_000);
    },
  };
}

/** How many wall-clock times lie before this one, counted from where `matchesBefore` counts. */
function timesBefore(days: CronDays, day: number, minute: number): number {
  const { minutesOfDay } = days;
  const whole = days.matchesBefore(day) * minutesOfDay.length;
  if (!days.matches(day)) return whole;
  const earlier = minutesOfDay.findIndex((each) => each >= minute);
  return whole + (earlier === -1 ? minutesOfDay.length : earlier);
}

/** The day and the minute of the day in `YYYY-MM-DD` or `YYYY-MM-DDTHH:mm`. */
function wallOf(text: string): { day: number; minute: number } {
  const hours = text.length > 10 ? Number(text.slice(11, 13)) : 0;
  const minutes = text.length > 10 ? Number(text.slice(14, 16)) : 0;
  return { day: dayNumberOfText(text), minute: hours * 60 + minutes };
}

function timeText(minuteOfDay: number): string {
  return `T${twoDigits(Math.floor(minuteOfDay / 60))}:${twoDigits(minuteOfDay % 60)}`;
}

/** A local minute as numbers; months and days count from 1. */
export type CivilMinute = {
  year: number;
  month: number;
  day: number;
  hour: number;
  minute: number;
};

/** Writes local times as keys and reads them back. */
export interface KeyFormat {
  print(time: CivilMinute): string;
  /** The numbers in the text, or null when it has another shape; absent parts count as first. */
  parse(text: string): CivilMinute | null;
}

const TOKEN_FIELDS = {
  YYYY: "year",
  MM: "month",
  DD: "day",
  HH: "hour",
  mm: "minute",
} as const satisfies Record<string, keyof CivilMinute>;

type Token = keyof typeof TOKEN_FIELDS;

const TOKENS = /YYYY|MM|DD|HH|mm/g;

/**
 * Why keys in this format could not be read back, as the end of a sentence, or null. Parts have a
 * fixed width, so a format can be inverted when each needed part stands in it exactly once.
 */
export function keyFormatFault(format: string, needed: readonly string[]): string | null {
  const found: string[] = format.match(TOKENS) ?? [];
  const missing = needed.filter((token) => !found.includes(token));
  if (missing.length > 0) return `"${format}" must contain ${missing.join(" and ")}`;
  const surplus = found.find((token, at) => !needed.includes(token) || found.indexOf(token) !== at);
  if (surplus !== undefined) {
    return `"${format}" must contain ${needed.join(", ")} once each and not ${surplus} as well`;
  }
  if (/[\p{Cc}\p{Surrogate}]/u.test(format)) return "must not contain control characters";
  return null;
}

/**
 * The format that `format` spells with YYYY, MM, DD, HH and mm; everything else stands as it is.
 */
export function keyFormatOf(format: string): KeyFormat {
  const literals = format.split(TOKENS);
  const fields = ((format.match(TOKENS) ?? []) as Token[]).map((token) => TOKEN_FIELDS[token]);

  return {
    print(time) {
      let text = literals[0] ?? "";
      for (let at = 0; at < fields.length; at++) {
        const field = fields[at] ?? "year";
        text += field === "year" ? fourDigits(time.year) : twoDigits(time[field]);
        text += literals[at + 1] ?? "";
      }
      return text;
    },
    parse(text) {
      const time: CivilMinute = { year: 0, month: 1, day: 1, hour: 0, minute: 0 };
      const first = literals[0] ?? "";
      if (!text.startsWith(first)) return null;
      let position = first.length;
      for (let at = 0; at < fields.length; at++) {
        const field = fields[at] ?? "year";
        const width = field === "year" ? 4 : 2;
        const value = digitsAt(text, position, width);
        const literal = literals[at + 1] ?? "";
        if (value === null || !text.startsWith(literal, position + width)) return null;
        time[field] = value;
        position += width + literal.length;
      }
      return position === text.length ? time : null;
    },
  };
}

function digitsAt(text: string, position: number, width: number): number | null {
  if (position + width > text.length) return null;
  let value = 0;
  for (let at = position; at < position + width; at++) {
    const digit = text.charCodeAt(at) - 48;
    if (digit < 0 || digit > 9) return null;
    value = value * 10 + digit;
  }
  return value;
}

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;

/**
 * Hours as instants, each 3,600 seconds long. The key is the local minute with its offset from UTC,
 * so the hour that a clock change repeats has two keys and the one it skips has none.
 */
export function hourGrid(definition: z.infer<typeof HourlyDefinition>, clock: ZoneClock): TimeGrid {
  const utc = definition.time_zone === "UTC";
  const own = definition.format === undefined ? null : keyFormatOf(definition.format);

  /** Offsets of more than a century ago have seconds; keys round them to the minute. */
  const offsetMinutesAt = (epochMs: number): number =>
    utc ? 0 : Math.round(clock.offsetMsAt(epochMs) / MINUTE_MS);

  const msOf = (text: string): number => {
    const zone = text.slice(16);
    const minute = text.length > 10 ? clockMinutes(text.slice(11, 16)) : 0;
    const wallMs = dayNumberOfText(text) * DAY_MS + minute * MINUTE_MS;
    return zone === "" ? clock.startMsOf(wallMs) : wallMs - offsetMinutesOf(zone) * MINUTE_MS;
  };
  const firstMs = msOf(definition.start);

  const keyAt = (ordinal: number): string => {
    const epochMs = firstMs + ordinal * HOUR_MS;
    const offset = offsetMinutesAt(epochMs);
    const wallMinute = Math.floor(epochMs / MINUTE_MS) + offset;
    const day = Math.floor(wallMinute / 1_440);
    const ofDay = wallMinute - day * 1_440;
    const hour = Math.floor(ofDay / 60);
    if (own !== null) return own.print({ ...civilDayOf(day), hour, minute: ofDay % 60 });
    const zone = utc ? "Z" : offsetText(offset);
    return `${dayText(day)}T${twoDigits(hour)}:${twoDigits(ofDay % 60)}${zone}`;
  };

  function indexOf(key: string): number | null {
    let epochMs: number;
    if (own !== null) {
      const time = own.parse(key);
      if (time === null) return null;
      const day = dayNumberOf(time.year, time.month, time.day);
      epochMs = day * DAY_MS + (time.hour * 60 + time.minute) * MINUTE_MS;
    } else {
      if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d(Z|[+-]\d\d:\d\d)$/.test(key)) return null;
      epochMs = msOf(key);
    }
    const ordinal = Math.round((epochMs - firstMs) / HOUR_MS);
    // Only the exact form is a key: 24:00, another offset or a day that is not real is none.
    return keyAt(ordinal) === key ? ordinal : null;
  }

  return {
    keyAt,
    indexOf,
    msOf,
    startMsAt: (ordinal) => firstMs + ordinal * HOUR_MS,
    ordinalAt: (epochMs) => Math.floor((epochMs - firstMs) / HOUR_MS),
    slice(offset, limit) {
      const keys: string[] = [];
      for (let at = 0; at < limit; at++) keys.push(keyAt(offset + at));
      return keys;
    },
  };
}

function clockMinutes(text: string): number {
  return Number(text.slice(0, 2)) * 60 + Number(text.slice(3, 5));
}

function offsetMinutesOf(zone: string): number {
  if (zone === "Z") return 0;
  return (zone.startsWith("-") ? -1 : 1) * clockMinutes(zone.slice(1));
}

function offsetText(minutes: number): string {
  const size = Math.abs(minutes);
  return `${minutes < 0 ? "-" : "+"}${twoDigits(Math.floor(size / 60))}:${twoDigits(size % 60)}`;
}
