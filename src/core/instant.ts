/**
 * A point in time as UTC text with milliseconds (`2026-01-31T08:00:00.000Z`): fixed width, so that
 * text order is time order in every store, and the same in events, rows and answers.
 */
export type Instant = string & { readonly __instant?: never };

/** The instant that lies `ms` milliseconds after the start of 1970. */
export function instantOf(epochMs: number): Instant {
  return new Date(epochMs).toISOString();
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
