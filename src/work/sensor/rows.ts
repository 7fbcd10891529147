import type { z } from "zod";
import type { Json } from "../../kernel/canonical.ts";
import type { SensorRunRequestField } from "./events.ts";
import type { Instant } from "../../kernel/instant.ts";
import type { EvaluationSource } from "../keys.ts";
import type { Failure } from "../backfill/rows.ts";
import { fixed, int, json, type RowIn, defineTable, text, textOf } from "../../kernel/table.ts";

/** ACTIVE ⇄ PAUSED; ERROR while the last evaluation failed; DELETED is the end. */
export type SensorState = "ACTIVE" | "PAUSED" | "ERROR" | "DELETED";

/** The table of sensors. */
export const SENSORS = defineTable("sensors", ["sensor_id"], {
  sensor_id: text,
  name: fixed(text),
  spec_hash: text,
  origin: textOf<"code" | "api">(),
  definition_version: int,
  mode: textOf<"push" | "poll">(),
  state: textOf<SensorState>(),
  state_version: int,
  /** Why it is paused, in somebody's words. */
  reason: textOf<string | null>(),
  cursor: textOf<string | null>(),
  last_evaluation_at: textOf<Instant | null>(),
  last_eval_id: textOf<string | null>(),
  last_message_at: textOf<Instant | null>(),
  /** Why the last evaluation failed; null when it did not. */
  error: json<Failure | null>(),
  /** Evaluations that something came of. */
  evaluations: int,
  runs_requested: int,
  messages_received: int,
  messages_pending: int,
  created_at: fixed(textOf<Instant>()),
  created_pos: fixed(int),
  row_version: int,
});

/** A sensor and how far it has looked. */
export type SensorRow = RowIn<typeof SENSORS>;

/** The table of messages. */
export const SENSOR_MESSAGES = defineTable("sensor_messages", ["sensor_id", "message_id"], {
  sensor_id: text,
  message_id: text,
  source: fixed(textOf<"webhook" | "pubsub" | "cloudevents">()),
  message_type: fixed(textOf<string | null>()),
  attributes: json<Record<string, string> | null>(),
  payload: json<Json>(),
  payload_digest: fixed(text),
  published_at: fixed(textOf<string | null>()),
  received_at: fixed(textOf<Instant>()),
  received_pos: fixed(int),
  state: textOf<"PENDING" | "EVALUATED" | "FAILED">(),
  eval_id: textOf<string | null>(),
});

/** A message of a push sensor. Its payload goes once it is evaluated; that it came is kept. */
export type SensorMessageRow = RowIn<typeof SENSOR_MESSAGES>;

/** A run that an evaluation asked for, and what became of the request. */
export type SensorRunRequest = z.infer<typeof SensorRunRequestField>;

/** The table of evaluations. */
export const SENSOR_EVALS = defineTable("sensor_evals", ["sensor_id", "pos"], {
  sensor_id: text,
  pos: int,
  eval_id: text,
  trigger_source: json<EvaluationSource>(),
  cursor_before: textOf<string | null>(),
  cursor_after: textOf<string | null>(),
  status: textOf<"triggered" | "no_new_data" | "error" | "skipped_stale_cursor">(),
  error: json<Failure | null>(),
  run_requests: json<SensorRunRequest[]>(),
  evaluated_at: textOf<Instant>(),
});

/** An evaluation that something came of. */
export type SensorEvalRow = RowIn<typeof SENSOR_EVALS>;

/** The table of webhooks. */
export const WEBHOOKS = defineTable("webhooks", ["webhook_id"], {
  webhook_id: text,
  name: fixed(text),
  spec_hash: text,
  origin: textOf<"code" | "api">(),
  definition_version: int,
  state: textOf<"ACTIVE" | "PAUSED" | "DELETED">(),
  state_version: int,
  created_at: fixed(textOf<Instant>()),
  created_pos: fixed(int),
  row_version: int,
});

/** A webhook: where outcomes are told. */
export type WebhookRow = RowIn<typeof WEBHOOKS>;
