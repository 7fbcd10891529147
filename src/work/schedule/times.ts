import { assert } from "../../kernel/errors.ts";
import type { ScheduleSpec } from "../definition/spec.ts";
import { type CronTimes, cronTimes } from "../../kernel/cron/times.ts";
import type { EventData } from "../events.ts";
import type { Hash } from "../../kernel/canonical.ts";
import { epochMsOf, INSTANT_MS_MAX, instantOf } from "../../kernel/instant.ts";

/** A time that is decided this soon is on time, and no catching up. */
const ON_TIME_MS = 60_000;

/** The times of one schedule. */
export type ScheduleTimes = {
  readonly cron: CronTimes;
  /** How long after its nominal time each tick is due: the schedule's own share of the jitter. */
  readonly offsetMs: number;
  /** Times before this are none of the schedule's. */
  readonly startsMs: number;
  /** Nor are times from this on. */
  readonly endsMs: number;
};

/** The times of a schedule, which were checked when it was published. */
export function scheduleTimes(spec: ScheduleSpec, scheduleId: string, hash: Hash): ScheduleTimes {
  const cron = cronTimes(spec.cron, spec.timezone);
  assert(typeof cron !== "string", `${spec.cron} was checked when it was published`);
  return {
    cron,
    offsetMs: offsetOf(spec.jitter_ms, scheduleId, hash),
    startsMs: spec.starts_at === null ? Number.NEGATIVE_INFINITY : epochMsOf(spec.starts_at),
    endsMs: spec.ends_at === null ? Number.POSITIVE_INFINITY : epochMsOf(spec.ends_at),
  };
}

/** Always the same for a schedule, so that the time between its ticks is what its cron says. */
function offsetOf(jitterMs: number, scheduleId: string, hash: Hash): number {
  if (jitterMs === 0) return 0;
  return Number.parseInt(hash.sha256(`jitter:${scheduleId}`).slice(0, 12), 16) % jitterMs;
}

type Next = EventData<"ScheduleTicked">["next"];

/** The first time after an instant, and when it is due; null when there is none. */
export function nextTick(times: ScheduleTimes, afterMs: number): Next {
  const at = times.cron.nextAfter(Math.max(afterMs, times.startsMs - 1));
  if (at === null || at >= times.endsMs || at + times.offsetMs > INSTANT_MS_MAX) return null;
  return { scheduled_for: instantOf(at), due_at: instantOf(at + times.offsetMs) };
}

/** Times after one instant and up to another, the second included. */
export type TimeStretch = { afterMs: number; throughMs: number };

/** The times of a schedule that are due and not decided. */
export function dueStretch(
  times: ScheduleTimes,
  tickedThroughMs: number,
  nowMs: number,
): TimeStretch {
  return {
    afterMs: Math.max(tickedThroughMs, times.startsMs - 1),
    throughMs: Math.min(nowMs - times.offsetMs, times.endsMs - 1),
  };
}

/** How long ago a time may have been missed to be caught up. */
export function windowMsOf(spec: Pick<ScheduleSpec, "catchup_window_minutes">): number {
  return Math.max(spec.catchup_window_minutes * 60_000, ON_TIME_MS);
}

/** What catching up comes to: the times to act on, oldest first, and the stretches to pass over. */
export type CatchUp = {
  tooOld: TimeStretch;
  tooMany: TimeStretch;
  taken: number[];
};

/**
 * Chooses among due times: of those within the window the newest so many are taken. A single time
 * that is on time is taken whatever the limits, as they are about times that were missed.
 */
export function catchUp(
  { cron, offsetMs }: ScheduleTimes,
  spec: Pick<ScheduleSpec, "catchup_window_minutes" | "max_catchup_ticks">,
  { afterMs, throughMs }: TimeStretch,
  nowMs: number,
): CatchUp {
  const current = nowMs - offsetMs;
  const windowStartMs = Math.min(Math.max(afterMs, current - windowMsOf(spec) - 1), throughMs);
  const newest = cron.lastUpTo(throughMs);
  const isOnTime = newest !== null && newest > afterMs && newest >= current - ON_TIME_MS;
  const limit = Math.max(spec.max_catchup_ticks, isOnTime ? 1 : 0);
  const taken = limit === 0 ? [] : cron.newestBetween(windowStartMs, throughMs, limit);
  const firstTaken = taken[0] ?? throughMs + 1;
  return {
    tooOld: { afterMs, throughMs: windowStartMs },
    tooMany: { afterMs: windowStartMs, throughMs: firstTaken - 1 },
    taken,
  };
}
