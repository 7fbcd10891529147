import { z } from "zod";
import { Count, FailureField, InstantText } from "../envelope.ts";
import { SyncStateField } from "./events.ts";
import type { SegmentRow, SyncRow } from "./rows.ts";
import { Block } from "./spec.ts";

/** Where a sync stands as it is shown: FAILED while a segment waits for its retry. */
export const SyncStatusField = z.enum([...SyncStateField.options, "FAILED"]);

/** Where a segment stands. */
export const SegmentStatusField = z.enum([
  "PENDING",
  "RUNNING",
  "COMPLETE",
  "FAILED",
  "QUARANTINED",
]);

/** How far a verification is, or what it found. */
export const VerificationStatusField = z.enum([
  "REQUESTED",
  "RUNNING",
  "PASSED",
  "FAILED",
  "ERROR",
]);

/** Blocks a second; null where nothing is left or nothing is known yet. */
const Rate = z.number().nonnegative().nullable();

const Percent = z.number().min(0).max(100);

const syncFields = {
  sync_id: z.string(),
  name: z.string(),
  target: z.record(z.string(), z.string()),
  target_key: z.string(),
  source: z.string(),
  origin: z.enum(["code", "api"]),
  state: SyncStateField,
  status: SyncStatusField,
  state_version: Count,
  /** Why it is in this state, in somebody's words. */
  reason: z.string().nullable(),
  from_block: Block,
  segments_total: Count,
  segments_pending: Count,
  /** Of the pending ones, those that have a run. */
  segments_queued: Count,
  segments_running: Count,
  segments_failed: Count,
  segments_complete: Count,
  segments_quarantined: Count,
  blocks_complete: Count,
  rows_stored: Count,
  /** Attempts that failed, of all its segments. */
  retry_count: Count,
  last_error: FailureField.nullable(),
  last_error_at: InstantText.nullable(),
  /** Times that segments were opened again, and that verifications were asked for. */
  reopenings: Count,
  verifications: Count,
  /** Segments whose verification waits for a run, and those that are being verified. */
  verify_waiting: Count,
  verify_active: Count,
  created_at: InstantText,
  created_pos: Count,
  started_at: InstantText.nullable(),
  /** When it was last complete or caught up with the head. */
  completed_at: InstantText.nullable(),
  row_version: Count,
} satisfies { [Field in keyof SyncRow]?: z.ZodType<SyncRow[Field]> };

/** A sync as the API shows it: one target, how far it is, and how fast it goes. */
export const SyncDocument = z
  .strictObject({
    ...syncFields,
    /** Whether the definition is still there; without it the sync stands still. */
    defined: z.boolean(),
    /** The last block that a segment is planned for; null before the plan. */
    to_block: Block.nullable(),
    /** The last block of a fixed range; null for one that follows the head. */
    to_limit: Block.nullable(),
    /** Everything up to this block is stored; null when nothing is. */
    synced_to: Block.nullable(),
    /** The newest block of the source, as far as it was seen. */
    head: Block.nullable(),
    head_at: InstantText.nullable(),
    /** The newest block that may be synced: so far from the head as the definition says. */
    safe_block: Block.nullable(),
    /** How far `synced_to` is behind what may be synced; null while that is not known. */
    lag_blocks: Count.nullable(),
    /** Blocks that are planned. */
    blocks_total: Count,
    /** Complete segments of all segments. */
    progress_pct: Percent,
    /** When the first of the segments that failed is tried again. */
    next_retry_at: InstantText.nullable(),
    /** In force: its own, or the definition's; null when there is neither. */
    max_parallel: Count.nullable(),
    priority: z.int().nullable(),
    /** From the work that was recorded lately, for as many segments as can still run at once. */
    rate_blocks_per_second: Rate,
    eta_seconds: Count.nullable(),
    eta_at: InstantText.nullable(),
  })
  .meta({ id: "Sync" });
export type SyncDocument = z.infer<typeof SyncDocument>;

const segmentFields = {
  sync_id: z.string(),
  segment_index: Count,
  kind: z.enum(["history", "tail"]),
  from_block: Block,
  to_block: Block,
  generation: Count,
  status: SegmentStatusField,
  run_id: z.string().nullable(),
  /** Everything of it up to this block is stored; null for nothing. */
  last_processed_block: Block.nullable(),
  retry_count: Count,
  error_class: z.string().nullable(),
  error_message: z.string().nullable(),
  next_retry_at: InstantText.nullable(),
  /** Who has it, and under which fence. */
  worker_id: z.string().nullable(),
  attempt: Count,
  /** Blocks that its run quarantined so far. */
  set_aside: z.array(z.strictObject({ block: Block, error: FailureField })).nullable(),
  end_hash: z.string().nullable(),
  rows_stored: Count,
  verification: z
    .strictObject({
      status: VerificationStatusField,
      repair: z.boolean(),
      note: z.string().nullable(),
      at: InstantText,
    })
    .nullable(),
  /** Why it was opened again. */
  reason: z.string().nullable(),
  excluded: z.strictObject({ by: z.string(), reason: z.string(), at: InstantText }).nullable(),
  created_at: InstantText,
  started_at: InstantText.nullable(),
  finished_at: InstantText.nullable(),
  row_version: Count,
} satisfies { [Field in keyof SegmentRow]?: z.ZodType<SegmentRow[Field]> };

/** Where a segment stands as it is shown: what was quarantined when its tries were used up is ABANDONED. */
export const SegmentShownField = z.enum([...SegmentStatusField.options, "ABANDONED"]);
export type SegmentStatusShown = z.infer<typeof SegmentShownField>;

const segmentDocument = z.strictObject({
  ...segmentFields,
  status: SegmentShownField,
  /** When an event last changed it; how far a running one is changes in between. */
  updated_at: InstantText,
  segment_id: z.string(),
  progress_pct: Percent,
  /** Whether a run has it. */
  has_run: z.boolean(),
  /** Whether what was stored of it before is void. */
  undo: z.boolean(),
  was_quarantined: z.boolean(),
});

/** A segment as the API shows it; of one that runs, how far it is now. */
export const SegmentDocument = segmentDocument.meta({ id: "SyncSegment" });
export type SegmentDocument = z.infer<typeof SegmentDocument>;

/** A segment that was quarantined, with the sync that it holds up. */
export const QuarantineDocument = segmentDocument
  .extend({
    name: z.string(),
    target: z.record(z.string(), z.string()),
    target_key: z.string(),
    source: z.string(),
    sync_status: SyncStatusField,
    /** The version that a decision about the segment may be bound to. */
    sync_state_version: Count,
  })
  .meta({ id: "QuarantinedSegment" });
export type QuarantineDocument = z.infer<typeof QuarantineDocument>;

/** A segment in a list of several syncs, with the sync that it is of. */
export const ListedSegmentDocument = QuarantineDocument.meta({ id: "ListedSegment" });

/** Most cells of a map of segments; more segments share cells. */
export const SEGMENT_CELLS_MAX = 365;

/** What a cell can say, the worst last; EXCLUDED may stay unfetched, on somebody's word. */
export const SegmentCellStatus = z.enum([
  "COMPLETE",
  "EXCLUDED",
  ...SegmentStatusField.exclude(["COMPLETE"]).options,
]);
export type SegmentCellStatus = z.infer<typeof SegmentCellStatus>;

/** One segment, or several next to each other; it says the worst of them. */
const SegmentCell = z
  .strictObject({
    from_block: Block,
    to_block: Block,
    segments: z.int().positive(),
    status: SegmentCellStatus,
    /** The first segment of the cell that is so. */
    segment_index: Count,
  })
  .meta({ id: "SyncSegmentCell" });
export type SegmentCell = z.infer<typeof SegmentCell>;

/** All segments of a sync at once, in the order of their blocks. */
export const SegmentMap = z
  .strictObject({
    sync_id: z.string(),
    segments: Count,
    cells: z.array(SegmentCell).max(SEGMENT_CELLS_MAX),
    /** How many segments are so; what there is none of is left out. */
    counts: z.partialRecord(SegmentCellStatus, Count),
    state_version: Count,
    row_version: Count,
    pos: Count,
  })
  .meta({ id: "SyncSegmentMap" });
export type SegmentMap = z.infer<typeof SegmentMap>;

/** A sync that others wait for longest. */
const SlowSync = z
  .strictObject({
    sync_id: z.string(),
    name: z.string(),
    target_key: z.string(),
    status: SyncStatusField,
    lag_blocks: Count,
    progress_pct: z.number(),
    rate_blocks_per_second: z.number().nullable(),
    eta_seconds: Count.nullable(),
  })
  .meta({ id: "SlowSync" });
export type SlowSync = z.infer<typeof SlowSync>;

const totals = {
  /** Those that were removed do not count. */
  syncs: Count,
  syncs_by_status: z.record(SyncStatusField.exclude(["REMOVED"]), Count),
  segments_total: Count,
  segments_pending: Count,
  segments_running: Count,
  segments_failed: Count,
  segments_complete: Count,
  segments_quarantined: Count,
  blocks_total: Count,
  blocks_complete: Count,
  /** Complete segments of all segments. */
  progress_pct: z.number(),
  rows_stored: Count,
  /** The largest of those known. */
  lag_blocks_max: Count.nullable(),
  /** Of all of them together. */
  rate_blocks_per_second: z.number(),
  /** Those that lag most, the most first. */
  slowest: z.array(SlowSync),
};

/** The syncs of one name together. */
const NameTotals = z
  .strictObject({ name: z.string(), defined: z.boolean(), ...totals })
  .meta({ id: "SyncNameOverview" });
export type NameTotals = z.infer<typeof NameTotals>;

/** All syncs together, and those of each name. */
export const SyncOverview = z
  .strictObject({ ...totals, names: z.array(NameTotals), pos: Count })
  .meta({ id: "SyncOverview" });
export type SyncOverview = z.infer<typeof SyncOverview>;

/** What is known of a source of a sync: its head, and what asking it taught. */
export const SyncSourceDocument = z
  .strictObject({
    name: z.string(),
    source: z.string(),
    /** Targets that are synced from it. */
    targets: Count,
    head: Block.nullable(),
    head_at: InstantText.nullable(),
    /** When somebody last looked, and how often in a row that failed. */
    looked_at: InstantText.nullable(),
    /** Whether somebody should look at the head now. */
    look_due: z.boolean(),
    failures: Count,
    error: FailureField.nullable(),
    /** Times that it rewrote its blocks, and the last of them. */
    rewrites: Count,
    last_rewrite: z.strictObject({ fork_block: z.int().min(-1), at: InstantText }).nullable(),
    /** Blocks that one request may ask for; null while nothing set a limit. */
    request_size: z.int().positive().nullable(),
    /** The pause between requests that it bears; 0 while it never complained. */
    interval_ms: z.number().nonnegative(),
    throttled_until: InstantText.nullable(),
    learnt_at: InstantText.nullable(),
    /** Workers that asked it lately. */
    workers: Count,
  })
  .meta({ id: "SyncSource" });
export type SyncSourceDocument = z.infer<typeof SyncSourceDocument>;
