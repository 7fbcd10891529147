import { DAY_MS, dayText, twoDigits } from "../keyspace/civil-day.ts";
import { type ZoneClock, zoneClockOf } from "../keyspace/time-zone.ts";
import { comesTwice, reachedBefore } from "./clock-changes.ts";
import { cronTimes, type WallTimes, wallTimesOf } from "./times.ts";

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
