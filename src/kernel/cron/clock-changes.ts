import { OFFSET_MAX_MS, type OffsetStretch, type ZoneClock } from "../keyspace/time-zone.ts";

/**
 * The wall time that the local clock had come up to before the stretch began: everything earlier
 * was shown or jumped over. Above the stretch's first wall time when the clock was set back, below
 * it when the clock was set forward.
 */
export function reachedBefore(clock: ZoneClock, stretch: OffsetStretch): number {
  let reached = Number.NEGATIVE_INFINITY;
  // Usually only the stretch before counts; where changes follow closely, one before it may have
  // shown later times, though none that ended longer ago than two offsets can differ.
  let fromMs = stretch.fromMs;
  while (fromMs > stretch.fromMs - 2 * OFFSET_MAX_MS) {
    const earlier = clock.stretchAt(fromMs - 1);
    reached = Math.max(reached, earlier.untilMs + earlier.offsetMs);
    fromMs = earlier.fromMs;
  }
  return reached;
}

/** Whether the local clock shows the same wall time at another instant too. */
export function comesTwice(clock: ZoneClock, epochMs: number): boolean {
  const own = clock.stretchAt(epochMs);
  const wallMs = epochMs + own.offsetMs;
  let stretch = clock.stretchAt(wallMs - OFFSET_MAX_MS);
  for (;;) {
    const atMs = wallMs - stretch.offsetMs;
    if (stretch !== own && atMs >= stretch.fromMs && atMs < stretch.untilMs) return true;
    if (stretch.untilMs > wallMs + OFFSET_MAX_MS) return false;
    stretch = clock.stretchAt(stretch.untilMs);
  }
}
