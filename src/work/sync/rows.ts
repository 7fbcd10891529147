import type { Instant } from "../../kernel/instant.ts";
import type { SyncTarget } from "./spec.ts";
import type { Failure } from "../backfill/rows.ts";
import type { Table } from "../../kernel/table.ts";

/**
 * PENDING (not planned) → RUNNING → COMPLETE (a fixed range) | FOLLOWING (at the head);
 * COMPLETE | FOLLOWING → RUNNING when something is to be fetched again or the range has grown;
 * all of these ⇄ PAUSED, and from any to REMOVED, which is the end.
 */
export type SyncState = "PENDING" | "RUNNING" | "PAUSED" | "COMPLETE" | "FOLLOWING" | "REMOVED";

/** The state as shown: FAILED while a segment waits for its retry. */
export type SyncStatus = SyncState | "FAILED";

/**
 * One target of a sync: the holder of its segments, which tile `from_block` to `planned_to` at every
 * position. Segments are counted by status; `segments_queued` of the pending ones have a run.
 */
export type SyncRow = {
  sync_id: string;
  name: string;
  target: SyncTarget;
  target_key: string;
  source: string;
  origin: "code" | "api";
  state: SyncState;
  status: SyncStatus;
  state_version: number;
  reason: string | null;
  from_block: number;
  /** The last block of its own fixed range; null for what the definition says. */
  to_limit: number | null;
  /** Its own, where the definition's does not hold. */
  max_parallel: number | null;
  priority: number | null;
  /** The last block that a segment is planned for; null before the plan. */
  planned_to: number | null;
  /** Blocks in the largest segment of the plan. */
  segment_size: number | null;
  /** The index of the next segment. */
  next_segment: number;
  /** The end of the longest complete prefix; `from_block - 1` when there is none. */
  synced_to: number;
  segments_total: number;
  segments_pending: number;
  segments_queued: number;
  segments_running: number;
  segments_failed: number;
  segments_complete: number;
  segments_quarantined: number;
  blocks_complete: number;
  rows_stored: number;
  /** Attempts that failed, of all its segments. */
  retry_count: number;
  last_error: Failure | null;
  last_error_at: Instant | null;
  /** Blocks done lately and the time it took one segment at a time, for estimates. */
  work_blocks: number;
  work_ms: number;
  /** Rewrites of the source that have been acted on. */
  rewrites_seen: number;
  /** Times that segments were opened again, and that verifications were asked for. */
  reopenings: number;
  verifications: number;
  /** Segments whose verification was asked for and has no run yet, and those with one. */
  verify_waiting: number;
  verify_active: number;
  created_at: Instant;
  created_pos: number;
  started_at: Instant | null;
  /** When it was last complete or caught up with the head. */
  completed_at: Instant | null;
  row_version: number;
};

/** The table of syncs. */
export const SYNCS: Table<SyncRow> = {
  name: "syncs",
  key: ["sync_id"],
  cells: {
    sync_id: "text",
    name: "text",
    target: "json",
    target_key: "text",
    source: "text",
    origin: "text",
    state: "text",
    status: "text",
    state_version: "int",
    reason: "text",
    from_block: "int",
    to_limit: "int",
    max_parallel: "int",
    priority: "int",
    planned_to: "int",
    segment_size: "int",
    next_segment: "int",
    synced_to: "int",
    segments_total: "int",
    segments_pending: "int",
    segments_queued: "int",
    segments_running: "int",
    segments_failed: "int",
    segments_complete: "int",
    segments_quarantined: "int",
    blocks_complete: "int",
    rows_stored: "int",
    retry_count: "int",
    last_error: "json",
    last_error_at: "text",
    work_blocks: "int",
    work_ms: "int",
    rewrites_seen: "int",
    reopenings: "int",
    verifications: "int",
    verify_waiting: "int",
    verify_active: "int",
    created_at: "text",
    created_pos: "int",
    started_at: "text",
    completed_at: "text",
    row_version: "int",
  },
  fixed: [
    "name",
    "target",
    "target_key",
    "source",
    "origin",
    "from_block",
    "to_limit",
    "created_at",
    "created_pos",
  ],
};

/**
 * PENDING → RUNNING → COMPLETE; RUNNING → FAILED (waits for its retry) → RUNNING; RUNNING → PENDING
 * when it was taken back; RUNNING → QUARANTINED when trying again is no use. Opening it again makes
 * any of them PENDING under the next generation.
 */
export type SegmentStatus = "PENDING" | "RUNNING" | "COMPLETE" | "FAILED" | "QUARANTINED";

/** What is known about the correctness of a complete segment. */
export type Verification = {
  status: "REQUESTED" | "RUNNING" | "PASSED" | "FAILED" | "ERROR";
  /** Whether a segment that does not pass is fetched again at once. */
  repair: boolean;
  note: string | null;
  at: Instant;
};

/** A piece of a sync's range, both ends included. */
export type SegmentRow = {
  sync_id: string;
  segment_index: number;
  /** `history` for the plan, `tail` for what the head left behind. */
  kind: "history" | "tail";
  from_block: number;
  to_block: number;
  generation: number;
  status: SegmentStatus;
  /** The run that works on it, or that has to end before another may. */
  run_pos: number | null;
  run_id: string | null;
  /** As of the end of its last attempt; a running one knows better. */
  last_processed_block: number | null;
  retry_count: number;
  error_class: string | null;
  error_message: string | null;
  next_retry_at: Instant | null;
  worker_id: string | null;
  /** The fence of the attempt that is running or was the last. */
  attempt: number;
  /** Blocks that its run set aside, until it ends and they stand alone. */
  set_aside: { block: number; error: Failure }[] | null;
  /** Whether what was stored before is void, 0 or 1. */
  undo: number;
  /** Whether it was ever set aside, 0 or 1. */
  was_quarantined: number;
  end_hash: string | null;
  rows_stored: number;
  verification: Verification | null;
  /** Why it was opened again. */
  reason: string | null;
  /** Who said that it may stay unfetched, and why. */
  excluded: { by: string; reason: string; at: Instant } | null;
  created_at: Instant;
  /** When an event last changed it; null for one that none has since this is kept. */
  updated_at: Instant | null;
  started_at: Instant | null;
  finished_at: Instant | null;
  row_version: number;
};

/** The class of the error of a segment that was set aside because its tries were used up. */
export const ABANDONED_CLASS = "abandoned";

/** What every segment begins with. */
export const NEW_SEGMENT = {
  generation: 0,
  status: "PENDING",
  run_pos: null,
  run_id: null,
  last_processed_block: null,
  retry_count: 0,
  error_class: null,
  error_message: null,
  next_retry_at: null,
  worker_id: null,
  attempt: 0,
  set_aside: null,
  undo: 0,
  was_quarantined: 0,
  end_hash: null,
  rows_stored: 0,
  verification: null,
  reason: null,
  excluded: null,
  started_at: null,
  finished_at: null,
} as const satisfies Partial<SegmentRow>;

/** The table of segments. */
export const SEGMENTS: Table<SegmentRow> = {
  name: "segments",
  key: ["sync_id", "segment_index"],
  cells: {
    sync_id: "text",
    segment_index: "int",
    kind: "text",
    from_block: "int",
    to_block: "int",
    generation: "int",
    status: "text",
    run_pos: "int",
    run_id: "text",
    last_processed_block: "int",
    retry_count: "int",
    error_class: "text",
    error_message: "text",
    next_retry_at: "text",
    worker_id: "text",
    attempt: "int",
    set_aside: "json",
    undo: "int",
    was_quarantined: "int",
    end_hash: "text",
    rows_stored: "int",
    verification: "json",
    reason: "text",
    excluded: "json",
    created_at: "text",
    updated_at: "text",
    started_at: "text",
    finished_at: "text",
    row_version: "int",
  },
};

/** What a sync knows of one of its sources: the head, and hashes of blocks that were once safe. */
export type SyncSourceRow = {
  name: string;
  source: string;
  head: number;
  head_at: Instant;
  /** Times that the head moved: names the next move. */
  moves: number;
  /** Blocks and their hashes, the oldest first. */
  anchors: { block: number; hash: string }[];
  /** Times that the source rewrote blocks, and the last of them. */
  rewrites: number;
  recent_rewrites: {
    n: number;
    fork_block: number;
    at: Instant;
    /** There where somebody set the head: up to here blocks were planned that never were. */
    cut_from?: number;
  }[];
  row_version: number;
};

/** The table of sources of syncs. */
export const SYNC_SOURCES: Table<SyncSourceRow> = {
  name: "sync_sources",
  key: ["name", "source"],
  cells: {
    name: "text",
    source: "text",
    head: "int",
    head_at: "text",
    moves: "int",
    anchors: "json",
    rewrites: "int",
    recent_rewrites: "json",
    row_version: "int",
  },
};
