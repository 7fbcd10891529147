import { assert } from "./errors.ts";

/**
 * A point in time as UTC text with milliseconds (`2026-01-31T08:00:00.000Z`): fixed width, so that
 * text order is time order in every store, and the same in events, rows and answers.
 */
export type Instant = string & { readonly __instant?: never };

/** The furthest from 1970 that a Date reaches. */
const DATE_MS_MAX = 8.64e15;
/** The last millisecond that can be written as an instant. */
export const INSTANT_MS_MAX = Date.UTC(9999, 11, 31, 23, 59, 59, 999);
const INSTANT_LENGTH = "2026-01-31T08:00:00.000Z".length;

/** The last instant that was written: the time is asked for more often than it changes. */
let last: { epochMs: number; text: Instant } = { epochMs: Number.NaN, text: "" };

/** The instant that lies `ms` milliseconds after the start of 1970, in the years 0 to 9999. */
export function instantOf(epochMs: number): Instant {
  if (epochMs === last.epochMs) return last.text;
  assert(Math.abs(epochMs) <= DATE_MS_MAX, () => `${epochMs} is a time that can be written`);
  const text = new Date(epochMs).toISOString();
  // Other years are written with more digits and a sign, which would break the order of texts.
  assert(text.length === INSTANT_LENGTH, () => `${text} lies in the years 0 to 9999`);
  last = { epochMs, text };
  return text;
}

/** Milliseconds since the start of 1970. */
export function epochMsOf(instant: Instant): number {
  return Date.parse(instant);
}

/** The instant `ms` milliseconds later. */
export function addMs(instant: Instant, ms: number): Instant {
  return instantOf(epochMsOf(instant) + ms);
}

/** How many milliseconds `later` lies after `earlier`. */
export function msBetween(earlier: Instant, later: Instant): number {
  return epochMsOf(later) - epochMsOf(earlier);
}
