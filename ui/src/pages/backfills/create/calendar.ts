import {
  civilDayOf,
  DAY_MS,
  dayNumberOf,
  dayText,
  twoDigits,
  type ZoneClock,
  zoneClockOf,
} from "../../../../../src/kernel/keyspace/civil-time.ts";
import type { TimeDefinition } from "../../../../../src/kernel/keyspace/definition.ts";
import { type TimeGrid, timeGridOf } from "../../../../../src/kernel/keyspace/time-grid.ts";

/** A stretch of partitions that is wanted often. */
export type QuickPick = { text: string; start: string; end: string };

/** Partitions by time as a browser's inputs for dates show them. */
export type Calendar = {
  inputType: "date" | "month" | "datetime-local";
  /** The first and the last partition, as the input writes them. */
  min: string;
  max: string;
  /** What the input shows for a key; empty for what is no key. */
  valueOf(key: string): string;
  /** The key of the partition that what the input shows lies in, whether it exists or not. */
  keyOf(value: string): string;
  picks: readonly QuickPick[];
  /** Where the partitions end in the past, from where the picks are counted back; else null. */
  endedAt: string | null;
};

/** The calendar of a definition that has `total` partitions now; null when it has none. */
export function calendarOf(
  definition: TimeDefinition,
  total: number,
  nowMs: number,
): Calendar | null {
  if (total === 0) return null;
  const grid = timeGridOf(definition);
  const clock = zoneClockOf(definition.time_zone);
  const inputType = inputTypeOf(definition);
  const length = inputType === "date" ? 10 : inputType === "month" ? 7 : 16;
  const show = (ms: number): string => wallText(clock, ms).slice(0, length);
  const valueOf = (key: string): string => {
    const ordinal = key === "" ? null : grid.indexOf(key);
    return ordinal === null ? "" : show(grid.startMsAt(ordinal));
  };
  const endMs = grid.startMsAt(total);
  const hasEnded = definition.end !== undefined && endMs <= nowMs;
  return {
    inputType,
    min: show(grid.startMsAt(0)),
    max: show(grid.startMsAt(total - 1)),
    valueOf,
    keyOf: (value) => {
      const wallMs = wallMsOf(value);
      return wallMs === null ? "" : grid.keyAt(grid.ordinalAt(clock.startMsOf(wallMs)));
    },
    picks: picksOf(definition, { grid, clock, total, untilMs: hasEnded ? endMs : nowMs }),
    endedAt: hasEnded ? show(endMs) : null,
  };
}

function inputTypeOf({ type }: TimeDefinition): Calendar["inputType"] {
  if (type === "monthly") return "month";
  return type === "daily" || type === "weekly" ? "date" : "datetime-local";
}

/** The wall clock's time as `2026-01-31T05:00`. */
function wallText(clock: ZoneClock, epochMs: number): string {
  const minutes = Math.floor((epochMs + clock.offsetMsAt(epochMs)) / 60_000);
  const day = Math.floor(minutes / 1_440);
  const ofDay = minutes - day * 1_440;
  return `${dayText(day)}T${twoDigits(Math.floor(ofDay / 60))}:${twoDigits(ofDay % 60)}`;
}

/** What an input shows, as if it were UTC; null while it is incomplete. */
function wallMsOf(value: string): number | null {
  const match = /^(\d{4})-(\d\d)(?:-(\d\d)(?:T(\d\d):(\d\d))?)?/.exec(value);
  if (match === null) return null;
  const [year = 0, month = 0, day = 1, hour = 0, minute = 0] = match
    .slice(1)
    .map((part) => (part === undefined ? undefined : Number(part)));
  if (year === 0 || month < 1 || month > 12) return null;
  return dayNumberOf(year, month, day) * DAY_MS + (hour * 60 + minute) * 60_000;
}

type Axis = { grid: TimeGrid; clock: ZoneClock; total: number; untilMs: number };

function picksOf(definition: TimeDefinition, axis: Axis): QuickPick[] {
  const everything = pickOf(axis, "Everything", 0, axis.total - 1);
  return [...recentPicks(definition, axis), everything].filter((pick) => pick !== null);
}

function recentPicks({ type }: TimeDefinition, axis: Axis): (QuickPick | null)[] {
  const last = (text: string, count: number) => lastOnes(axis, text, count);
  const lastMonth = monthsBefore(axis, "Last month", 1);
  switch (type) {
    case "hourly":
      return [last("Last 24 hours", 24), last("Last 7 days", 168), lastMonth];
    case "daily":
      return [last("Last 7 days", 7), last("Last 30 days", 30), thisMonth(axis), lastMonth];
    case "weekly":
      return [last("Last 4 weeks", 4), last("Last 12 weeks", 12), lastMonth];
    case "monthly":
      return [lastMonth, last("Last 3 months", 3), last("Last 12 months", 12)];
    case "cron":
      return [between(axis, "Last 7 days", axis.untilMs - 7 * DAY_MS, axis.untilMs), lastMonth];
  }
}

/** The last ones that are over. */
function lastOnes(axis: Axis, text: string, count: number): QuickPick | null {
  const last = lastComplete(axis);
  return pickOf(axis, text, Math.max(0, last - count + 1), last);
}

function lastComplete({ grid, total, untilMs }: Axis): number {
  return Math.min(total, grid.ordinalAt(untilMs)) - 1;
}

function thisMonth(axis: Axis): QuickPick | null {
  return between(axis, "This month", monthStartMs(axis, 0), axis.untilMs);
}

/** The calendar months before the one that the time lies in. */
function monthsBefore(axis: Axis, text: string, months: number): QuickPick | null {
  return between(axis, text, monthStartMs(axis, months), monthStartMs(axis, 0));
}

/** When the month so many months before the time's own began on the wall clock. */
function monthStartMs({ clock, untilMs }: Axis, monthsBack: number): number {
  const day = civilDayOf(Math.floor((untilMs + clock.offsetMsAt(untilMs)) / DAY_MS));
  const month = day.year * 12 + day.month - 1 - monthsBack;
  const year = Math.floor(month / 12);
  return clock.startMsOf(dayNumberOf(year, month - year * 12 + 1, 1) * DAY_MS);
}

/** The partitions that begin in a stretch of time and are over. */
function between(axis: Axis, text: string, fromMs: number, untilMs: number): QuickPick | null {
  const { grid } = axis;
  const at = grid.ordinalAt(fromMs);
  const first = grid.startMsAt(at) < fromMs ? at + 1 : at;
  const last = Math.min(grid.ordinalAt(untilMs - 1), lastComplete(axis));
  return pickOf(axis, text, Math.max(0, first), last);
}

function pickOf({ grid }: Axis, text: string, first: number, last: number): QuickPick | null {
  return first > last ? null : { text, start: grid.keyAt(first), end: grid.keyAt(last) };
}
