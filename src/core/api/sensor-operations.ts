import { z } from "zod";
import { SensorSpec } from "../automation-specs.ts";
import { Count, JsonValue } from "../events/fields.ts";
import { clientRequestId, definedAnswer, entityAnswer, EntityRef } from "./entity-fields.ts";
import {
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
} from "./operation.ts";
import { NewSecretBody, secretAnswer } from "./secret-fields.ts";
import {
  EvalStatusField,
  EvaluatedSensor,
  MessageStateField,
  SensorDocument,
  SensorEvalDocument,
  SensorMessageDocument,
  SensorStateField,
} from "./sensor-documents.ts";

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
