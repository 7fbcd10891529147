import { z } from "zod";
import { NextTickField } from "../definition/events.ts";
import { Count, FailureField, InstantText, Sha256 } from "../envelope.ts";

/** Why a time of a schedule was not acted on. */
export const SkipReason = z.enum([
  "paused",
  "overlap",
  "catchup_window",
  "catchup_limit",
  "nothing_stale",
]);
export type SkipReason = z.infer<typeof SkipReason>;

/** Where a search for stale partitions goes on: an asset of the selection, and an ordinal. */
export const StalePlaceField = z.object({ asset_index: Count, ordinal: Count });

/**
 * One time of a schedule was decided: a run or a backfill was asked for by the event beside this
 * one, the time was skipped, or the request was refused. Uses what stands here, not what the
 * schedule says later.
 */
export const ScheduleTicked = {
  schedule_id: z.string(),
  tick_id: z.string(),
  scheduled_for: InstantText,
  /** A person asked for it; then it says nothing about the schedule's own times. */
  manual: z.boolean(),
  definition_version: z.int().positive(),
  spec_hash: Sha256,
  /** The version of the time zone database that the time was reckoned with. */
  zone_database: z.string(),
  asset_selection: z.array(z.string()).min(1),
  partition_selection: z.array(z.string()).nullable(),
  status: z.enum(["triggered", "skipped", "failed"]),
  reason: SkipReason.nullable(),
  error: FailureField.nullable(),
  run_key: z.string().nullable(),
  run_id: z.string().nullable(),
  request_fingerprint: Sha256.nullable(),
  backfill_id: z.string().nullable(),
  /** Of a schedule that looks for what is stale: how many were asked for by reason, and where the next tick goes on. */
  stale: z
    .object({ reasons: z.record(z.string(), Count), next: StalePlaceField.nullable() })
    .nullable(),
  next: NextTickField.nullable(),
};

/** Many times of a schedule in a row were skipped for one reason. */
export const ScheduleTicksSkipped = {
  schedule_id: z.string(),
  from: InstantText,
  through: InstantText,
  count: z.int().positive(),
  reason: SkipReason,
  definition_version: z.int().positive(),
  next: NextTickField.nullable(),
};

/** Somebody stopped the schedule: nothing is recorded until it is resumed. */
export const SchedulePaused = {
  schedule_id: z.string(),
  state_version: z.int().positive(),
  reason: z.string().nullable(),
};

/** The schedule acts again; what it missed is decided by the events beside this one or the next ticks. */
export const ScheduleResumed = {
  schedule_id: z.string(),
  state_version: z.int().positive(),
  reason: z.string().optional(),
  next: NextTickField.nullable(),
};
