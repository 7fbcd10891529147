import { KeyAddition } from "../run/protocol.ts";
import { z } from "zod";
import { SensorSpec } from "../definition/spec.ts";
import { Count, FailureField, InstantText, JsonValue } from "../envelope.ts";
import { EvaluationSourceField, SensorRunRequestField } from "./events.ts";
import type { SensorEvalRow, SensorRow } from "./rows.ts";
import { RunStateField } from "../run/api.ts";
import {
  clientRequestId,
  definedAnswer,
  entityAnswer,
  EntityRef,
  accepted,
  commaList,
  expectation,
  expectationQuery,
  type Operation,
  ORCHESTRATION_PATH,
  pageOf,
  pageQuery,
  readQuery,
  Reason,
  timeQuery,
  TransitionBody,
  DOCUMENT_BYTES_MAX,
  NewSecretBody,
  secretAnswer,
} from "../operation.ts";

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
    /** Keys that were not there before, by definition; null where it is not known any more. */
    keys_added: z.array(KeyAddition).nullable(),
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

const SENSORS_PATH = `${ORCHESTRATION_PATH}/sensors`;
const SENSOR_PATH = `${SENSORS_PATH}/{sensor_id}`;

/** How long a request for an evaluation waits for it, unless told. */
export const EVALUATE_TIMEOUT_MS_DEFAULT = 30_000;

const { name, ...definition } = SensorSpec.omit({ kind: true }).shape;

/** A wish for a sensor that needs no code. */
export const CreateSensorBody = z
  .strictObject({ ...clientRequestId, name, ...definition })
  .meta({ id: "CreateSensor" });
export type CreateSensorBody = z.infer<typeof CreateSensorBody>;

/** The whole definition of a sensor that takes the place of the one there is. */
export const UpdateSensorBody = z
  .strictObject({
    ...expectation,
    /** Its own, which cannot change. */
    name: name.optional(),
    ...definition,
  })
  .meta({ id: "UpdateSensor" });

const EvaluateSensorBody = z
  .strictObject({
    /** Names the request; the same name is evaluated once. */
    request_id: z.string().min(1).max(200).optional(),
    /** The sample that a push sensor sees. */
    payload: JsonValue.optional(),
    attributes: z.record(z.string().max(200), z.string().max(10_000)).optional(),
    /** Instead of a sample: a message whose evaluation failed. */
    message_id: z.string().min(1).max(500).optional(),
    /** Say what would happen, and let nothing happen. */
    dry_run: z.boolean().default(false),
    timeout_ms: z.int().min(0).max(50_000).default(EVALUATE_TIMEOUT_MS_DEFAULT),
  })
  .meta({ id: "EvaluateSensor" });

const named = { sensor_id: z.string(), state: SensorStateField };

/** What making, changing or deleting a sensor answers. */
export const DefinedSensor = z
  .strictObject({ ...definedAnswer, ...named })
  .meta({ id: "DefinedSensor" });
export type DefinedSensor = z.infer<typeof DefinedSensor>;

/** What pausing, resuming or moving the cursor of a sensor answers. */
export const SensorTransition = z
  .strictObject({ ...entityAnswer, ...named, cursor: z.string().nullable() })
  .meta({ id: "SensorTransition" });
export type SensorTransition = z.infer<typeof SensorTransition>;

/** What pushed messages came to. */
export const PushedMessages = z
  .strictObject({
    ...accepted,
    sensor_id: z.string(),
    /** Messages that are new and are kept now. */
    received: Count,
    /** Messages that had been received before. */
    duplicates: Count,
    message_ids: z.array(z.string()),
  })
  .meta({ id: "PushedMessages" });
export type PushedMessages = z.infer<typeof PushedMessages>;

const SensorSecret = z
  .strictObject({
    ...secretAnswer,
    sensor_id: z.string(),
    /** Where messages are pushed to, below the address of the server. */
    push_path: z.string(),
  })
  .meta({ id: "SensorSecret" });

const params = z.strictObject({
  sensor_id: EntityRef.describe("The id of the sensor, or its name"),
});

/** What the API can do with sensors. */
export const SENSOR_OPERATIONS = {
  createSensor: {
    method: "POST",
    path: SENSORS_PATH,
    summary: "Creates a sensor that needs no code",
    verb: "write",
    body: CreateSensorBody,
    bodyBytesMax: DOCUMENT_BYTES_MAX,
    answer: DefinedSensor,
    status: 202,
    creates: true,
    keyField: "client_request_id",
  },
  listSensors: {
    method: "GET",
    path: SENSORS_PATH,
    summary: "Lists sensors by name",
    verb: "read",
    query: z.strictObject({
      ...pageQuery,
      /** All but DELETED unless told. */
      status: commaList(SensorStateField).optional(),
      mode: definition.mode.optional(),
    }),
    answer: pageOf(SensorDocument),
    status: 200,
  },
  getSensor: {
    method: "GET",
    path: SENSOR_PATH,
    summary: "Shows a sensor",
    verb: "read",
    params,
    query: z.strictObject(readQuery),
    answer: SensorDocument,
    status: 200,
  },
  updateSensor: {
    method: "PUT",
    path: SENSOR_PATH,
    summary: "Replaces the definition of a sensor; its cursor stays",
    verb: "write",
    params,
    body: UpdateSensorBody,
    bodyBytesMax: DOCUMENT_BYTES_MAX,
    answer: DefinedSensor,
    status: 202,
  },
  deleteSensor: {
    method: "DELETE",
    path: SENSOR_PATH,
    summary: "Deletes a sensor; its evaluations and runs stay",
    verb: "write",
    params,
    query: z.strictObject(expectationQuery),
    answer: DefinedSensor,
    status: 202,
  },
  listEvals: {
    method: "GET",
    path: `${SENSOR_PATH}/evals`,
    summary: "Lists the evaluations of a sensor that something came of, newest first",
    verb: "read",
    params,
    query: z.strictObject({
      ...pageQuery,
      ...timeQuery,
      status: commaList(EvalStatusField).optional(),
    }),
    answer: pageOf(SensorEvalDocument),
    status: 200,
  },
  evaluateSensor: {
    method: "POST",
    path: `${SENSOR_PATH}/evaluate`,
    summary: "Evaluates a sensor now, or says what would come of it",
    verb: "write",
    params,
    body: EvaluateSensorBody,
    bodyBytesMax: DOCUMENT_BYTES_MAX,
    answer: EvaluatedSensor,
    status: 200,
    creates: true,
    keyField: "request_id",
  },
  listMessages: {
    method: "GET",
    path: `${SENSOR_PATH}/messages`,
    summary: "Lists the messages of a push sensor, newest first",
    verb: "read",
    params,
    query: z.strictObject({
      ...pageQuery,
      ...timeQuery,
      status: commaList(MessageStateField).optional(),
    }),
    answer: pageOf(SensorMessageDocument),
    status: 200,
  },
  pushMessages: {
    method: "POST",
    path: `${SENSOR_PATH}/messages`,
    summary: "Takes messages for a push sensor, each once: a webhook, Pub/Sub, or CloudEvents",
    verb: "push",
    params,
    query: z.strictObject({
      /** The sensor's secret, for senders that cannot sign. */
      key: z.string().min(1).max(500).optional(),
    }),
    rawBody: true,
    bodyBytesMax: DOCUMENT_BYTES_MAX,
    answer: PushedMessages,
    status: 202,
  },
  pauseSensor: {
    method: "POST",
    path: `${SENSOR_PATH}/pause`,
    summary: "Stops a sensor; messages that come are kept for it",
    verb: "write",
    params,
    body: TransitionBody,
    answer: SensorTransition,
    status: 202,
  },
  resumeSensor: {
    method: "POST",
    path: `${SENSOR_PATH}/resume`,
    summary: "Lets a sensor act again, from the cursor and the messages it had",
    verb: "write",
    params,
    body: TransitionBody,
    answer: SensorTransition,
    status: 202,
  },
  resetCursor: {
    method: "POST",
    path: `${SENSOR_PATH}/reset-cursor`,
    summary: "Moves the cursor of a sensor: to the start, or to where it once was",
    verb: "write",
    params,
    body: z.strictObject({
      ...expectation,
      /** Null for the start. */
      cursor: z.string().max(100_000).nullable(),
      reason: Reason,
    }),
    bodyBytesMax: DOCUMENT_BYTES_MAX,
    answer: SensorTransition,
    status: 202,
  },
  createSensorSecret: {
    method: "POST",
    path: `${SENSOR_PATH}/secret`,
    summary: "Makes a new secret for the messages of a push sensor; it is shown this once",
    verb: "write",
    params,
    body: NewSecretBody,
    answer: SensorSecret,
    status: 201,
  },
} as const satisfies Record<string, Operation>;
