import type { SkipReason } from "./events.ts";
import type { Instant } from "../../kernel/instant.ts";
import type { Failure } from "../backfill/rows.ts";
import type { Table } from "../../kernel/table.ts";

/** ACTIVE ⇄ PAUSED, and from either to DELETED, which is the end. */
export type ScheduleState = "ACTIVE" | "PAUSED" | "DELETED";

/**
 * A schedule and how far its times are decided. Everything up to `ticked_through` is, for ever:
 * no time at or before it is ever acted on again.
 */
export type ScheduleRow = {
  schedule_id: string;
  name: string;
  spec_hash: string;
  origin: "code" | "api";
  definition_version: number;
  state: ScheduleState;
  state_version: number;
  /** Why it is paused, in somebody's words. */
  reason: string | null;
  overlap: "allow" | "skip" | "buffer_one";
  /** When the schedule as it is now took effect. */
  activated_at: Instant;
  paused_at: Instant | null;
  ticked_through: Instant;
  last_scheduled_for: Instant | null;
  last_tick_id: string | null;
  last_run_key: string | null;
  last_run_id: string | null;
  last_backfill_id: string | null;
  /** The first time that is not decided, and when it is to be. */
  next_scheduled_for: Instant | null;
  next_due_at: Instant | null;
  /** When the schedule has to be looked at; null while it is paused or waits for its run to end. */
  due_at: Instant | null;
  /** Runs of the schedule that have not ended. */
  active_runs: number;
  /** When a run of the schedule last ended: times up to then had to wait for it. */
  last_run_ended_at: Instant | null;
  ticks_triggered: number;
  ticks_skipped: number;
  ticks_failed: number;
  /** Where the next search for stale partitions goes on. */
  stale_place: { asset_index: number; ordinal: number } | null;
  created_at: Instant;
  created_pos: number;
  row_version: number;
};

/** The table of schedules. */
export const SCHEDULES: Table<ScheduleRow> = {
  name: "schedules",
  key: ["schedule_id"],
  cells: {
    schedule_id: "text",
    name: "text",
    spec_hash: "text",
    origin: "text",
    definition_version: "int",
    state: "text",
    state_version: "int",
    reason: "text",
    overlap: "text",
    activated_at: "text",
    paused_at: "text",
    ticked_through: "text",
    last_scheduled_for: "text",
    last_tick_id: "text",
    last_run_key: "text",
    last_run_id: "text",
    last_backfill_id: "text",
    next_scheduled_for: "text",
    next_due_at: "text",
    due_at: "text",
    active_runs: "int",
    last_run_ended_at: "text",
    ticks_triggered: "int",
    ticks_skipped: "int",
    ticks_failed: "int",
    stale_place: "json",
    created_at: "text",
    created_pos: "int",
    row_version: "int",
  },
  fixed: ["name", "created_at", "created_pos"],
};

/** A time of a schedule that was decided, or several in a row that were skipped for one reason. */
export type ScheduleTickRow = {
  schedule_id: string;
  pos: number;
  tick_id: string | null;
  scheduled_for: Instant;
  /** The last of several; the same as `scheduled_for` of one. */
  through: Instant;
  count: number;
  manual: number;
  status: "triggered" | "skipped" | "failed";
  reason: SkipReason | null;
  error: Failure | null;
  run_key: string | null;
  run_id: string | null;
  backfill_id: string | null;
  partition_keys: string[] | null;
  stale_reasons: Record<string, number> | null;
  definition_version: number;
  decided_at: Instant;
};

/** The table of decided times. */
export const SCHEDULE_TICKS: Table<ScheduleTickRow> = {
  name: "schedule_ticks",
  key: ["schedule_id", "pos"],
  cells: {
    schedule_id: "text",
    pos: "int",
    tick_id: "text",
    scheduled_for: "text",
    through: "text",
    count: "int",
    manual: "int",
    status: "text",
    reason: "text",
    error: "json",
    run_key: "text",
    run_id: "text",
    backfill_id: "text",
    partition_keys: "json",
    stale_reasons: "json",
    definition_version: "int",
    decided_at: "text",
  },
};
