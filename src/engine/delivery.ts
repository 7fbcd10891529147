import { z } from "zod";
import type { Json } from "../core/canonical.ts";
import { Count, InstantText, JsonValue } from "../core/events/fields.ts";
import { addMs, type Instant } from "../core/instant.ts";

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

/** The pause after each attempt that failed; one attempt more than there are pauses. */
const RETRY_DELAYS_MS = [
  5 * SECOND_MS,
  30 * SECOND_MS,
  2 * MINUTE_MS,
  10 * MINUTE_MS,
  30 * MINUTE_MS,
  HOUR_MS,
  2 * HOUR_MS,
  4 * HOUR_MS,
  8 * HOUR_MS,
  16 * HOUR_MS,
  24 * HOUR_MS,
];

/** How long a notification is tried for. */
const TRIED_MS_MAX = 72 * HOUR_MS;
/** How long one that could not be told is kept to be looked at. */
const FAILED_KEPT_MS = 7 * 24 * HOUR_MS;
/** How far a pause may be from what it should be, so that many do not come back at once. */
const JITTER = 0.2;

/** What the probe of a notification remembers: what to tell, and how that went so far. */
export const Delivery = z.object({
  pos: Count,
  type: z.string(),
  body: JsonValue,
  created_at: InstantText,
  attempts: Count,
  last_attempt_at: InstantText.nullable(),
  last_status: z.int().nullable(),
  last_error: z.string().nullable(),
  /** When it was given up; then it is due when it is to be forgotten. */
  failed_at: InstantText.nullable(),
});
export type Delivery = z.infer<typeof Delivery>;

/** The delivery that a probe's value is; null when it is none. */
export function deliveryOf(value: Json): Delivery | null {
  return Delivery.safeParse(value).data ?? null;
}

/** The probe of what a webhook tells of an event: one for ever, however often the event is read. */
export function deliveryProbeId(webhookId: string, pos: number): string {
  return `notification:${webhookId}:${pos}`;
}

/** The `webhook-id` of a delivery, the same on every attempt. */
export function deliveryIdOf(webhookId: string, pos: number): string {
  return `${webhookId}:${pos}`;
}

/** How an attempt went: a status, or an error when no answer came. */
export type Attempt = { status: number | null; error: string | null };

/** Whether the receiver took what it was told. */
export function isTaken({ status }: Attempt): boolean {
  return status !== null && status >= 200 && status < 300;
}

/**
 * A delivery after an attempt that the receiver did not take, and when it is due: to be tried
 * again, or once it was given up, to be forgotten. 410 says that nobody is there any more.
 */
export function afterAttempt(
  delivery: Delivery,
  { status, error }: Attempt,
  now: Instant,
  random: number,
): { value: Delivery; due_at: Instant } {
  const attempts = delivery.attempts + 1;
  const tried: Delivery = {
    ...delivery,
    attempts,
    last_attempt_at: now,
    last_status: status,
    last_error: error,
  };
  const delayMs = RETRY_DELAYS_MS[attempts - 1];
  if (delayMs !== undefined && status !== 410) {
    const due_at = addMs(now, Math.round(delayMs * (1 - JITTER + 2 * JITTER * random)));
    if (due_at <= addMs(delivery.created_at, TRIED_MS_MAX)) return { value: tried, due_at };
  }
  return { value: { ...tried, failed_at: now }, due_at: addMs(now, FAILED_KEPT_MS) };
}
