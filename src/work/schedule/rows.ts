import type { SkipReason } from "./events.ts";
import type { Instant } from "../../kernel/instant.ts";
import type { Failure } from "../backfill/rows.ts";
import { fixed, int, json, type RowIn, defineTable, text, textOf } from "../../kernel/table.ts";

/** ACTIVE ⇄ PAUSED, and from either to DELETED, which is the end. */
export type ScheduleState = "ACTIVE" | "PAUSED" | "DELETED";

/** The table of schedules. */
export const SCHEDULES = defineTable("schedules", ["schedule_id"], {
  schedule_id: text,
  name: fixed(text),
  spec_hash: text,
  origin: textOf<"code" | "api">(),
  definition_version: int,
  state: textOf<ScheduleState>(),
  state_version: int,
  /** Why it is paused, in somebody's words. */
  reason: textOf<string | null>(),
  overlap: textOf<"allow" | "skip" | "buffer_one">(),
  /** When the schedule as it is now took effect. */
  activated_at: textOf<Instant>(),
  paused_at: textOf<Instant | null>(),
  ticked_through: textOf<Instant>(),
  last_scheduled_for: textOf<Instant | null>(),
  last_tick_id: textOf<string | null>(),
  last_run_key: textOf<string | null>(),
  last_run_id: textOf<string | null>(),
  last_backfill_id: textOf<string | null>(),
  /** The first time that is not decided, and when it is to be. */
  next_scheduled_for: textOf<Instant | null>(),
  next_due_at: textOf<Instant | null>(),
  /** When the schedule has to be looked at; null while it is paused or waits for its run to end. */
  due_at: textOf<Instant | null>(),
  /** Runs of the schedule that have not ended. */
  active_runs: int,
  /** When a run of the schedule last ended: times up to then had to wait for it. */
  last_run_ended_at: textOf<Instant | null>(),
  ticks_triggered: int,
  ticks_skipped: int,
  ticks_failed: int,
  /** Where the next search for stale partitions goes on. */
  stale_place: json<{ asset_index: number; ordinal: number } | null>(),
  created_at: fixed(textOf<Instant>()),
  created_pos: fixed(int),
  row_version: int,
});

/**
 * A schedule and how far its times are decided. Everything up to `ticked_through` is, for ever:
 * no time at or before it is ever acted on again.
 */
export type ScheduleRow = RowIn<typeof SCHEDULES>;

/** The table of decided times. */
export const SCHEDULE_TICKS = defineTable("schedule_ticks", ["schedule_id", "pos"], {
  schedule_id: text,
  pos: int,
  tick_id: textOf<string | null>(),
  scheduled_for: textOf<Instant>(),
  /** The last of several; the same as `scheduled_for` of one. */
  through: textOf<Instant>(),
  count: int,
  manual: int,
  status: textOf<"triggered" | "skipped" | "failed">(),
  reason: textOf<SkipReason | null>(),
  error: json<Failure | null>(),
  run_key: textOf<string | null>(),
  run_id: textOf<string | null>(),
  backfill_id: textOf<string | null>(),
  partition_keys: json<string[] | null>(),
  stale_reasons: json<Record<string, number> | null>(),
  definition_version: int,
  decided_at: textOf<Instant>(),
});

/** A time of a schedule that was decided, or several in a row that were skipped for one reason. */
export type ScheduleTickRow = RowIn<typeof SCHEDULE_TICKS>;
