import type { NextTimeDocument } from "../core/api/schedule-documents.ts";
import { previewTimes } from "../core/cron/preview-times.ts";
import { PawlError } from "../core/errors.ts";
import { epochMsOf, INSTANT_MS_MAX, type Instant, instantOf } from "../core/instant.ts";

/** Which times are asked for: those of a cron expression within bounds, after an instant. */
export type TimesQuery = {
  cron: string;
  timezone: string;
  starts_at: Instant | null;
  ends_at: Instant | null;
  after: Instant;
  count: number;
  /** How long after its nominal time each is acted on. */
  offsetMs: number;
};

/** The next times, as a person reads them. Throws INPUT_INVALID when the expression has none. */
export function nextTimes(query: TimesQuery): NextTimeDocument[] {
  const { cron, timezone, starts_at, ends_at, after, count, offsetMs } = query;
  const startsMs = starts_at === null ? Number.NEGATIVE_INFINITY : epochMsOf(starts_at);
  const afterMs = Math.max(epochMsOf(after), startsMs - 1);
  const found = previewTimes(cron, timezone, afterMs, count);
  if (typeof found === "string") {
    throw new PawlError("INPUT_INVALID", `The cron expression is wrong: ${found}.`, {
      details: { cron, timezone },
    });
  }
  const endsMs = ends_at === null ? Number.POSITIVE_INFINITY : epochMsOf(ends_at);
  return found
    .filter(({ at }) => at < endsMs && at + offsetMs <= INSTANT_MS_MAX)
    .map(({ at, wall, offset, change }) => ({
      scheduled_for: instantOf(at),
      due_at: instantOf(at + offsetMs),
      local_time: wall,
      utc_offset: offset,
      change,
    }));
}
