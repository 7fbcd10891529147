import { z } from "zod";
import { Count, FailureField, InstantText } from "../events/fields.ts";
import { Block } from "../sync-spec.ts";
import { SyncStatusField } from "./sync-documents.ts";

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
