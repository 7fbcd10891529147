import { z } from "zod";
import { Count, FailureField, JsonValue, Sha256 } from "../envelope.ts";

/** A message reached a push sensor and is kept; its evaluation follows. */
export const SensorMessageReceived = {
  sensor_id: z.string(),
  message_id: z.string().min(1).max(500),
  source: z.enum(["webhook", "pubsub", "cloudevents"]),
  message_type: z.string().nullable(),
  attributes: z.record(z.string(), z.string()),
  payload: JsonValue,
  /** Of what all deliveries of one message have in common. */
  payload_digest: Sha256,
  published_at: z.string().nullable(),
};

/** What made a sensor be evaluated. */
export const EvaluationSourceField = z.discriminatedUnion("type", [
  z.object({ type: z.literal("push"), message_id: z.string() }),
  z.object({ type: z.literal("poll"), poll_epoch: Count }),
  z.object({ type: z.literal("manual"), request_id: z.string() }),
]);

/** A run that an evaluation asked for, and what became of the request. */
export const SensorRunRequestField = z.object({
  run_key: z.string(),
  run_id: z.string().nullable(),
  request_fingerprint: Sha256.nullable(),
  asset_selection: z.array(z.string()).min(1),
  partition_selection: z.array(z.string()).nullable(),
  /** `refused`: the request itself was wrong; `void`: the evaluation was stale and had no effect. */
  outcome: z.enum(["created", "existing", "conflict", "refused", "void"]),
  error: FailureField.nullable(),
});

/** A sensor was evaluated, and something came of it. */
export const SensorEvaluated = {
  sensor_id: z.string(),
  eval_id: z.string(),
  spec_hash: Sha256,
  trigger_source: EvaluationSourceField,
  cursor_before: z.string().nullable(),
  cursor_after: z.string().nullable(),
  /** The version that the evaluation read; null for push, which has no cursor. */
  expected_state_version: z.int().positive().nullable(),
  /** The version afterwards, where the evaluation moved it. */
  state_version: z.int().positive().nullable(),
  status: z.enum(["triggered", "no_new_data", "error", "skipped_stale_cursor"]),
  error: FailureField.nullable(),
  /** The evaluation before it had failed. */
  recovered: z.boolean(),
  run_requests: z.array(SensorRunRequestField),
};

/** Somebody stopped the sensor; messages are still kept. */
export const SensorPaused = {
  sensor_id: z.string(),
  state_version: z.int().positive(),
  reason: z.string().nullable(),
};

/** The sensor acts again. */
export const SensorResumed = { sensor_id: z.string(), state_version: z.int().positive() };

/** Somebody moved the cursor: to the start, or to where it once was. */
export const SensorCursorReset = {
  sensor_id: z.string(),
  state_version: z.int().positive(),
  cursor_before: z.string().nullable(),
  cursor: z.string().nullable(),
  reason: z.string().nullable(),
};
