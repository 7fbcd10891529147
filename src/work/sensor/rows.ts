import type { z } from "zod";
import type { Json } from "../../kernel/canonical.ts";
import type { SensorRunRequestField } from "./events.ts";
import type { Instant } from "../../kernel/instant.ts";
import type { EvaluationSource } from "../keys.ts";
import type { Failure } from "../backfill/rows.ts";
import type { Table } from "../../kernel/table.ts";

/** ACTIVE ⇄ PAUSED; ERROR while the last evaluation failed; DELETED is the end. */
export type SensorState = "ACTIVE" | "PAUSED" | "ERROR" | "DELETED";

/** A sensor and how far it has looked. */
export type SensorRow = {
  sensor_id: string;
  name: string;
  spec_hash: string;
  origin: "code" | "api";
  definition_version: number;
  mode: "push" | "poll";
  state: SensorState;
  state_version: number;
  /** Why it is paused, in somebody's words. */
  reason: string | null;
  cursor: string | null;
  last_evaluation_at: Instant | null;
  last_eval_id: string | null;
  last_message_at: Instant | null;
  /** Why the last evaluation failed; null when it did not. */
  error: Failure | null;
  /** Evaluations that something came of. */
  evaluations: number;
  runs_requested: number;
  messages_received: number;
  messages_pending: number;
  created_at: Instant;
  created_pos: number;
  row_version: number;
};

/** The table of sensors. */
export const SENSORS: Table<SensorRow> = {
  name: "sensors",
  key: ["sensor_id"],
  cells: {
    sensor_id: "text",
    name: "text",
    spec_hash: "text",
    origin: "text",
    definition_version: "int",
    mode: "text",
    state: "text",
    state_version: "int",
    reason: "text",
    cursor: "text",
    last_evaluation_at: "text",
    last_eval_id: "text",
    last_message_at: "text",
    error: "json",
    evaluations: "int",
    runs_requested: "int",
    messages_received: "int",
    messages_pending: "int",
    created_at: "text",
    created_pos: "int",
    row_version: "int",
  },
  fixed: ["name", "created_at", "created_pos"],
};

/** A message of a push sensor. Its payload goes once it is evaluated; that it came is kept. */
export type SensorMessageRow = {
  sensor_id: string;
  message_id: string;
  source: "webhook" | "pubsub" | "cloudevents";
  message_type: string | null;
  attributes: Record<string, string> | null;
  payload: Json;
  payload_digest: string;
  published_at: string | null;
  received_at: Instant;
  received_pos: number;
  state: "PENDING" | "EVALUATED" | "FAILED";
  eval_id: string | null;
};

/** The table of messages. */
export const SENSOR_MESSAGES: Table<SensorMessageRow> = {
  name: "sensor_messages",
  key: ["sensor_id", "message_id"],
  cells: {
    sensor_id: "text",
    message_id: "text",
    source: "text",
    message_type: "text",
    attributes: "json",
    payload: "json",
    payload_digest: "text",
    published_at: "text",
    received_at: "text",
    received_pos: "int",
    state: "text",
    eval_id: "text",
  },
  fixed: [
    "source",
    "message_type",
    "payload_digest",
    "published_at",
    "received_at",
    "received_pos",
  ],
};

/** A run that an evaluation asked for, and what became of the request. */
export type SensorRunRequest = z.infer<typeof SensorRunRequestField>;

/** An evaluation that something came of. */
export type SensorEvalRow = {
  sensor_id: string;
  pos: number;
  eval_id: string;
  trigger_source: EvaluationSource;
  cursor_before: string | null;
  cursor_after: string | null;
  status: "triggered" | "no_new_data" | "error" | "skipped_stale_cursor";
  error: Failure | null;
  run_requests: SensorRunRequest[];
  evaluated_at: Instant;
};

/** The table of evaluations. */
export const SENSOR_EVALS: Table<SensorEvalRow> = {
  name: "sensor_evals",
  key: ["sensor_id", "pos"],
  cells: {
    sensor_id: "text",
    pos: "int",
    eval_id: "text",
    trigger_source: "json",
    cursor_before: "text",
    cursor_after: "text",
    status: "text",
    error: "json",
    run_requests: "json",
    evaluated_at: "text",
  },
};

/** A webhook: where outcomes are told. */
export type WebhookRow = {
  webhook_id: string;
  name: string;
  spec_hash: string;
  origin: "code" | "api";
  definition_version: number;
  state: "ACTIVE" | "PAUSED" | "DELETED";
  state_version: number;
  created_at: Instant;
  created_pos: number;
  row_version: number;
};

/** The table of webhooks. */
export const WEBHOOKS: Table<WebhookRow> = {
  name: "webhooks",
  key: ["webhook_id"],
  cells: {
    webhook_id: "text",
    name: "text",
    spec_hash: "text",
    origin: "text",
    definition_version: "int",
    state: "text",
    state_version: "int",
    created_at: "text",
    created_pos: "int",
    row_version: "int",
  },
  fixed: ["name", "created_at", "created_pos"],
};
