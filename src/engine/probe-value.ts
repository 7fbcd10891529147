import { z } from "zod";
import type { EvaluationResult } from "../controllers/evaluate-sensor.ts";
import type { Json } from "../core/canonical.ts";
import { type Actor, holderOf } from "../core/events/envelope.ts";
import { Count, FailureField, InstantText } from "../core/events/fields.ts";
import { addMs, type Instant } from "../core/instant.ts";
import { SensorMessage } from "../core/probe-protocol.ts";
import type { Probe } from "../store/store.ts";
import { ENGINE_CAUSE } from "./commit.ts";

/** How often the evaluation of a message is tried before it is recorded as failed. */
export const MESSAGE_ATTEMPTS_MAX = 5;
/** Longest pause between two tries, unless the sensor's own interval is longer. */
const BACKOFF_MS_MAX = 300_000;
const MESSAGE_BACKOFF_MS = 1_000;

/** How far the ledger was looked through without a hit; void once the sensor is another. */
export const Scanned = z.object({
  cursor: z.string().nullable(),
  spec_hash: z.string(),
  through: Count,
});
export type Scanned = z.infer<typeof Scanned>;

/** What the probe of a poll sensor or of a message remembers. */
export const ProbeMemory = z.object({
  /** Evaluations in a row that failed, and why the last one did. */
  failures: Count.default(0),
  error: FailureField.nullable().default(null),
  /** Evaluations of which nothing came, since something last did. */
  unchanged: Count.default(0),
  looked_at: InstantText.nullable().default(null),
  scanned: Scanned.nullable().default(null),
});
export type ProbeMemory = z.infer<typeof ProbeMemory>;

/** What a probe remembers; nothing when it is new, or its value is not as expected. */
export function memoryOf(value: Json): ProbeMemory {
  return ProbeMemory.safeParse(value ?? {}).data ?? ProbeMemory.parse({});
}

/** What a person asked to be evaluated. */
export const ManualRequest = z.object({
  request_id: z.string(),
  dry_run: z.boolean(),
  message: SensorMessage.nullable(),
  requested_at: InstantText,
});
export type ManualRequest = z.infer<typeof ManualRequest>;

/** The probe of a person's evaluation: what was asked, and what came of it once that is known. */
export type ManualValue = { request: ManualRequest; result: EvaluationResult | null };

/** The value of a person's probe; null when it is none. */
export function manualOf(value: Json): ManualValue | null {
  const parsed = z.object({ request: ManualRequest, result: z.json() }).safeParse(value);
  return parsed.success ? (parsed.data as unknown as ManualValue) : null;
}

/** How long the probe of a person's evaluation is kept. */
export const MANUAL_KEPT_MS = 600_000;

/** Whether nobody will ask for a person's evaluation any more. */
export function isOver(value: Json, now: Instant): boolean {
  const manual = manualOf(value);
  return manual === null || addMs(manual.request.requested_at, MANUAL_KEPT_MS) <= now;
}

/** When a poll sensor is looked at again: after its interval, and later the more often it failed. */
export function nextLookAt(now: Instant, minIntervalMs: number, failures: number): Instant {
  const longest = Math.max(minIntervalMs, BACKOFF_MS_MAX);
  return addMs(now, Math.min(minIntervalMs * 2 ** Math.min(failures, 30), longest));
}

/** When the evaluation of a message is tried again. */
export function nextTryAt(now: Instant, failures: number): Instant {
  return addMs(now, Math.min(MESSAGE_BACKOFF_MS * 2 ** failures, BACKOFF_MS_MAX));
}

/** The probe of a poll sensor. */
export function pollProbeId(sensorId: string): string {
  return `sensor:${sensorId}`;
}

/** The probe of a message. */
export function messageProbeId(sensorId: string, messageId: string): string {
  return `message:${sensorId}:${messageId}`;
}

/** The id of the message that a probe is about. */
export function messageIdOf(probe: { probe_id: string; subject: string }): string {
  return probe.probe_id.slice(messageProbeId(probe.subject, "").length);
}

/** The probe of a person's evaluation. */
export function manualProbeId(sensorId: string, requestId: string): string {
  return `manual:${sensorId}:${requestId}`;
}

/** Whether the actor may say what came of a probe: it leased it, or is the server itself. */
export function isLeasedBy({ leased_by }: Pick<Probe, "leased_by">, actor: Actor): boolean {
  return actor === ENGINE_CAUSE.actor || leased_by === holderOf(actor);
}
