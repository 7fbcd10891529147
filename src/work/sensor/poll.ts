import { z } from "zod";
import type { Json } from "../../kernel/canonical.ts";
import { addMs, type Instant } from "../../kernel/instant.ts";
import type { SensorSpec } from "../definition/automation.ts";
import type { Spec } from "../definition/published-spec.ts";
import { Count, FailureField, InstantText } from "../envelope.ts";
import { SensorMessage } from "../probe-protocol.ts";
import type { EvaluationResult } from "./evaluate.ts";
import { isLedgerWatch } from "./ledger-watch.ts";
import type { SensorMessageRow, SensorRow } from "./rows.ts";

/**
 * Who can evaluate a sensor: this server by itself, any worker, or only a worker that has the
 * sensor's code.
 */
export type Evaluator = "server" | "anyone" | "code";

/** A sensor with the spec it acts under. */
export type PolledSensor = {
  row: SensorRow;
  spec: SensorSpec;
  evaluator: Evaluator;
  /** It watches the ledger itself, so the server polls that for it. */
  isOfLedger: boolean;
};

/** A sensor as it is polled under this spec. */
export function polledSensor(row: SensorRow, spec: SensorSpec): PolledSensor {
  return { row, spec, evaluator: evaluatorOf(spec), isOfLedger: isLedgerWatch(spec.watch) };
}

/** The spec of a sensor; null for one of something else. */
export function asSensorSpec(spec: Spec): SensorSpec | null {
  return spec.kind === "sensor" ? spec : null;
}

/** Who can evaluate a sensor of this spec. */
export function evaluatorOf({ mode, watch, target }: SensorSpec): Evaluator {
  if (target === null) return "code";
  if (mode === "push" || isLedgerWatch(watch)) return "server";
  const needsNoCode =
    watch?.type === "files" || (watch?.type === "rows" && watch.database_env !== null);
  return needsNoCode ? "anyone" : "code";
}

/** Whether the sensor is polled, or its messages are evaluated, at present. */
export function isActing({ row }: PolledSensor): boolean {
  return row.state === "ACTIVE" || row.state === "ERROR";
}

/** Whether messages of the sensor are to be evaluated at present. */
export function takesMessages(sensor: PolledSensor): boolean {
  return sensor.row.mode === "push" && isActing(sensor);
}

/** A message as an evaluator sees it. */
export function messageOfRow(row: SensorMessageRow): SensorMessage {
  const { message_id, source, message_type: type, payload, published_at } = row;
  return { message_id, source, type, attributes: row.attributes ?? {}, payload, published_at };
}

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
export const SensorMemory = z.object({
  /** Evaluations in a row that failed, and why the last one did. */
  failures: Count.default(0),
  error: FailureField.nullable().default(null),
  /** Evaluations of which nothing came, since something last did. */
  unchanged: Count.default(0),
  looked_at: InstantText.nullable().default(null),
  scanned: Scanned.nullable().default(null),
});
export type SensorMemory = z.infer<typeof SensorMemory>;

/** What a probe remembers; nothing when it is new, or its value is not as expected. */
export function sensorMemoryOf(value: Json): SensorMemory {
  return SensorMemory.safeParse(value ?? {}).data ?? SensorMemory.parse({});
}

/** When a poll sensor is polled again: after its interval, and later the more often it failed. */
export function nextPollAt(now: Instant, minIntervalMs: number, failures: number): Instant {
  const longest = Math.max(minIntervalMs, BACKOFF_MS_MAX);
  return addMs(now, Math.min(minIntervalMs * 2 ** Math.min(failures, 30), longest));
}

/** When the evaluation of a message is tried again. */
export function nextTryAt(now: Instant, failures: number): Instant {
  return addMs(now, Math.min(MESSAGE_BACKOFF_MS * 2 ** failures, BACKOFF_MS_MAX));
}

/** What a person asked to be evaluated. */
const ManualRequest = z.object({
  request_id: z.string(),
  dry_run: z.boolean(),
  message: SensorMessage.nullable(),
  requested_at: InstantText,
});
const ManualFields = z.object({ request: ManualRequest, result: z.json() });

/** The probe of a person's evaluation: what was asked, and what came of it once that is known. */
export type ManualValue = {
  request: z.infer<typeof ManualRequest>;
  result: EvaluationResult | null;
};

/** The value of a person's probe; null when it is none. */
export function manualOf(value: Json): ManualValue | null {
  const parsed = ManualFields.safeParse(value);
  return parsed.success ? (parsed.data as unknown as ManualValue) : null;
}

/** How long the probe of a person's evaluation is kept. */
export const MANUAL_KEPT_MS = 600_000;

/** Whether nobody will ask for a person's evaluation any more. */
export function isManualOver(value: Json, now: Instant): boolean {
  const manual = manualOf(value);
  return manual === null || addMs(manual.request.requested_at, MANUAL_KEPT_MS) <= now;
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
