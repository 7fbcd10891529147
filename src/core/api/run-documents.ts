import { z } from "zod";
import { Count, FailureField, InstantText, IntervalPair, JsonValue } from "../events/fields.ts";
import { TriggerSourceField } from "../events/run-events.ts";
import { ProgressDocument } from "../protocol.ts";
import type { RunKeyConflictRow, RunRow, TaskRow } from "../rows/run-rows.ts";
import { RetryPolicy } from "../spec.ts";

/** Where a run stands. */
export const RunStateField = z.enum(["PENDING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED"]);

/** What asked for a run: a person, or which part of Pawl. */
export const TriggerField = z.enum([
  "manual",
  "backfill",
  "schedule",
  "sensor",
  "sync",
  "split",
  "move",
]);

/** Where a task stands. */
export const TaskStateField = z.enum([
  "WAITING",
  "READY",
  "RUNNING",
  "RETRY_WAIT",
  "SUCCEEDED",
  "FAILED",
  "CANCELLED",
  "SKIPPED",
]);

/** A run as the API shows it: its row. */
export const RunDocument = z
  .strictObject({
    run_pos: Count,
    run_id: z.string(),
    run_key: z.string(),
    state: RunStateField,
    trigger_source_ref: TriggerSourceField,
    backfill_id: z.string().nullable(),
    chunk_index: Count.nullable(),
    asset_selection: z.array(z.string()),
    partition_keys: z.array(z.string()).nullable(),
    config: JsonValue,
    labels: z.record(z.string(), z.string()),
    code_version: z.string().nullable(),
    class: Count,
    priority: z.int(),
    retry: RetryPolicy.nullable(),
    tasks_total: Count,
    tasks_waiting: Count,
    tasks_ready: Count,
    tasks_running: Count,
    tasks_retry_wait: Count,
    tasks_succeeded: Count,
    tasks_failed: Count,
    tasks_cancelled: Count,
    tasks_skipped: Count,
    cancel_requested_at: InstantText.nullable(),
    cancel_deadline_at: InstantText.nullable(),
    cancel_reason: z.string().nullable(),
    first_error: FailureField.nullable(),
    requested_at: InstantText,
    started_at: InstantText.nullable(),
    finished_at: InstantText.nullable(),
    row_version: Count,
  })
  .meta({ id: "Run" }) satisfies z.ZodType<RunRow>;
export type RunDocument = z.infer<typeof RunDocument>;

const taskRow = z.strictObject({
  run_pos: Count,
  task_key: Count,
  asset_index: Count,
  asset_key: z.string(),
  partition_index: Count.nullable(),
  state: TaskStateField,
  attempt: Count,
  failures: Count,
  /** Attempts in a row that were lost with their worker; no failures of the task. */
  lost_attempts: Count,
  lost_pos: Count.nullable(),
  worker_id: z.string().nullable(),
  /** The id of the token that claimed the last attempt. */
  claimed_by: z.string().nullable(),
  started_at: InstantText.nullable(),
  started_pos: Count.nullable(),
  retry_at: InstantText.nullable(),
  finished_at: InstantText.nullable(),
  unmet: z.array(Count).nullable(),
  downstream: z.array(Count).nullable(),
  /** What went wrong at its last attempt; null while another one runs: what was is with the attempts. */
  error: FailureField.nullable(),
  remaining: z.array(IntervalPair).nullable(),
  skipped: z.array(IntervalPair).nullable(),
}) satisfies z.ZodType<TaskRow>;

/** A task as the API shows it: its row, what it makes, and how far it got. */
export const TaskDocument = taskRow
  .extend({
    run_id: z.string(),
    /** The task's partitions: one, several of a batch, or none. */
    partition_keys: z.array(z.string()),
    progress: ProgressDocument.nullable(),
    /** Ready, but no worker of this server has asked for its asset within the last minute. */
    lacks_worker: z.boolean(),
  })
  .meta({ id: "Task" });
export type TaskDocument = z.infer<typeof TaskDocument>;

/** A line that a task logged. */
export const LogLineDocument = z
  .strictObject({
    line: Count,
    attempt: Count,
    at: InstantText,
    message: z.string(),
    fields: JsonValue,
  })
  .meta({ id: "LogLine" });
export type LogLineDocument = z.infer<typeof LogLineDocument>;

const RequestSide = z.strictObject({
  event_id: z.string(),
  pos: Count,
  occurred_at: InstantText,
  /** Who recorded the request: `pawl` for what a schedule or a backfill asked for. */
  actor: z.strictObject({ principal: z.string(), token_id: z.string().nullable() }),
  asset_selection: z.array(z.string()),
  partition_selection: z.array(z.string()).nullable(),
  config: JsonValue,
  trigger_source_ref: TriggerSourceField,
});

const conflictRow = z.strictObject({
  pos: Count,
  run_key: z.string(),
  run_id: z.string(),
  run_pos: Count,
  request_fingerprint: z.string(),
  conflicting_fingerprint: z.string(),
  conflicting_event_id: z.string(),
  detected_at: InstantText,
}) satisfies z.ZodType<RunKeyConflictRow>;

/** Two different requests under one run key, side by side. */
export const ConflictDocument = conflictRow
  .extend({
    /** Of the request that made the run; the same as `request_fingerprint`. */
    existing_fingerprint: z.string(),
    /** The request that made the run. */
    first: RequestSide,
    /** The request that came later and made none. */
    conflicting: RequestSide,
    /** The fields in which the two differ. */
    differences: z.array(z.enum(["asset_selection", "partition_selection", "config"])),
  })
  .meta({ id: "Conflict" });
export type ConflictDocument = z.infer<typeof ConflictDocument>;
