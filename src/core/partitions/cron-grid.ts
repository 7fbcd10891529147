import { assert } from "../assert.ts";
import { DAY_MS, dayNumberOfText, dayText, twoDigits } from "./civil-day.ts";
import { type CronDays, cronDays } from "./cron-days.ts";
import type { TimeGrid } from "./time-grid.ts";
import { lastStarted, type ZoneClock } from "./time-zone.ts";

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
