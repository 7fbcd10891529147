import { z } from "zod";
import { CheckDocument, CheckStatus } from "../asset/checks.ts";
import { Count, FailureField, InstantText, IntervalPair, JsonValue } from "../envelope.ts";
import { TaskWait } from "../requires/events.ts";
import { TriggerSourceField } from "./events.ts";
import { LogLevel, ProgressDocument } from "./protocol.ts";
import type { RunKeyConflictRow, RunRow, TaskRow } from "./rows.ts";
import { RetryPolicy, AssetKey, AssetSelection, Labels } from "../definition/spec.ts";
import { EXPLICIT_KEYS_MAX } from "../../kernel/keyspace/selector.ts";
import {
  accepted,
  commaList,
  type Operation,
  ORCHESTRATION_PATH,
  pageOf,
  pageQuery,
  readQuery,
  timeQuery,
  DOCUMENT_BYTES_MAX,
} from "../operation.ts";

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
  "work",
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
}) satisfies z.ZodType<Omit<TaskRow, "waits">>;

/** A task as the API shows it: its row, what it makes, and how far it got. */
export const TaskDocument = taskRow
  .extend({
    run_id: z.string(),
    /** The task's partitions: one, several of a batch, or none. */
    partition_keys: z.array(z.string()),
    progress: ProgressDocument.nullable(),
    /** What it waits for as its asset requires it; null when it waits for nothing, or for tasks of its run. */
    waits_for: z
      .strictObject({
        ...TaskWait.shape,
        /** The same in words. */
        message: z.string(),
      })
      .nullable(),
    /** Ready, but no worker of this server has asked for its asset within the last minute. */
    lacks_worker: z.boolean(),
  })
  .meta({ id: "Task" });
export type TaskDocument = z.infer<typeof TaskDocument>;

/** A line that a task logged. */
export const LogLineDocument = z
  .strictObject({
    /** Grows within a task. */
    line: Count,
    attempt: Count,
    at: InstantText,
    /** The field `level`, where that is one of these; else `info`. */
    level: LogLevel,
    message: z.string(),
    fields: JsonValue,
  })
  .meta({ id: "LogLine" });
export type LogLineDocument = z.infer<typeof LogLineDocument>;

/** A line of the log of a run, and which of its tasks logged it. */
export const RunLogLineDocument = LogLineDocument.extend({
  run_id: z.string(),
  task_key: Count,
  asset_key: z.string(),
  /** The first few of the task's partitions. */
  partition_keys: z.array(z.string()),
  /** All of its partitions; 0 for work without partitions. */
  partition_count: Count,
}).meta({ id: "RunLogLine" });
export type RunLogLineDocument = z.infer<typeof RunLogLineDocument>;

/** Most lines on a page of the log of a run. */
const LOG_PAGE_MAX = 1_000;

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

/** How an attempt ended; `RELEASED`: its worker gave the task back untried. */
export const AttemptOutcomeField = z.enum([
  "SUCCEEDED",
  "FAILED",
  "CANCELLED",
  "SKIPPED",
  "LEASE_EXPIRED",
  "RELEASED",
]);

/** One attempt at a task, from the events of its run. */
export const AttemptDocument = z
  .strictObject({
    task_key: Count,
    attempt: Count,
    worker_id: z.string(),
    started_at: InstantText,
    /** Null while it goes on. */
    ended_at: InstantText.nullable(),
    outcome: AttemptOutcomeField.nullable(),
    /** Of a batch task that failed in some of its partitions only, the first of those. */
    error: FailureField.nullable(),
    /** From when on there is another attempt. */
    retry_at: InstantText.nullable(),
    /** Partitions of the attempt, and those of them that failed or were skipped on their own. */
    partitions: Count,
    partitions_failed: Count,
    partitions_skipped: Count,
    /** What its checks came to, the worst of all its partitions; null where there were none. */
    check_status: CheckStatus.nullable(),
  })
  .meta({ id: "Attempt" });
export type AttemptDocument = z.infer<typeof AttemptDocument>;

/** A task as the timeline of its run shows it. */
export const TimelineTaskDocument = z
  .strictObject({
    task_key: Count,
    asset_key: z.string(),
    /** The first few of its partitions. */
    partition_keys: z.array(z.string()),
    /** All of its partitions; 0 for work without partitions. */
    partition_count: Count,
    state: TaskStateField,
    /** When nothing upstream was missing any more; null while something is, or was at its end. */
    ready_at: InstantText.nullable(),
    finished_at: InstantText.nullable(),
  })
  .meta({ id: "TimelineTask" });
export type TimelineTaskDocument = z.infer<typeof TimelineTaskDocument>;

/** What happened in a run, task by task and attempt by attempt. */
export const RunTimelineDocument = z
  .strictObject({
    run_id: z.string(),
    requested_at: InstantText,
    finished_at: InstantText.nullable(),
    /** In the order of their numbers, the first 2,000. */
    tasks: z.array(TimelineTaskDocument),
    /** Pairs of task numbers: the second waits for the first. At most 20,000. */
    edges: z.array(z.tuple([Count, Count])),
    /** In the order of their starts, the first 10,000. */
    attempts: z.array(AttemptDocument),
    /** False when the run has more tasks, edges or attempts than are shown. */
    complete: z.boolean(),
    pos: Count,
  })
  .meta({ id: "RunTimeline" });
export type RunTimelineDocument = z.infer<typeof RunTimelineDocument>;

/** One task of a run with its attempts and what it saved. */
export const TaskDetailDocument = TaskDocument.extend({
  /** What the newest attempt to save something saved; gone when the run has ended. */
  checkpoint: z
    .strictObject({ attempt: Count, value: JsonValue, saved_at: InstantText })
    .nullable(),
  attempts: z.array(AttemptDocument),
  /** What its function said of what it made; null when it said nothing, or has not succeeded. */
  metadata: JsonValue,
  /** What its checks found in what it made, each with how many partitions it is about and the first of them. */
  checks: z.array(
    CheckDocument.extend({ partition_count: Count, partition_keys: z.array(z.string()) }),
  ),
  /** False when the run has more events than are looked through. */
  complete: z.boolean(),
  pos: Count,
}).meta({ id: "TaskDetail" });
export type TaskDetailDocument = z.infer<typeof TaskDetailDocument>;

const RUNS_PATH = `${ORCHESTRATION_PATH}/runs`;
const RUN_PATH = `${RUNS_PATH}/{run_id}`;

/** A wish for one run of some assets. */
export const RequestRunBody = z
  .strictObject({
    /** Names the request; the same name never makes a second run. */
    request_id: z.string().min(1).max(200).optional(),
    /** A key of one's own, under which only one request is ever carried out. */
    run_key: z.string().min(1).max(300).optional(),
    /**
     * What to do when the key stands for another request, which is recorded either way: refuse this
     * one with 409 `RUN_KEY_CONFLICT`, or answer the run that exists.
     */
    on_conflict: z.enum(["refuse", "existing"]).default("refuse"),
    assets: z.array(AssetSelection).min(1).max(1_000),
    /** Left out for assets without partitions. */
    partition_keys: z.array(z.string().min(1).max(2_000)).min(1).max(EXPLICIT_KEYS_MAX).optional(),
    config: JsonValue.optional(),
    labels: Labels.optional(),
    priority: z.int().min(-100).max(100).default(0),
    code_version: z.string().min(1).max(200).optional(),
  })
  .meta({ id: "RequestRun" });
export type RequestRunBody = z.infer<typeof RequestRunBody>;

/** What asking for a run answers. */
export const RequestedRun = z
  .strictObject({
    ...accepted,
    run_id: z.string(),
    run_key: z.string(),
    /**
     * `conflict`, only when the existing run was asked for: the key stands for another request; this
     * one was recorded, and no run was made for it.
     */
    outcome: z.enum(["created", "existing", "conflict"]),
    request_fingerprint: z.string(),
    /** Of the request that made the run; null when this one did. */
    existing_fingerprint: z.string().nullable(),
  })
  .meta({ id: "RequestedRun" });
export type RequestedRun = z.infer<typeof RequestedRun>;

const RunParams = z.strictObject({ run_id: z.string().min(1).max(100) });

const TaskParams = RunParams.extend({ task_key: z.coerce.number<number>().int().min(0) });

/** What the API can do with runs. */
export const RUN_OPERATIONS = {
  listRuns: {
    method: "GET",
    path: RUNS_PATH,
    summary: "Lists runs, newest first",
    verb: "read",
    query: z.strictObject({
      ...pageQuery,
      ...timeQuery,
      status: commaList(RunStateField).optional(),
      backfill_id: z.string().min(1).max(100).optional(),
      /** Runs of this asset, alone or with others. A short page may still have a next. */
      asset: AssetKey.optional(),
      /** Runs that were asked for by these. A short page may still have a next. */
      trigger: commaList(TriggerField).optional(),
    }),
    answer: pageOf(RunDocument),
    status: 200,
  },
  requestRun: {
    method: "POST",
    path: RUNS_PATH,
    summary: "Asks for one run of some assets",
    verb: "write",
    body: RequestRunBody,
    bodyBytesMax: DOCUMENT_BYTES_MAX,
    answer: RequestedRun,
    status: 202,
    creates: true,
    keyField: "request_id",
  },
  getRun: {
    method: "GET",
    path: RUN_PATH,
    summary: "Shows a run",
    verb: "read",
    params: RunParams,
    query: z.strictObject(readQuery),
    answer: RunDocument,
    status: 200,
  },
  listTasks: {
    method: "GET",
    path: `${RUN_PATH}/tasks`,
    summary: "Lists the tasks of a run, in the order of their numbers",
    verb: "read",
    params: RunParams,
    query: z.strictObject({ ...pageQuery, status: commaList(TaskStateField).optional() }),
    answer: pageOf(TaskDocument),
    status: 200,
  },
  getTask: {
    method: "GET",
    path: `${RUN_PATH}/tasks/{task_key}`,
    summary: "Shows a task of a run with its attempts",
    verb: "read",
    params: TaskParams,
    query: z.strictObject(readQuery),
    answer: TaskDetailDocument,
    status: 200,
  },
  getRunTimeline: {
    method: "GET",
    path: `${RUN_PATH}/timeline`,
    summary: "Shows the tasks of a run, what they wait for, and every attempt",
    verb: "read",
    params: RunParams,
    query: z.strictObject(readQuery),
    answer: RunTimelineDocument,
    status: 200,
  },
  listTaskLogs: {
    method: "GET",
    path: `${RUN_PATH}/tasks/{task_key}/logs`,
    summary: "Lists what a task logged, oldest first",
    verb: "read",
    params: TaskParams,
    query: z.strictObject({
      ...pageQuery,
      /** Lines after the one with this number; not together with a cursor. */
      after: z.coerce.number<number>().int().min(0).optional(),
    }),
    answer: pageOf(LogLineDocument).extend({
      /** The number of the newest line, counted from 1; 0 when there is none. */
      last_line: Count,
    }),
    status: 200,
  },
  listRunLogs: {
    method: "GET",
    path: `${RUN_PATH}/logs`,
    summary: "Lists what the tasks of a run logged, task by task, each oldest first",
    verb: "read",
    params: RunParams,
    query: z.strictObject({
      ...pageQuery,
      limit: z.coerce.number<number>().int().min(1).max(LOG_PAGE_MAX).default(200),
      /** Only of this task. */
      task_key: z.coerce.number<number>().int().min(0).optional(),
      /** Only of tasks of this asset. */
      asset: AssetKey.optional(),
      /** Only of tasks that make this partition. */
      partition: z.string().min(1).max(2_000).optional(),
      /** Only lines since then. */
      since: timeQuery.since,
    }),
    answer: pageOf(RunLogLineDocument).extend({
      /** Lines of the run that were not kept, as there was no room for them. */
      dropped: Count,
    }),
    status: 200,
  },
  cancelRun: {
    method: "POST",
    path: `${RUN_PATH}/cancel`,
    summary: "Cancels a run; running tasks are told, and closed after a grace time",
    verb: "write",
    params: RunParams,
    body: z.strictObject({ reason: z.string().min(1).max(1_000).optional() }),
    answer: z
      .strictObject({ ...accepted, run_id: z.string(), state: RunStateField })
      .meta({ id: "RunTransition" }),
    status: 202,
  },
  listConflicts: {
    method: "GET",
    path: `${ORCHESTRATION_PATH}/conflicts`,
    summary: "Lists requests that used a run key of another request, newest first",
    verb: "read",
    query: z.strictObject({ ...pageQuery, ...timeQuery }),
    answer: pageOf(ConflictDocument),
    status: 200,
  },
} as const satisfies Record<string, Operation>;
