/**
 * The declared rule for clock changes, told a second time by walking: it asks `Intl` what the local
 * clock shows at each instant and shares no code with what it judges.
 */

/** A cron expression together with what it means, as plain as can be. */
export type PlainCron = {
  text: string;
  seconds: ReadonlySet<number>;
  minutes: ReadonlySet<number>;
  hours: ReadonlySet<number>;
  /** Whether the hours are times of the clock: no wildcard, no step. */
  hoursFixed: boolean;
  onDay: (date: PlainDay) => boolean;
};

export type PlainDay = {
  day: number;
  month: number;
  /** Sunday is 0. */
  weekday: number;
  /** How many days the month has. */
  length: number;
};

/** What the local clock shows, tick by tick: a tick is a minute or a second since 1970. */
export type Walk = { tickMs: number; firstTick: number; wallTicks: Int32Array };

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

const formats = new Map<string, Intl.DateTimeFormat>();

/** The local clock of the zone as the milliseconds since 1970 that it would be in UTC. */
export function wallMsAt(zone: string, epochMs: number): number {
  let format = formats.get(zone);
  if (format === undefined) {
    format = new Intl.DateTimeFormat("en-US", {
      timeZone: zone,
      hourCycle: "h23",
      year: "numeric",
      month: "2-digit",
      day: "2-digit",
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
    });
    formats.set(zone, format);
  }
  const text = format.format(epochMs);
  const at = (from: number, to: number): number => Number(text.slice(from, to));
  return Date.UTC(at(6, 10), at(0, 2) - 1, at(3, 5), at(12, 14), at(15, 17), at(18, 20));
}

/** From 2024 to 2030, looking each week finds the same changes as looking each day. */
const LOOK_MS = 7 * DAY_MS;

const offsetMsAt = (zone: string, epochMs: number): number => wallMsAt(zone, epochMs) - epochMs;

/** Every instant between the two at which the local clock is changed, found by looking each week. */
export function clockChanges(zone: string, fromMs: number, untilMs: number): number[] {
  const changes: number[] = [];
  let before = offsetMsAt(zone, fromMs);
  for (let startMs = fromMs; startMs < untilMs; startMs += LOOK_MS) {
    const endMs = Math.min(startMs + LOOK_MS, untilMs);
    const after = offsetMsAt(zone, endMs);
    if (after === before) continue;
    let low = startMs;
    let high = endMs;
    while (high - low > MINUTE_MS) {
      const middle = low + Math.floor((high - low) / (2 * MINUTE_MS)) * MINUTE_MS;
      if (offsetMsAt(zone, middle) === before) low = middle;
      else high = middle;
    }
    changes.push(high);
    before = after;
  }
  return changes;
}

/** Looks at the clock every hour, and at every tick of an hour with a change. */
export function walkClock(zone: string, fromMs: number, untilMs: number, tickMs: number): Walk {
  const count = Math.floor((untilMs - fromMs) / tickMs);
  const wallTicks = new Int32Array(count);
  const stride = (60 * MINUTE_MS) / tickMs;
  let offset = offsetMsAt(zone, fromMs);
  for (let start = 0; start < count; start += stride) {
    const end = Math.min(start + stride, count);
    const later = offsetMsAt(zone, fromMs + end * tickMs);
    for (let tick = start; tick < end; tick++) {
      const atMs = fromMs + tick * tickMs;
      wallTicks[tick] = (later === offset ? atMs + offset : wallMsAt(zone, atMs)) / tickMs;
    }
    offset = later;
  }
  return { tickMs, firstTick: fromMs / tickMs, wallTicks };
}

/** The firings during a walk, ascending. */
export function firingsOf(cron: PlainCron, walk: Walk): number[] {
  const matches = matcherOf(cron, walk.tickMs);
  const { wallTicks, firstTick, tickMs } = walk;
  const firings: number[] = [];
  if (!cron.hoursFixed) {
    for (let tick = 0; tick < wallTicks.length; tick++) {
      if (matches(wallTicks[tick] as number)) firings.push((firstTick + tick) * tickMs);
    }
    return firings;
  }
  // Wall time after wall time, whether it exists or not, to the first instant that shows as much.
  let latest = Number.NEGATIVE_INFINITY;
  for (const wall of wallTicks) latest = Math.max(latest, wall);
  let tick = 0;
  for (let wall = wallTicks[0] ?? 0; wall <= latest; wall++) {
    while ((wallTicks[tick] ?? Number.POSITIVE_INFINITY) < wall) tick++;
    const atMs = (firstTick + tick) * tickMs;
    if (matches(wall) && firings.at(-1) !== atMs) firings.push(atMs);
  }
  return firings;
}

/** Matchers by expression and tick: each is asked about walks of many zones. */
const matchers = new WeakMap<PlainCron, Map<number, (wallTick: number) => boolean>>();

function matcherOf(cron: PlainCron, tickMs: number): (wallTick: number) => boolean {
  const known = matchers.get(cron) ?? new Map<number, (wallTick: number) => boolean>();
  matchers.set(cron, known);
  const matcher = known.get(tickMs) ?? newMatcher(cron, tickMs);
  known.set(tickMs, matcher);
  return matcher;
}

function newMatcher(cron: PlainCron, tickMs: number): (wallTick: number) => boolean {
  const perDay = DAY_MS / tickMs;
  const perMinute = MINUTE_MS / tickMs;
  const onTime = Uint8Array.from({ length: perDay }, (_, tick) => {
    const minute = Math.floor(tick / perMinute);
    const named =
      cron.seconds.has(tick % perMinute) &&
      cron.minutes.has(minute % 60) &&
      cron.hours.has(Math.floor(minute / 60));
    return named ? 1 : 0;
  });
  let knownDay = Number.NaN;
  let known = false;
  return (wallTick) => {
    const day = Math.floor(wallTick / perDay);
    if (onTime[wallTick - day * perDay] !== 1) return false;
    if (day !== knownDay) {
      knownDay = day;
      known = cron.onDay(plainDayOf(day));
    }
    return known;
  };
}

function plainDayOf(dayNumber: number): PlainDay {
  const date = new Date(dayNumber * DAY_MS);
  const month = date.getUTCMonth() + 1;
  const length = new Date(Date.UTC(date.getUTCFullYear(), month, 0)).getUTCDate();
  return { day: date.getUTCDate(), month, weekday: date.getUTCDay(), length };
}
