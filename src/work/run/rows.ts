import type { CheckVerdict } from "../asset/checks.ts";
import type { Json } from "../../kernel/canonical.ts";
import type { SegmentRef, WorkRef } from "./events.ts";
import type { Instant } from "../../kernel/instant.ts";
import type { Interval } from "../../kernel/intervals.ts";
import type { RetryPolicy } from "../definition/spec.ts";
import type { ShardWorkRef } from "../shard/step-protocol.ts";
import type { Failure } from "../backfill/rows.ts";
import type { TaskWait } from "../requires/events.ts";
import {
  type Condition,
  fixed,
  int,
  intOf,
  json,
  long,
  type RowIn,
  defineTable,
  text,
  textOf,
} from "../../kernel/table.ts";

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
  | { type: "shards"; work: ShardWorkRef }
  | ({ type: "work" } & WorkRef);

/** The table of runs. */
export const RUNS = defineTable("runs", ["run_pos"], {
  run_pos: int,
  run_id: fixed(text),
  run_key: fixed(text),
  state: textOf<RunState>(),
  trigger_source_ref: fixed(json<TriggerSource>()),
  backfill_id: fixed(textOf<string | null>()),
  chunk_index: fixed(intOf<number | null>()),
  asset_selection: fixed(json<string[]>()),
  partition_keys: fixed(long(json<string[] | null>())),
  config: fixed(json<Json>()),
  labels: fixed(json<Record<string, string>>()),
  code_version: fixed(textOf<string | null>()),
  class: fixed(int),
  priority: fixed(int),
  retry: fixed(json<RetryPolicy | null>()),
  tasks_total: fixed(int),
  tasks_waiting: int,
  tasks_ready: int,
  tasks_running: int,
  tasks_retry_wait: int,
  tasks_succeeded: int,
  tasks_failed: int,
  tasks_cancelled: int,
  tasks_skipped: int,
  cancel_requested_at: textOf<Instant | null>(),
  cancel_deadline_at: textOf<Instant | null>(),
  cancel_reason: textOf<string | null>(),
  first_error: json<Failure | null>(),
  requested_at: fixed(textOf<Instant>()),
  started_at: textOf<Instant | null>(),
  finished_at: textOf<Instant | null>(),
  row_version: int,
});

/** A run: one request for some assets and partitions, and how far it got. Keyed by the pos of its RunRequested. */
export type RunRow = RowIn<typeof RUNS>;

/** The table of run keys. */
export const RUN_KEYS = defineTable("run_keys", ["run_key"], {
  run_key: text,
  run_pos: int,
  run_id: text,
  request_fingerprint: text,
});

/** The permanent memory of a run key. */
export type RunKeyRow = RowIn<typeof RUN_KEYS>;

/** The table of run-key conflicts. */
export const RUN_KEY_CONFLICTS = defineTable("run_key_conflicts", ["pos"], {
  pos: int,
  run_key: text,
  run_id: text,
  run_pos: int,
  request_fingerprint: text,
  conflicting_fingerprint: text,
  conflicting_event_id: text,
  detected_at: textOf<Instant>(),
});

/** Two requests that used one run key for different things; only the first made a run. */
export type RunKeyConflictRow = RowIn<typeof RUN_KEY_CONFLICTS>;

/** The table of assets in unfinished runs. */
export const RUN_ASSETS = defineTable("run_assets", ["run_pos", "asset_index"], {
  run_pos: int,
  asset_index: int,
  asset_key: fixed(text),
  spec_hash: fixed(text),
  pool: fixed(textOf<string | null>()),
  batch: fixed(int),
  /** Which of the run's partition keys, by index; null for all of them. */
  partition_indexes: fixed(json<Interval[] | null>()),
  first_task: fixed(int),
  task_count: fixed(int),
  ready: int,
  running: int,
  /** Least and greatest partition key in text order: tells disjoint runs apart at a glance. */
  first_key: fixed(text),
  last_key: fixed(text),
  class: fixed(int),
  priority: fixed(int),
});

/**
 * One asset in an unfinished run. `ready` and `running` count its tasks; the claim finds work by
 * them. Goes, with its tasks, when the run ends.
 */
export type RunAssetRow = RowIn<typeof RUN_ASSETS>;

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
  /** What it waited for last since its last attempt, as its asset requires it; it still does while it is WAITING. */
  waits: (TaskWait & { pos: number }) | null;
  /** Of a batch task, the partitions that still have to be done, by place; null for all. */
  remaining: Interval[] | null;
  /** Of a batch task, the partitions that its function skipped, by place. */
  skipped: Interval[] | null;
};

/** Neighbouring tasks of one asset, with the partition of the first: those of the others follow it. */
export type TaskGroup = [
  from: number,
  to: number,
  asset_index: number,
  asset_key: string,
  partition_index: number | null,
];

/** What tasks have in common that went through the same. */
export type TaskStatus = [
  state: TaskState,
  attempt: number,
  failures: number,
  lost_attempts: number,
  lost_pos: number | null,
  worker_id: string | null,
  claimed_by: string | null,
  started_at: Instant | null,
  started_pos: number | null,
  retry_at: Instant | null,
  finished_at: Instant | null,
];

/** Neighbouring tasks that run, with their fence. */
export type HeldStretch = [from: number, to: number, attempt: number, claimed_by: string | null];

/** What only few tasks have. */
export type TaskApart = {
  [Cell in "unmet" | "downstream" | "error" | "waits" | "remaining" | "skipped"]?: NonNullable<
    TaskRow[Cell]
  >;
};

/** The table of blocks of tasks: of neighbours, what is equal is written once. */
export const TASK_BLOCKS = defineTable("task_blocks", ["run_pos", "block"], {
  run_pos: int,
  block: int,
  groups: fixed(json<TaskGroup[]>()),
  /** How many have failed, or were skipped for it. */
  failed: int,
  /** Those that run; null when none does. Statements about fences read this. */
  held: json<HeldStretch[] | null>(),
  states: json<TaskStatus[]>(),
  /** Three numbers for each stretch of tasks, counted from the block's first: from, to, state. */
  places: json<number[]>(),
  apart: json<Record<string, TaskApart> | null>(),
});

/** Neighbouring tasks of an unfinished run; `task-blocks.ts` reads and writes them. */
export type TaskBlockRow = RowIn<typeof TASK_BLOCKS>;

/** The table of tasks that wait to be tried again, or for something at most until then. */
export const TASK_RETRIES = defineTable("task_retries", ["run_pos", "task_key"], {
  run_pos: int,
  task_key: int,
  asset_key: fixed(text),
  retry_at: textOf<Instant>(),
});

/** A task whose time comes: few have one, and they are found by it. */
export type TaskRetryRow = RowIn<typeof TASK_RETRIES>;

/** The table of pools. */
export const POOLS = defineTable("pools", ["pool"], {
  pool: text,
  running: int,
});

/** How many tasks of a pool are running. */
export type PoolRow = RowIn<typeof POOLS>;

/** How an attempt at a partition ended. */
export type AttemptOutcome = "SUCCEEDED" | "FAILED" | "CANCELLED" | "SKIPPED";

/** What partitions of a block have in common that were tried together. */
export type BlockAttempt = [
  run_id: string,
  at: Instant,
  /** The pos at which the attempt started: what "newer" is judged by. */
  start_pos: number,
  /** The pos at which it ended. */
  pos: number,
  outcome: AttemptOutcome,
  code_version: string | null,
  /** What the checks of a success came to; absent where there were none. */
  checks?: CheckVerdict,
];

/**
 * What the last materializations of neighbouring places said, null for nothing, and how much of what any of
 * them said is in rows of its own, if something is; and whether that is where the last word is.
 */
export type BlockMetadata =
  | [from: number, to: number, value: Json]
  | [from: number, to: number, value: Json, kept: number]
  | [from: number, to: number, value: null, kept: number, isApart: 1];

/** The table of blocks of partitions: of neighbours, what is equal is written once. */
export const PARTITION_BLOCKS = defineTable("partition_blocks", ["asset_key", "block"], {
  asset_key: text,
  /** Follows from the partition's key alone, so no change of a definition moves anything. */
  block: text,
  /** How many of its partitions were ever tried. */
  tried: int,
  /** How many of them were ever materialized. */
  materialized: int,
  /** At how many the last attempt failed. */
  failing: int,
  /** How many of those were never materialized. */
  failed: int,
  attempts: json<BlockAttempt[]>(),
  /** Four numbers for each stretch of places: from, to, last attempt, last success or -1. */
  places: json<number[]>(),
  /** What keys have of their own at its places, where they are no numbers. */
  keys: json<string[] | null>(),
  metadata: json<BlockMetadata[] | null>(),
});

/** What is known of neighbouring partitions of an asset; `partition-blocks.ts` reads and writes it. */
export type PartitionBlockRow = RowIn<typeof PARTITION_BLOCKS>;

/** The table of what materializations said of themselves that is not in a block: earlier ones, or too large. */
export const PARTITION_METADATA = defineTable(
  "partition_metadata",
  ["asset_key", "partition_key", "slot"],
  {
    asset_key: text,
    partition_key: text,
    /** Its number among those of its partition, but that later ones take the places of the oldest. */
    slot: int,
    /** The same of its materialization that blocks remember of the last one. */
    run_id: text,
    at: textOf<Instant>(),
    start_pos: int,
    pos: int,
    code_version: textOf<string | null>(),
    metadata: json<Json>(),
  },
);

/** What a materialization said of itself. */
export type PartitionMetadataRow = RowIn<typeof PARTITION_METADATA>;

/** What is known of one partition of one asset. The key is empty for an asset without partitions. */
export type PartitionRow = {
  asset_key: string;
  partition_key: string;
  last_materialization_run_id: string | null;
  last_materialization_at: Instant | null;
  last_materialization_code_version: string | null;
  /** The pos at which the materializing attempt started: what "newer" is judged by. */
  last_materialization_start_pos: number | null;
  /** The pos at which it was materialized: what was started before cannot be known to have seen it. */
  last_materialization_pos: number | null;
  /** What its checks came to; null where there were none. */
  last_materialization_checks: CheckVerdict | null;
  last_attempt_run_id: string;
  last_attempt_at: Instant;
  last_attempt_outcome: AttemptOutcome;
  last_attempt_start_pos: number;
  row_version: number;
};

/** The table of what assets as a whole are known by. */
export const ASSET_STATUS = defineTable("asset_status", ["asset_key"], {
  asset_key: text,
  last_materialization_at: textOf<Instant>(),
  last_materialization_pos: int,
});

/** When anything of an asset was last materialized. */
export type AssetStatusRow = RowIn<typeof ASSET_STATUS>;
