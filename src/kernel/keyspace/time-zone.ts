import { Temporal } from "temporal-polyfill";

/** A stretch of instants, the end excluded, during which a zone keeps one offset from UTC. */
export type OffsetStretch = { fromMs: number; untilMs: number; offsetMs: number };

/** The clock of a time zone. */
export interface ZoneClock {
  /** How far local time is ahead of UTC at the instant. */
  offsetMsAt(epochMs: number): number;
  /** The stretch of one offset that the instant lies in. */
  stretchAt(epochMs: number): OffsetStretch;
  /**
   * The first instant at which the local clock shows at least this wall time, given as the
   * milliseconds since 1970 that it would be in UTC. A time that the clock skips begins when the
   * clock jumps over it, a time that comes twice begins the first time, so order is always kept.
   */
  startMsOf(wallMs: number): number;
}

/** No local clock is further than this from UTC, with an hour to spare. */
export const OFFSET_MAX_MS = 27 * 3_600_000;

const ALWAYS_UTC: OffsetStretch = {
  fromMs: Number.NEGATIVE_INFINITY,
  untilMs: Number.POSITIVE_INFINITY,
  offsetMs: 0,
};

const UTC_CLOCK: ZoneClock = {
  offsetMsAt: () => 0,
  stretchAt: () => ALWAYS_UTC,
  startMsOf: (wallMs) => wallMs,
};

/** More than there are zones, so that only odd spellings of their names are ever let go. */
const CLOCKS_MAX = 2_000;
const clocks = new Map<string, ZoneClock>();

/** Whether the name is that of a time zone. */
export function isTimeZone(name: string): boolean {
  try {
    Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(name);
    return true;
  } catch {
    return false;
  }
}

/** The clock of a zone that `isTimeZone` accepts; what it learns about the zone is kept. */
export function zoneClockOf(name: string): ZoneClock {
  if (name === "UTC") return UTC_CLOCK;
  const known = clocks.get(name);
  if (known !== undefined) return known;
  if (clocks.size >= CLOCKS_MAX) clocks.clear();
  const made = makeClock(name);
  clocks.set(name, made);
  return made;
}

/**
 * The last ordinal that starts at or before the instant, given one that does. The local clock may
 * have shown a later time before it was set back, so a few more may have started already.
 */
export function lastStarted(
  startMsAt: (ordinal: number) => number,
  epochMs: number,
  started: number,
): number {
  let ordinal = started;
  while (startMsAt(ordinal + 1) <= epochMs) ordinal++;
  return ordinal;
}

function makeClock(name: string): ZoneClock {
  // Sorted by time and disjoint, though not without holes: only what was asked for is in it.
  const stretches: OffsetStretch[] = [];

  function stretchAt(epochMs: number): OffsetStretch {
    let low = 0;
    let high = stretches.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const stretch = stretches[middle];
      if (stretch !== undefined && stretch.untilMs <= epochMs) low = middle + 1;
      else high = middle;
    }
    const found = stretches[low];
    if (found !== undefined && found.fromMs <= epochMs) return found;
    const made = lookUpStretch(name, epochMs);
    stretches.splice(low, 0, made);
    return made;
  }

  return {
    offsetMsAt: (epochMs) => stretchAt(epochMs).offsetMs,
    stretchAt,
    startMsOf(wallMs) {
      let stretch = stretchAt(wallMs - OFFSET_MAX_MS);
      for (;;) {
        const startMs = Math.max(stretch.fromMs, wallMs - stretch.offsetMs);
        if (startMs < stretch.untilMs) return startMs;
        stretch = stretchAt(stretch.untilMs);
      }
    },
  };
}

function lookUpStretch(name: string, epochMs: number): OffsetStretch {
  const time = Temporal.Instant.fromEpochMilliseconds(epochMs).toZonedDateTimeISO(name);
  const next = time.getTimeZoneTransition("next");
  // A transition at this very instant begins the stretch, and "previous" leaves it out.
  const previous = time.add({ milliseconds: 1 }).getTimeZoneTransition("previous");
  return {
    fromMs: previous?.epochMilliseconds ?? Number.NEGATIVE_INFINITY,
    untilMs: next?.epochMilliseconds ?? Number.POSITIVE_INFINITY,
    offsetMs: Math.round(time.offsetNanoseconds / 1e6),
  };
}
