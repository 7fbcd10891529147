import type { z } from "zod";
import {
  civilDayOf,
  DAY_MS,
  dayNumberOf,
  dayNumberOfText,
  dayText,
  twoDigits,
} from "./civil-day.ts";
import { keyFormatOf } from "./key-format.ts";
import type { HourlyDefinition } from "./partition-definition.ts";
import type { TimeGrid } from "./time-grid.ts";
import type { ZoneClock } from "./time-zone.ts";

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
