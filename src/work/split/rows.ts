import type { Instant } from "../../kernel/instant.ts";
import type { TablePolicy } from "../shard/spec.ts";
import type { SplitReport, SplitStep } from "../shard/step-protocol.ts";
import type { Failure } from "../backfill/rows.ts";
import type { Condition, Table } from "../../kernel/table.ts";

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
export type SplitWanted = "cutover" | "complete" | "rollback" | "ddl";

/** How far a split's last step is; null when it was taken note of. */
export type StepState = "QUEUED" | "RUNNING" | "SUCCEEDED" | "FAILED" | "CANCELLED";

/** Tenants on their way from one shard to another. One step at a time works on it. */
export type SplitRow = {
  split_id: string;
  description: string | null;
  source: string;
  target: string;
  tenants: string[];
  /** The epoch of each tenant when it was planned, in the same order. */
  epochs: number[];
  tables: TablePolicy[];
  spec_hash: string;
  phase: SplitPhase;
  state_version: number;
  reason: string | null;
  wanted: SplitWanted | null;
  /** The statement of a `ddl` that is wanted. */
  ddl: string | null;
  /** Whether it cuts over by itself, 0 or 1. */
  auto_cutover: number;
  lag_limit_ms: number;
  fence_wait_ms: number;
  fence_hold_ms: number;
  grace_ms: number;
  /** Steps asked for so far; the last one, how far it is, and who does it. */
  steps: number;
  step: SplitStep | null;
  step_state: StepState | null;
  step_report: SplitReport | null;
  run_pos: number | null;
  run_id: string | null;
  worker_id: string | null;
  /** Attempts of all steps that failed. */
  failures: number;
  error: Failure | null;
  error_at: Instant | null;
  /** What the look at both schemas found; null before it. */
  checks: NonNullable<SplitReport["checks"]> | null;
  /** Whether capture is armed and proven, and nobody has begun to take it down, 0 or 1. */
  armed: number;
  dual_write_started_at: Instant | null;
  backfill_status: "pending" | "running" | "completed" | "failed";
  backfill_started_at: Instant | null;
  backfill_completed_at: Instant | null;
  total_rows_copied: number;
  table_progress: NonNullable<SplitReport["tables"]>;
  tenant_rows: Record<string, number>;
  tail_status: "pending" | "running" | "caught_up" | "failed";
  last_event_id: string | null;
  last_event_ts: string | null;
  /** As of the end of the last step; a running one knows better. */
  tail_lag_events: number | null;
  tail_lag_ms: number | null;
  verification: NonNullable<SplitReport["verification"]> | null;
  routing_version_at_start: number;
  routing_version_cutover: number | null;
  routing_version_rollback: number | null;
  /** Whether a commit record is there whose step has not carried it out on both shards, 0 or 1. */
  committing: number;
  /** How long writes stood still at the last cutover, in microseconds. */
  write_pause_us: number | null;
  planned_by: string;
  planned_at: Instant;
  cutover_at: Instant | null;
  finished_at: Instant | null;
  /** When what is left on the source may be removed, and when it was. */
  remove_after: Instant | null;
  removed_at: Instant | null;
  /** When there is something to do by the time alone: to remove, or to try a cutover again. */
  due_at: Instant | null;
  updated_at: Instant;
  created_pos: number;
  row_version: number;
};

/** The table of splits. */
export const SPLITS: Table<SplitRow> = {
  name: "splits",
  key: ["split_id"],
  cells: {
    split_id: "text",
    description: "text",
    source: "text",
    target: "text",
    tenants: "json",
    epochs: "json",
    tables: "json",
    spec_hash: "text",
    phase: "text",
    state_version: "int",
    reason: "text",
    wanted: "text",
    ddl: "text",
    auto_cutover: "int",
    lag_limit_ms: "int",
    fence_wait_ms: "int",
    fence_hold_ms: "int",
    grace_ms: "int",
    steps: "int",
    step: "text",
    step_state: "text",
    step_report: "json",
    run_pos: "int",
    run_id: "text",
    worker_id: "text",
    failures: "int",
    error: "json",
    error_at: "text",
    checks: "json",
    armed: "int",
    dual_write_started_at: "text",
    backfill_status: "text",
    backfill_started_at: "text",
    backfill_completed_at: "text",
    total_rows_copied: "int",
    table_progress: "json",
    tenant_rows: "json",
    tail_status: "text",
    last_event_id: "text",
    last_event_ts: "text",
    tail_lag_events: "int",
    tail_lag_ms: "int",
    verification: "json",
    routing_version_at_start: "int",
    routing_version_cutover: "int",
    routing_version_rollback: "int",
    committing: "int",
    write_pause_us: "int",
    planned_by: "text",
    planned_at: "text",
    cutover_at: "text",
    finished_at: "text",
    remove_after: "text",
    removed_at: "text",
    due_at: "text",
    updated_at: "text",
    created_pos: "int",
    row_version: "int",
  },
  fixed: ["description", "source", "target", "tenants", "planned_by", "planned_at", "created_pos"],
};

/** The active split of a tenant: there is at most one, and it goes when the split has ended. */
export type SplitTenantRow = { tenant: string; split_id: string; row_version: number };

/** The table of tenants under a split. */
export const SPLIT_TENANTS: Table<SplitTenantRow> = {
  name: "split_tenants",
  key: ["tenant"],
  cells: { tenant: "text", split_id: "text", row_version: "int" },
};
