import type { Json } from "../../kernel/canonical.ts";
import type { SegmentRef } from "./events.ts";
import type { Instant } from "../../kernel/instant.ts";
import type { Interval } from "../../kernel/intervals.ts";
import type { RetryPolicy } from "../definition/spec.ts";
import type { ShardWorkRef } from "../shard/step-protocol.ts";
import type { Failure } from "../backfill/rows.ts";
import type { Condition, Table } from "../../kernel/table.ts";

/** Runs that have not ended. */
export const ACTIVE_RUNS: Condition = { cell: "state", is: "in", values: ["PENDING", "RUNNING"] };

/** PENDING → RUNNING → SUCCEEDED | FAILED | CANCELLED. */
export type RunState = "PENDING" | "RUNNING" | "SUCCEEDED" | "FAILED" | "CANCELLED";

/** WAITING → READY → RUNNING → a terminal state, with RETRY_WAIT between two attempts. */
export type TaskState =
  | "WAITING"
  | "READY"
  | "RUNNING"
  | "RETRY_WAIT"
  | "SUCCEEDED"
  | "FAILED"
  | "CANCELLED"
  | "SKIPPED";

/** Who asked for a run. */
export type TriggerSource =
  | { type: "manual"; user_id: string; request_id: string }
  | { type: "backfill"; backfill_id: string; chunk_id: string; generation: number }
  | { type: "schedule"; schedule_id: string; tick_id: string }
  | { type: "sensor"; sensor_id: string; eval_id: string }
  | ({ type: "sync" } & SegmentRef)
  | { type: "shards"; work: ShardWorkRef };

/** A run: one request for some assets and partitions, and how far it got. Keyed by the pos of its RunRequested. */
export type RunRow = {
  run_pos: number;
  run_id: string;
  run_key: string;
  state: RunState;
  trigger_source_ref: TriggerSource;
  backfill_id: string | null;
  chunk_index: number | null;
  asset_selection: string[];
  partition_keys: string[] | null;
  config: Json;
  labels: Record<string, string>;
  code_version: string | null;
  class: number;
  priority: number;
  retry: RetryPolicy | null;
  tasks_total: number;
  tasks_waiting: number;
  tasks_ready: number;
  tasks_running: number;
  tasks_retry_wait: number;
  tasks_succeeded: number;
  tasks_failed: number;
  tasks_cancelled: number;
  tasks_skipped: number;
  cancel_requested_at: Instant | null;
  cancel_deadline_at: Instant | null;
  cancel_reason: string | null;
  first_error: Failure | null;
  requested_at: Instant;
  started_at: Instant | null;
  finished_at: Instant | null;
  row_version: number;
};

/** The table of runs. */
export const RUNS: Table<RunRow> = {
  name: "runs",
  key: ["run_pos"],
  cells: {
    run_pos: "int",
    run_id: "text",
    run_key: "text",
    state: "text",
    trigger_source_ref: "json",
    backfill_id: "text",
    chunk_index: "int",
    asset_selection: "json",
    partition_keys: "json",
    config: "json",
    labels: "json",
    code_version: "text",
    class: "int",
    priority: "int",
    retry: "json",
    tasks_total: "int",
    tasks_waiting: "int",
    tasks_ready: "int",
    tasks_running: "int",
    tasks_retry_wait: "int",
    tasks_succeeded: "int",
    tasks_failed: "int",
    tasks_cancelled: "int",
    tasks_skipped: "int",
    cancel_requested_at: "text",
    cancel_deadline_at: "text",
    cancel_reason: "text",
    first_error: "json",
    requested_at: "text",
    started_at: "text",
    finished_at: "text",
    row_version: "int",
  },
  fixed: [
    "run_id",
    "run_key",
    "trigger_source_ref",
    "backfill_id",
    "chunk_index",
    "asset_selection",
    "partition_keys",
    "config",
    "labels",
    "code_version",
    "class",
    "priority",
    "retry",
    "tasks_total",
    "requested_at",
  ],
};

/** The permanent memory of a run key. */
export type RunKeyRow = {
  run_key: string;
  run_pos: number;
  run_id: string;
  request_fingerprint: string;
};

/** The table of run keys. */
export const RUN_KEYS: Table<RunKeyRow> = {
  name: "run_keys",
  key: ["run_key"],
  cells: { run_key: "text", run_pos: "int", run_id: "text", request_fingerprint: "text" },
};

/** Two requests that used one run key for different things; only the first made a run. */
export type RunKeyConflictRow = {
  pos: number;
  run_key: string;
  run_id: string;
  run_pos: number;
  request_fingerprint: string;
  conflicting_fingerprint: string;
  conflicting_event_id: string;
  detected_at: Instant;
};

/** The table of run-key conflicts. */
export const RUN_KEY_CONFLICTS: Table<RunKeyConflictRow> = {
  name: "run_key_conflicts",
  key: ["pos"],
  cells: {
    pos: "int",
    run_key: "text",
    run_id: "text",
    run_pos: "int",
    request_fingerprint: "text",
    conflicting_fingerprint: "text",
    conflicting_event_id: "text",
    detected_at: "text",
  },
};

/**
 * One asset in an unfinished run. `ready` and `running` count its tasks; the claim finds work by
 * them. Goes, with its tasks, when the run ends.
 */
export type RunAssetRow = {
  run_pos: number;
  asset_index: number;
  asset_key: string;
  spec_hash: string;
  pool: string | null;
  batch: number;
  /** Which of the run's partition keys, by index; null for all of them. */
  partition_indexes: Interval[] | null;
  first_task: number;
  task_count: number;
  ready: number;
  running: number;
  /** Least and greatest partition key in text order: tells disjoint runs apart at a glance. */
  first_key: string;
  last_key: string;
  class: number;
  priority: number;
};

/** The table of assets in unfinished runs. */
export const RUN_ASSETS: Table<RunAssetRow> = {
  name: "run_assets",
  key: ["run_pos", "asset_index"],
  cells: {
    run_pos: "int",
    asset_index: "int",
    asset_key: "text",
    spec_hash: "text",
    pool: "text",
    batch: "int",
    partition_indexes: "json",
    first_task: "int",
    task_count: "int",
    ready: "int",
    running: "int",
    first_key: "text",
    last_key: "text",
    class: "int",
    priority: "int",
  },
  fixed: [
    "asset_key",
    "spec_hash",
    "pool",
    "batch",
    "partition_indexes",
    "first_task",
    "task_count",
    "first_key",
    "last_key",
    "class",
    "priority",
  ],
};

/** A task of an unfinished run. `attempt` is its fence. */
export type TaskRow = {
  run_pos: number;
  task_key: number;
  asset_index: number;
  asset_key: string;
  /** Index into the run's partition keys; null for a batch task and for an asset without partitions. */
  partition_index: number | null;
  state: TaskState;
  attempt: number;
  /** Attempts that failed by their own doing. */
  failures: number;
  /** Attempts in a row that were lost with their worker, whatever they were doing. */
  lost_attempts: number;
  /** Where its last lease ran out; null once it has started again. */
  lost_pos: number | null;
  worker_id: string | null;
  /** The id of the token that claimed the last attempt; null when that is not on record. */
  claimed_by: string | null;
  started_at: Instant | null;
  started_pos: number | null;
  retry_at: Instant | null;
  finished_at: Instant | null;
  /** Tasks whose success this one still waits for: one fact per edge. */
  unmet: number[] | null;
  /** Tasks that wait for this one. */
  downstream: number[] | null;
  error: Failure | null;
  /** Of a batch task, the partitions that still have to be done, by place; null for all. */
  remaining: Interval[] | null;
  /** Of a batch task, the partitions that its function skipped, by place. */
  skipped: Interval[] | null;
};

/** The table of tasks. */
export const TASKS: Table<TaskRow> = {
  name: "tasks",
  key: ["run_pos", "task_key"],
  cells: {
    run_pos: "int",
    task_key: "int",
    asset_index: "int",
    asset_key: "text",
    partition_index: "int",
    state: "text",
    attempt: "int",
    failures: "int",
    lost_attempts: "int",
    lost_pos: "int",
    worker_id: "text",
    claimed_by: "text",
    started_at: "text",
    started_pos: "int",
    retry_at: "text",
    finished_at: "text",
    unmet: "json",
    downstream: "json",
    error: "json",
    remaining: "json",
    skipped: "json",
  },
  fixed: ["asset_index", "asset_key", "partition_index", "downstream"],
};

/** How many tasks of a pool are running. */
export type PoolRow = { pool: string; running: number };

/** The table of pools. */
export const POOLS: Table<PoolRow> = {
  name: "pools",
  key: ["pool"],
  cells: { pool: "text", running: "int" },
};

/** What is known of one partition of one asset. The key is empty for an asset without partitions. */
export type PartitionRow = {
  asset_key: string;
  partition_key: string;
  partition_values: Record<string, string> | null;
  last_materialization_run_id: string | null;
  last_materialization_at: Instant | null;
  last_materialization_code_version: string | null;
  /** The pos at which the materializing attempt started: what "newer" is judged by. */
  last_materialization_start_pos: number | null;
  /** The pos at which it was materialized: what was started before cannot be known to have seen it. */
  last_materialization_pos: number | null;
  metadata: Json;
  last_attempt_run_id: string;
  last_attempt_at: Instant;
  last_attempt_outcome: "SUCCEEDED" | "FAILED" | "CANCELLED" | "SKIPPED";
  last_attempt_start_pos: number;
  row_version: number;
};

/** The table of partition status. */
export const PARTITIONS: Table<PartitionRow> = {
  name: "partition_status",
  key: ["asset_key", "partition_key"],
  cells: {
    asset_key: "text",
    partition_key: "text",
    partition_values: "json",
    last_materialization_run_id: "text",
    last_materialization_at: "text",
    last_materialization_code_version: "text",
    last_materialization_start_pos: "int",
    last_materialization_pos: "int",
    metadata: "json",
    last_attempt_run_id: "text",
    last_attempt_at: "text",
    last_attempt_outcome: "text",
    last_attempt_start_pos: "int",
    row_version: "int",
  },
  fixed: ["partition_values"],
};

/** When anything of an asset was last materialized. */
export type AssetStatusRow = {
  asset_key: string;
  last_materialization_at: Instant;
  last_materialization_pos: number;
};

/** The table of what assets as a whole are known by. */
export const ASSET_STATUS: Table<AssetStatusRow> = {
  name: "asset_status",
  key: ["asset_key"],
  cells: {
    asset_key: "text",
    last_materialization_at: "text",
    last_materialization_pos: "int",
  },
};
