import { z } from "zod";
import { Count, FailureField, InstantText } from "../events/fields.ts";
import { MoveStateField } from "../events/move-events.ts";
import { MoveStrategy } from "../move-spec.ts";
import type { MoveRow, MoveSegmentRow } from "../rows/move-rows.ts";
import { Topology } from "../topology.ts";
import { RunStateField } from "./run-documents.ts";
import { NextField } from "./shard-fields.ts";

/** What a move is busy with. */
export const MovePhaseField = z.enum(["survey", "copy", "remove", "check", "done"]);

/** Where a segment of a move stands. */
export const MoveSegmentStateField = z.enum([
  "PENDING",
  "COPIED",
  "REMOVED",
  "POISONED",
  "EXCLUDED",
]);

const moveFields = {
  move_id: z.string(),
  /** The definition it was made from, if any. */
  name: z.string().nullable(),
  state: MoveStateField,
  state_version: Count,
  /** Why it is in this state, in somebody's words. */
  reason: z.string().nullable(),
  lanes_sealed: Count,
  segment_concurrency: Count,
  rows_per_second: Count.nullable(),
  segments_total: Count,
  segments_pending: Count,
  /** Those that have a run, whatever it is for. */
  segments_active: Count,
  segments_copied: Count,
  segments_removed: Count,
  segments_poisoned: Count,
  segments_excluded: Count,
  /** Of the excluded ones, those that may have rows on the target still. */
  segments_discarding: Count,
  rows_estimated: Count,
  rows_copied: Count,
  bytes_copied: Count,
  rows_removed: Count,
  /** Attempts that failed, and how many of them count against the budget. */
  retries: Count,
  retries_counted: Count,
  last_error: FailureField.nullable(),
  last_error_at: InstantText.nullable(),
  /** Requests to compare everything, segments that wait for it, and what did not match. */
  verifications: Count,
  verify_waiting: Count,
  verify_failed: Count,
  planned_by: z.string(),
  created_at: InstantText,
  created_pos: Count,
  started_at: InstantText.nullable(),
  finished_at: InstantText.nullable(),
  row_version: Count,
} satisfies { [Field in keyof MoveRow]?: z.ZodType<MoveRow[Field]> };

/** The fields of a move's row that are shown as they are. */
export const MOVE_FIELDS = Object.keys(moveFields) as (keyof typeof moveFields)[];

/** What the look at where all rows are came to. */
const check = z.strictObject({
  /** How many times it was made, and whether it is being made. */
  n: Count,
  running: z.boolean(),
  /** The last request to compare everything that it answers; 0 for none. */
  answers: Count,
  /** Null before the first. */
  ok: z.boolean().nullable(),
  note: z.string().nullable(),
  /** Rows of excluded segments, which were left out. */
  excepted: Count,
  /** Rows where they do not belong. */
  misplaced: z.array(z.strictObject({ shard: z.string(), table: z.string(), rows: Count })),
});

const moveDocument = z.strictObject({
  ...moveFields,
  /** Whether it is only looked at how large it would be. */
  dry_run: z.boolean(),
  phase: MovePhaseField,
  /** The shards that rows leave, and those that they come to. */
  shards_from: z.array(z.string()),
  shards_to: z.array(z.string()),
  tables: z.array(z.string()),
  strategy: MoveStrategy,
  replication_lag_ms: Count.nullable(),
  segment_attempts: Count,
  retry_budget: Count.nullable(),
  /** Whether the rows stay on the shards that they came from. */
  keep_source: z.boolean(),
  /** Pairs of shards and tables, and whether it is known how many segments they have. */
  lanes_total: Count,
  surveyed: z.boolean(),
  /** It goes on, but no worker of this server that knows its shards has asked within the last minute. */
  lacks_worker: z.boolean(),
  /** The first of the segments that have a run. */
  current_segment: Count.nullable(),
  /** Segments that are copied, removed or excluded, of all that are known. */
  progress_pct: z.number().min(0).max(100),
  /** Of as many segments as can still run at once, by the work so far; null when not known. */
  rate_rows_per_second: z.number().nonnegative().nullable(),
  eta_seconds: Count.nullable(),
  check,
  next: NextField,
});

/** A move as the API lists it. */
export const MoveDocument = moveDocument.meta({ id: "Move" });
export type MoveDocument = z.infer<typeof MoveDocument>;

/** Rows of one table from one shard to another. */
const LaneDocument = z
  .strictObject({
    lane: Count,
    table: z.string(),
    shard_by: z.string(),
    from: z.string(),
    to: z.string(),
    /** Whether all of its segments are known. */
    sealed: z.boolean(),
  })
  .meta({ id: "MoveLane" });

/** Most lanes that a move is shown with. */
export const LANES_SHOWN_MAX = 1_000;

/** A move with its topologies and what goes where; those may be large. */
export const MoveDetails = moveDocument
  .extend({
    from: Topology,
    to: Topology,
    /** The first thousand. */
    lanes: z.array(LaneDocument),
  })
  .meta({ id: "MoveDetails" });
export type MoveDetails = z.infer<typeof MoveDetails>;

const segmentFields = {
  move_id: z.string(),
  segment_index: Count,
  segment_id: z.string(),
  lane: Count,
  table_name: z.string(),
  /** Keys from here on, and below there; null for no bound. */
  lower: z.array(z.string()).nullable(),
  upper: z.array(z.string()).nullable(),
  generation: Count,
  state: MoveSegmentStateField,
  rows_estimated: Count,
  rows_copied: Count,
  bytes_copied: Count,
  digest: z.string().nullable(),
  /** How far the copy is known to have got, and the position it was read at. */
  cursor: z.array(z.string()).nullable(),
  position: z.string().nullable(),
  run_id: z.string().nullable(),
  step: z.enum(["copy", "verify", "remove"]).nullable(),
  worker_id: z.string().nullable(),
  attempts: Count,
  /** Attempts that failed since somebody looked. */
  failures: Count,
  next_retry_at: InstantText.nullable(),
  error: FailureField.nullable(),
  excluded: z.strictObject({ by: z.string(), reason: z.string(), at: InstantText }).nullable(),
  created_at: InstantText,
  finished_at: InstantText.nullable(),
  row_version: Count,
} satisfies { [Field in keyof MoveSegmentRow]?: z.ZodType<MoveSegmentRow[Field]> };

/** The fields of a segment's row that are shown as they are. */
export const MOVE_SEGMENT_FIELDS = Object.keys(segmentFields) as (keyof typeof segmentFields)[];

const segmentDocument = z.strictObject({
  ...segmentFields,
  from: z.string(),
  to: z.string(),
  running: z.boolean(),
  /** The last comparison of both sides; null when there was none. */
  verification: z
    .strictObject({
      n: Count,
      ok: z.boolean().nullable(),
      note: z.string().nullable(),
      at: InstantText.nullable(),
    })
    .nullable(),
});

/** A segment of a move as the API lists it; of one that runs, how far it is now. */
export const MoveSegmentDocument = segmentDocument.meta({ id: "MoveSegment" });
export type MoveSegmentDocument = z.infer<typeof MoveSegmentDocument>;

const SegmentRun = z
  .strictObject({
    run_id: z.string(),
    step: z.enum(["copy", "verify", "remove"]),
    /** Counts the runs of the segment from 1. */
    n: Count,
    state: RunStateField,
    requested_at: InstantText,
    started_at: InstantText.nullable(),
    finished_at: InstantText.nullable(),
    error: FailureField.nullable(),
  })
  .meta({ id: "MoveSegmentRun" });
export type SegmentRun = z.infer<typeof SegmentRun>;

/** A segment of a move with its runs, newest first: the last fifty. */
export const MoveSegmentDetails = segmentDocument
  .extend({ runs: z.array(SegmentRun) })
  .meta({ id: "MoveSegmentDetails" });
export type MoveSegmentDetails = z.infer<typeof MoveSegmentDetails>;
