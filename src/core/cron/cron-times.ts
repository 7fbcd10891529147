import { dayNumberOf, DAY_MS } from "../partitions/civil-day.ts";
import { isTimeZone, type Stretch, type ZoneClock, zoneClockOf } from "../partitions/time-zone.ts";
import { reachedBefore } from "./clock-changes.ts";
import { type WallTimes, wallTimesOf } from "./wall-times.ts";

/**
 * The instants at which a cron expression fires in a time zone, as epoch milliseconds.
 *
 * An hour field of numbers, lists and ranges names times of the clock: each fires once, a time that
 * the clock jumps over at the jump, a time that comes twice when it first comes; times that end up
 * at the same instant are one firing. An hour field with a wildcard or a step fires whenever the
 * local clock shows a matching time: never for times it skips, twice for those it repeats.
 */
export interface CronTimes {
  /** The first firing after the instant; null when there is none before the year 10000. */
  nextAfter(epochMs: number): number | null;
  /** The last firing at or before the instant; null when there is none since the year 1. */
  lastUpTo(epochMs: number): number | null;
  /** How many firings lie after the first and up to the second instant, counted by arithmetic. */
  countBetween(afterMs: number, throughMs: number): number;
  /** The newest firings after the first and up to the second instant, ascending. */
  newestBetween(afterMs: number, throughMs: number, limit: number): number[];
}

/** The same without bounds: instants beyond those of the interface never come in. */
type Firings = Pick<CronTimes, "countBetween"> & {
  nextAfter(epochMs: number): number;
  lastUpTo(epochMs: number): number;
};

const FIRST_MS = dayNumberOf(1, 1, 1) * DAY_MS;
const LAST_MS = dayNumberOf(10_000, 1, 1) * DAY_MS - 1;

const known = new Map<string, CronTimes>();
/** Each takes a few hundred bytes beside the tables it shares. */
const KNOWN_MAX = 20_000;

/** The firings of an expression, which are kept, or the end of a sentence that says what is wrong. */
export function cronTimes(expression: string, timeZone: string): CronTimes | string {
  const key = `${timeZone}\n${expression}`;
  const found = known.get(key);
  if (found !== undefined) return found;

  const walls = wallTimesOf(expression);
  if (typeof walls === "string") return walls;
  if (!isTimeZone(timeZone)) {
    return `${JSON.stringify(timeZone)} must be an IANA time zone such as Europe/Berlin`;
  }
  const clock = zoneClockOf(timeZone);
  const made = bounded(walls.hoursFixed ? fixedHours(walls, clock) : steppedHours(walls, clock));
  // The oldest goes, not all of them, so that one schedule too many does not cost all the others.
  const oldest = known.size >= KNOWN_MAX ? known.keys().next().value : undefined;
  if (oldest !== undefined) known.delete(oldest);
  known.set(key, made);
  return made;
}

function bounded(firings: Firings): CronTimes {
  const lastUpTo = (epochMs: number): number | null => {
    if (epochMs < FIRST_MS) return null;
    const atMs = firings.lastUpTo(Math.min(epochMs, LAST_MS));
    return atMs < FIRST_MS ? null : atMs;
  };
  return {
    lastUpTo,
    nextAfter(epochMs) {
      if (epochMs >= LAST_MS) return null;
      const atMs = firings.nextAfter(Math.max(epochMs, FIRST_MS - 1));
      return atMs > LAST_MS ? null : atMs;
    },
    countBetween(afterMs, throughMs) {
      const after = Math.max(afterMs, FIRST_MS - 1);
      const through = Math.min(throughMs, LAST_MS);
      return after < through ? firings.countBetween(after, through) : 0;
    },
    newestBetween(afterMs, throughMs, limit) {
      const newest: number[] = [];
      let atMs = lastUpTo(throughMs);
      while (atMs !== null && atMs > afterMs && newest.length < limit) {
        newest.push(atMs);
        atMs = lastUpTo(atMs - 1);
      }
      return newest.toReversed();
    },
  };
}

/** Every named time begins when the clock first shows it or a later one. */
function fixedHours(walls: WallTimes, clock: ZoneClock): Firings {
  /** How many named times have begun by the instant. */
  const begunBy = (epochMs: number): number => {
    const stretch = clock.stretchAt(epochMs);
    return walls.before(Math.max(epochMs + stretch.offsetMs + 1, reachedBefore(clock, stretch)));
  };
  /** How many named times begin at the start of the stretch beyond the one that counts. */
  const mergedAtStartOf = (stretch: Stretch): number => {
    const beforeMs = reachedBefore(clock, stretch);
    const named = walls.before(stretch.fromMs + stretch.offsetMs + 1) - walls.before(beforeMs);
    return Math.max(0, named - 1);
  };
  return {
    nextAfter: (epochMs) => clock.startMsOf(walls.at(begunBy(epochMs))),
    lastUpTo: (epochMs) => clock.startMsOf(walls.at(begunBy(epochMs) - 1)),
    countBetween(afterMs, throughMs) {
      let count = begunBy(throughMs) - begunBy(afterMs);
      let stretch = clock.stretchAt(afterMs);
      while (stretch.untilMs <= throughMs) {
        stretch = clock.stretchAt(stretch.untilMs);
        count -= mergedAtStartOf(stretch);
      }
      return count;
    },
  };
}

/** Within a stretch of one offset, wall times and instants correspond one to one. */
function steppedHours(walls: WallTimes, clock: ZoneClock): Firings {
  return {
    nextAfter(epochMs) {
      let stretch = clock.stretchAt(epochMs + 1);
      let fromMs = epochMs + 1;
      for (;;) {
        const atMs = walls.at(walls.before(fromMs + stretch.offsetMs)) - stretch.offsetMs;
        // The last stretch has no end, so this is reached.
        if (atMs < stretch.untilMs || stretch.untilMs > LAST_MS) return atMs;
        fromMs = stretch.untilMs;
        stretch = clock.stretchAt(fromMs);
      }
    },
    lastUpTo(epochMs) {
      let stretch = clock.stretchAt(epochMs);
      let upToMs = epochMs;
      for (;;) {
        const atMs = walls.at(walls.before(upToMs + stretch.offsetMs + 1) - 1) - stretch.offsetMs;
        if (atMs >= stretch.fromMs) return atMs;
        upToMs = stretch.fromMs - 1;
        stretch = clock.stretchAt(upToMs);
      }
    },
    countBetween(afterMs, throughMs) {
      let count = 0;
      let fromMs = afterMs + 1;
      for (;;) {
        const { untilMs, offsetMs } = clock.stretchAt(fromMs);
        const endMs = Math.min(untilMs, throughMs + 1);
        count += walls.before(endMs + offsetMs) - walls.before(fromMs + offsetMs);
        if (endMs > throughMs) return count;
        fromMs = endMs;
      }
    },
  };
}
