import { z } from "zod";
import { ScheduleSpec } from "../automation-specs.ts";
import { Count, FailureField, InstantText } from "../events/fields.ts";
import { SkipReason } from "../events/schedule-events.ts";
import { StaleReasons } from "../partitions/stale-reason.ts";
import type { ScheduleRow } from "../rows/schedule-rows.ts";
import { BackfillStateField } from "./backfill-documents.ts";
import { RunStateField } from "./run-documents.ts";

/** Where a schedule stands. */
export const ScheduleStateField = z.enum(["ACTIVE", "PAUSED", "DELETED"]);

const { ...definitionFields } = ScheduleSpec.omit({ kind: true }).shape;

const scheduleFields = {
  schedule_id: z.string(),
  spec_hash: z.string(),
  origin: z.enum(["code", "api"]),
  definition_version: Count,
  state: ScheduleStateField,
  state_version: Count,
  /** Why it is paused, in somebody's words. */
  reason: z.string().nullable(),
  /** When the schedule as it is now took effect. */
  activated_at: InstantText,
  paused_at: InstantText.nullable(),
  /** All its times up to this one are decided. */
  ticked_through: InstantText,
  last_scheduled_for: InstantText.nullable(),
  last_tick_id: z.string().nullable(),
  last_run_key: z.string().nullable(),
  last_run_id: z.string().nullable(),
  last_backfill_id: z.string().nullable(),
  /** The first time that is not decided, and when it is to be; null while it is not active. */
  next_scheduled_for: InstantText.nullable(),
  next_due_at: InstantText.nullable(),
  /** Runs of the schedule that have not ended. */
  active_runs: Count,
  last_run_ended_at: InstantText.nullable(),
  ticks_triggered: Count,
  ticks_skipped: Count,
  ticks_failed: Count,
  created_at: InstantText,
  created_pos: Count,
  row_version: Count,
} satisfies { [Field in Exclude<keyof ScheduleRow, Untold>]?: z.ZodType<ScheduleRow[Field]> };

/** What is in the definition already, or only for Pawl itself. */
type Untold = "name" | "overlap" | "due_at" | "stale_place";

/** A schedule as the API shows it: its definition, and how far it got. */
export const ScheduleDocument = z
  .strictObject({
    ...definitionFields,
    ...scheduleFields,
    last_run_state: RunStateField.nullable(),
    last_backfill_state: BackfillStateField.nullable(),
    /** Under `buffer_one`, the newest time that waits for the run to end. */
    waiting_for: InstantText.nullable(),
  })
  .meta({ id: "Schedule" });
export type ScheduleDocument = z.infer<typeof ScheduleDocument>;

/** What a time of a schedule came to. */
export const TickStatusField = z.enum(["triggered", "skipped", "failed"]);

/** Most partition keys that a tick is shown with. */
export const TICK_KEYS_SHOWN_MAX = 100;

/** A decided time of a schedule as the API shows it, or several in a row that were skipped. */
export const TickDocument = z
  .strictObject({
    schedule_id: z.string(),
    pos: Count,
    /** Null for several in a row. */
    tick_id: z.string().nullable(),
    scheduled_for: InstantText,
    /** The last of several; the same as `scheduled_for` of one. */
    through: InstantText,
    count: Count,
    /** Whether a person asked for it. */
    manual: z.boolean(),
    status: TickStatusField,
    reason: SkipReason.nullable(),
    error: FailureField.nullable(),
    run_key: z.string().nullable(),
    run_id: z.string().nullable(),
    run_state: RunStateField.nullable(),
    backfill_id: z.string().nullable(),
    backfill_state: BackfillStateField.nullable(),
    /** The assets that the schedule was for then; null for several in a row. */
    asset_selection: z.array(z.string()).nullable(),
    /** The first of them. */
    partition_keys: z.array(z.string()).max(TICK_KEYS_SHOWN_MAX).nullable(),
    partition_count: Count.nullable(),
    stale_reasons: StaleReasons.nullable(),
    definition_version: Count,
    decided_at: InstantText,
  })
  .meta({ id: "ScheduleTick" });
export type TickDocument = z.infer<typeof TickDocument>;

/** A time to come, as a person reads it. */
export const NextTimeDocument = z
  .strictObject({
    scheduled_for: InstantText,
    /** When it is acted on: later by the schedule's own share of its jitter. */
    due_at: InstantText,
    /** What the clock of the time zone shows then, and how far that is ahead of UTC. */
    local_time: z.string(),
    utc_offset: z.string(),
    /**
     * `gap`: it was due while the clock jumped, and comes at the first instant after; `overlap`: the
     * clock shows this time twice.
     */
    change: z.enum(["gap", "overlap"]).nullable(),
  })
  .meta({ id: "NextTime" });
export type NextTimeDocument = z.infer<typeof NextTimeDocument>;
