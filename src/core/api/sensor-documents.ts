import { z } from "zod";
import { SensorSpec } from "../automation-specs.ts";
import { Count, FailureField, InstantText, JsonValue } from "../events/fields.ts";
import { EvaluationSourceField, SensorRunRequestField } from "../events/sensor-events.ts";
import type { SensorEvalRow, SensorRow } from "../rows/sensor-rows.ts";
import { RunStateField } from "./run-documents.ts";

/** Where a sensor stands. */
export const SensorStateField = z.enum(["ACTIVE", "PAUSED", "ERROR", "DELETED"]);

const { ...definitionFields } = SensorSpec.omit({ kind: true }).shape;

const sensorFields = {
  sensor_id: z.string(),
  spec_hash: z.string(),
  origin: z.enum(["code", "api"]),
  definition_version: Count,
  state: SensorStateField,
  state_version: Count,
  /** Why it is paused, in somebody's words. */
  reason: z.string().nullable(),
  /** How far it has looked; null at the start, and for push. */
  cursor: z.string().nullable(),
  last_evaluation_at: InstantText.nullable(),
  last_eval_id: z.string().nullable(),
  last_message_at: InstantText.nullable(),
  /** Why the last evaluation failed; null when it did not. */
  error: FailureField.nullable(),
  /** Evaluations that something came of. */
  evaluations: Count,
  runs_requested: Count,
  messages_received: Count,
  messages_pending: Count,
  created_at: InstantText,
  created_pos: Count,
  row_version: Count,
} satisfies { [Field in Exclude<keyof SensorRow, "name" | "mode">]: z.ZodType<SensorRow[Field]> };

/** A sensor as the API shows it: its definition, how far it got, and how it is doing. */
export const SensorDocument = z
  .strictObject({
    ...definitionFields,
    ...sensorFields,
    /** When it was last looked, whether or not something came of it; null when nobody has. */
    last_looked_at: InstantText.nullable(),
    /** Looks of which nothing came, since something last did. */
    looks: Count,
    /** When it is to look next; null while it is paused, for push, and for a watch of the ledger. */
    next_due_at: InstantText.nullable(),
    /** How long what it should do has been waiting: its next look, or its oldest message. */
    lag_seconds: z.number().nonnegative(),
    /** Whether there is a secret that messages can be signed with. */
    has_secret: z.boolean(),
    /** Whether only a worker with the project's code can evaluate it. */
    needs_function: z.boolean(),
    /** Whether somebody who can evaluate it has asked this server for work lately. */
    has_worker: z.boolean(),
  })
  .meta({ id: "Sensor" });
export type SensorDocument = z.infer<typeof SensorDocument>;

/** What an evaluation came to. */
export const EvalStatusField = z.enum([
  "triggered",
  "no_new_data",
  "error",
  "skipped_stale_cursor",
]);

/** A run that an evaluation asked for, what became of the request, and where the run stands. */
export const SensorRunRequestDocument = SensorRunRequestField.extend({
  run_state: RunStateField.nullable(),
})
  .strict()
  .meta({ id: "SensorRunRequest" });
export type SensorRunRequestDocument = z.infer<typeof SensorRunRequestDocument>;

const evalFields = {
  eval_id: z.string(),
  status: EvalStatusField,
  cursor_before: z.string().nullable(),
  cursor_after: z.string().nullable(),
  error: FailureField.nullable(),
};

/** An evaluation that something came of, as the API shows it. */
export const SensorEvalDocument = z
  .strictObject({
    ...evalFields,
    sensor_id: z.string(),
    pos: Count,
    trigger_source: EvaluationSourceField,
    evaluated_at: InstantText,
    run_requests: z.array(SensorRunRequestDocument),
  } satisfies Record<keyof SensorEvalRow, z.ZodType>)
  .meta({ id: "SensorEval" });
export type SensorEvalDocument = z.infer<typeof SensorEvalDocument>;

/** What an evaluation that somebody asked for came to, or would come to. */
export const EvaluatedSensor = z
  .strictObject({
    ...evalFields,
    message: z.string(),
    sensor_id: z.string(),
    /** Whether it only says what would have happened. */
    dry_run: z.boolean(),
    /** `unchanged`: there was nothing to record; `stale`, `lost`: the sensor had moved on. */
    verdict: z.enum(["recorded", "unchanged", "stale", "lost"]),
    run_requests: z.array(SensorRunRequestDocument),
    pos: Count,
  })
  .meta({ id: "EvaluatedSensor" });
export type EvaluatedSensor = z.infer<typeof EvaluatedSensor>;

/** Where a message stands. */
export const MessageStateField = z.enum(["PENDING", "EVALUATED", "FAILED"]);

/** Most characters of a payload that is shown. */
export const PAYLOAD_SHOWN_MAX = 10_000;

/** A message of a push sensor as the API shows it. */
export const SensorMessageDocument = z
  .strictObject({
    sensor_id: z.string(),
    message_id: z.string(),
    source: z.enum(["webhook", "pubsub", "cloudevents"]),
    message_type: z.string().nullable(),
    attributes: z.record(z.string(), z.string()).nullable(),
    /** Null once it is evaluated, and when it is too long to be shown. */
    payload: JsonValue,
    /** In characters of canonical JSON; null once it is evaluated. */
    payload_length: Count.nullable(),
    payload_digest: z.string(),
    published_at: z.string().nullable(),
    received_at: InstantText,
    received_pos: Count,
    state: MessageStateField,
    eval_id: z.string().nullable(),
  })
  .meta({ id: "SensorMessage" });
export type SensorMessageDocument = z.infer<typeof SensorMessageDocument>;
