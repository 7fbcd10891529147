import type { Instant } from "../../kernel/instant.ts";
import type { TablePolicy } from "../shard/spec.ts";
import type { SplitReport, SplitStep } from "../shard/step-protocol.ts";
import type { Failure } from "../backfill/rows.ts";
import {
  type Condition,
  fixed,
  int,
  intOf,
  json,
  type RowIn,
  defineTable,
  text,
  textOf,
} from "../../kernel/table.ts";

/** Splits that have not ended. */
export const OPEN_SPLITS: Condition = {
  cell: "phase",
  is: "in",
  values: ["planning", "dual_write", "backfill", "tailing", "cutover_pending", "reversible"],
};

/**
 * planning → dual_write → backfill → tailing → cutover_pending → reversible → completed; from every
 * phase before the last to rolled_back, and from there to dual_write when the plan is run again.
 */
export type SplitPhase =
  | "planning"
  | "dual_write"
  | "backfill"
  | "tailing"
  | "cutover_pending"
  | "reversible"
  | "completed"
  | "rolled_back";

/** What was asked for and has not been come to yet. */
export type SplitWish = "cutover" | "complete" | "rollback" | "ddl";

/** How far a split's last step is; null when it was taken note of. */
export type StepState = "QUEUED" | "RUNNING" | "SUCCEEDED" | "FAILED" | "CANCELLED";

/** The table of splits. */
export const SPLITS = defineTable("splits", ["split_id"], {
  split_id: text,
  description: fixed(textOf<string | null>()),
  source: fixed(text),
  target: fixed(text),
  tenants: fixed(json<string[]>()),
  /** The epoch of each tenant when it was planned, in the same order. */
  epochs: json<number[]>(),
  tables: json<TablePolicy[]>(),
  spec_hash: text,
  phase: textOf<SplitPhase>(),
  state_version: int,
  reason: textOf<string | null>(),
  wanted: textOf<SplitWish | null>(),
  /** The statement of a `ddl` that is wanted. */
  ddl: textOf<string | null>(),
  /** Whether it cuts over by itself, 0 or 1. */
  auto_cutover: int,
  lag_limit_ms: int,
  fence_wait_ms: int,
  fence_hold_ms: int,
  grace_ms: int,
  /** Steps asked for so far; the last one, how far it is, and who does it. */
  steps: int,
  step: textOf<SplitStep | null>(),
  step_state: textOf<StepState | null>(),
  step_report: json<SplitReport | null>(),
  run_pos: intOf<number | null>(),
  run_id: textOf<string | null>(),
  worker_id: textOf<string | null>(),
  /** Attempts of all steps that failed. */
  failures: int,
  error: json<Failure | null>(),
  error_at: textOf<Instant | null>(),
  /** What the look at both schemas found; null before it. */
  checks: json<NonNullable<SplitReport["checks"]> | null>(),
  /** Whether capture is armed and proven, and nobody has begun to take it down, 0 or 1. */
  armed: int,
  dual_write_started_at: textOf<Instant | null>(),
  backfill_status: textOf<"pending" | "running" | "completed" | "failed">(),
  backfill_started_at: textOf<Instant | null>(),
  backfill_completed_at: textOf<Instant | null>(),
  total_rows_copied: int,
  table_progress: json<NonNullable<SplitReport["tables"]>>(),
  tenant_rows: json<Record<string, number>>(),
  tail_status: textOf<"pending" | "running" | "caught_up" | "failed">(),
  last_event_id: textOf<string | null>(),
  last_event_ts: textOf<string | null>(),
  /** As of the end of the last step; a running one knows better. */
  tail_lag_events: intOf<number | null>(),
  tail_lag_ms: intOf<number | null>(),
  verification: json<NonNullable<SplitReport["verification"]> | null>(),
  routing_version_at_start: int,
  routing_version_cutover: intOf<number | null>(),
  routing_version_rollback: intOf<number | null>(),
  /** Whether a commit record is there whose step has not carried it out on both shards, 0 or 1. */
  committing: int,
  /** How long writes stood still at the last cutover, in microseconds. */
  write_pause_us: intOf<number | null>(),
  planned_by: fixed(text),
  planned_at: fixed(textOf<Instant>()),
  cutover_at: textOf<Instant | null>(),
  finished_at: textOf<Instant | null>(),
  /** When what is left on the source may be removed, and when it was. */
  remove_after: textOf<Instant | null>(),
  removed_at: textOf<Instant | null>(),
  /** When there is something to do by the time alone: to remove, or to try a cutover again. */
  due_at: textOf<Instant | null>(),
  updated_at: textOf<Instant>(),
  created_pos: fixed(int),
  row_version: int,
});

/** Tenants on their way from one shard to another. One step at a time works on it. */
export type SplitRow = RowIn<typeof SPLITS>;

/** The table of tenants under a split. */
export const SPLIT_TENANTS = defineTable("split_tenants", ["tenant"], {
  tenant: text,
  split_id: text,
  row_version: int,
});

/** The active split of a tenant: there is at most one, and it goes when the split has ended. */
export type SplitTenantRow = RowIn<typeof SPLIT_TENANTS>;
