import { z } from "zod";
import { Count, FailureField, InstantText } from "../events/fields.ts";
import { SplitPhaseField, SplitWantedField } from "../events/split-events.ts";
import type { SplitRow } from "../rows/split-rows.ts";
import { TablePolicy } from "../shard-spec.ts";
import { SplitReport, SplitStep, StepCheck } from "../step-protocol.ts";
import { RunStateField } from "./run-documents.ts";
import { NextField } from "./shard-fields.ts";

/** How far the last step of a split is. */
export const StepStateField = z.enum(["QUEUED", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED"]);

const splitFields = {
  split_id: z.string(),
  description: z.string().nullable(),
  source: z.string(),
  target: z.string(),
  tenants: z.array(z.string()),
  tables: z.array(TablePolicy),
  phase: SplitPhaseField,
  state_version: Count,
  /** Why it is in this phase, in somebody's words. */
  reason: z.string().nullable(),
  /** What was asked for and has not been come to yet. */
  wanted: SplitWantedField.nullable(),
  /** The statement of a change of the schema that is wanted. */
  ddl: z.string().nullable(),
  lag_limit_ms: Count,
  fence_wait_ms: Count,
  fence_hold_ms: Count,
  grace_ms: Count,
  dual_write_started_at: InstantText.nullable(),
  /** Attempts of all steps that failed. */
  failures: Count,
  error: FailureField.nullable(),
  error_at: InstantText.nullable(),
  routing_version_at_start: Count,
  routing_version_cutover: Count.nullable(),
  routing_version_rollback: Count.nullable(),
  planned_by: z.string(),
  planned_at: InstantText,
  cutover_at: InstantText.nullable(),
  finished_at: InstantText.nullable(),
  /** When what is left on the source may be removed, and when it was. */
  remove_after: InstantText.nullable(),
  removed_at: InstantText.nullable(),
  /** When there is something to do by the time alone: to remove, or to try a cutover again. */
  due_at: InstantText.nullable(),
  updated_at: InstantText,
  created_pos: Count,
  row_version: Count,
} satisfies { [Field in keyof SplitRow]?: z.ZodType<SplitRow[Field]> };

/** The fields of a split's row that are shown as they are. */
export const SPLIT_FIELDS = Object.keys(splitFields) as (keyof typeof splitFields)[];

const backfill = z.strictObject({
  status: z.enum(["pending", "running", "completed", "failed"]),
  started_at: InstantText.nullable(),
  completed_at: InstantText.nullable(),
  total_rows_copied: Count,
  /** In the order in which they are copied; `cursor` is the key of the last row. */
  tables: z.array(
    z.strictObject({
      table: z.string(),
      rows: Count,
      cursor: z.array(z.string()).nullable(),
      done: z.boolean(),
    }),
  ),
  /** Rows of each tenant, as far as they are counted. */
  tenants: z.record(z.string(), Count),
});

const tail = z.strictObject({
  status: z.enum(["pending", "running", "caught_up", "failed"]),
  last_event_id: z.string().nullable(),
  last_event_ts: z.string().nullable(),
  lag_events: Count.nullable(),
  lag_ms: Count.nullable(),
});

const verification = z.strictObject({
  ok: z.boolean(),
  ranges: Count,
  rows: Count,
  finished: z.boolean(),
  note: z.string().nullable(),
}) satisfies z.ZodType<NonNullable<SplitRow["verification"]>>;

const step = z.strictObject({
  n: Count,
  step: SplitStep,
  /** Null when its end was taken note of. */
  state: StepStateField.nullable(),
  run_id: z.string().nullable(),
  worker_id: z.string().nullable(),
  /** The attempt that is under way or was the last; 0 before the first. */
  attempt: Count,
  /** When it is tried again after a failure. */
  retry_at: InstantText.nullable(),
  /** When it last said how far it is. */
  reported_at: InstantText.nullable(),
  /** It waits, but no worker of this server that knows both shards has asked within the last minute. */
  lacks_worker: z.boolean(),
});

/** A split as the API shows it; while a step runs, with how far that is now. */
export const SplitDocument = z
  .strictObject({
    id: z.string(),
    ...splitFields,
    auto_cutover: z.boolean(),
    /** Whether capture is armed on the source, and proven. */
    armed: z.boolean(),
    backfill,
    tail,
    verification: verification.nullable(),
    /** What the look at both schemas found; null before it. */
    checks: z.array(StepCheck).nullable(),
    error_message: z.string().nullable(),
    /** How long writes stood still at the last cutover. */
    write_pause_ms: z.number().nonnegative().nullable(),
    /** The last step; null before the first. */
    step: step.nullable(),
    next: NextField,
  })
  .meta({ id: "Split" });
export type SplitDocument = z.infer<typeof SplitDocument>;

/** One step of a split: the run that did it, and what was taken note of at its end. */
export const SplitStepDocument = z
  .strictObject({
    n: Count,
    step: SplitStep,
    run_id: z.string(),
    state: RunStateField,
    requested_at: InstantText,
    started_at: InstantText.nullable(),
    finished_at: InstantText.nullable(),
    error: FailureField.nullable(),
    /** `fell_back`: a cutover that could not be had; null while its end is not taken note of. */
    outcome: z.enum(["done", "stopped", "failed", "fell_back"]).nullable(),
    reason: z.string().nullable(),
    report: SplitReport.nullable(),
  })
  .meta({ id: "SplitStep" });
export type SplitStepDocument = z.infer<typeof SplitStepDocument>;
