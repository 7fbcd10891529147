import type { Instant } from "../../kernel/instant.ts";
import type { SyncTarget } from "./spec.ts";
import type { Failure } from "../backfill/rows.ts";
import {
  fixed,
  int,
  intOf,
  json,
  type RowIn,
  defineTable,
  text,
  textOf,
} from "../../kernel/table.ts";

/**
 * PENDING (not planned) → RUNNING → COMPLETE (a fixed range) | FOLLOWING (at the head);
 * COMPLETE | FOLLOWING → RUNNING when something is to be fetched again or the range has grown;
 * all of these ⇄ PAUSED, and from any to REMOVED, which is the end.
 */
export type SyncState = "PENDING" | "RUNNING" | "PAUSED" | "COMPLETE" | "FOLLOWING" | "REMOVED";

/** The state as shown: FAILED while a segment waits for its retry. */
export type SyncStatus = SyncState | "FAILED";

/** The table of syncs. */
export const SYNCS = defineTable("syncs", ["sync_id"], {
  sync_id: text,
  name: fixed(text),
  target: fixed(json<SyncTarget>()),
  target_key: fixed(text),
  source: fixed(text),
  origin: fixed(textOf<"code" | "api">()),
  state: textOf<SyncState>(),
  status: textOf<SyncStatus>(),
  state_version: int,
  reason: textOf<string | null>(),
  from_block: fixed(int),
  /** The last block of its own fixed range; null for what the definition says. */
  to_limit: fixed(intOf<number | null>()),
  /** Its own, where the definition's does not hold. */
  max_parallel: intOf<number | null>(),
  priority: intOf<number | null>(),
  /** The last block that a segment is planned for; null before the plan. */
  planned_to: intOf<number | null>(),
  /** Blocks in the largest segment of the plan. */
  segment_size: intOf<number | null>(),
  /** The index of the next segment. */
  next_segment: int,
  /** The end of the longest complete prefix; `from_block - 1` when there is none. */
  synced_to: int,
  segments_total: int,
  segments_pending: int,
  segments_queued: int,
  segments_running: int,
  segments_failed: int,
  segments_complete: int,
  segments_quarantined: int,
  blocks_complete: int,
  rows_stored: int,
  /** Attempts that failed, of all its segments. */
  retry_count: int,
  last_error: json<Failure | null>(),
  last_error_at: textOf<Instant | null>(),
  /** Blocks done lately and the time it took one segment at a time, for estimates. */
  work_blocks: int,
  work_ms: int,
  /** Rewrites of the source that have been acted on. */
  rewrites_seen: int,
  /** Times that segments were opened again, and that verifications were asked for. */
  reopenings: int,
  verifications: int,
  /** Segments whose verification was asked for and has no run yet, and those with one. */
  verify_waiting: int,
  verify_active: int,
  created_at: fixed(textOf<Instant>()),
  created_pos: fixed(int),
  started_at: textOf<Instant | null>(),
  /** When it was last complete or caught up with the head. */
  completed_at: textOf<Instant | null>(),
  row_version: int,
});

/**
 * One target of a sync: the holder of its segments, which tile `from_block` to `planned_to` at every
 * position. Segments are counted by status; `segments_queued` of the pending ones have a run.
 */
export type SyncRow = RowIn<typeof SYNCS>;

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

/** The class of the error of a segment that was quarantined because its tries were used up. */
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
export const SEGMENTS = defineTable("segments", ["sync_id", "segment_index"], {
  sync_id: text,
  segment_index: int,
  /** `history` for the plan, `tail` for what the head left behind. */
  kind: textOf<"history" | "tail">(),
  from_block: int,
  to_block: int,
  generation: int,
  status: textOf<SegmentStatus>(),
  /** The run that works on it, or that has to end before another may. */
  run_pos: intOf<number | null>(),
  run_id: textOf<string | null>(),
  /** As of the end of its last attempt; a running one knows better. */
  last_processed_block: intOf<number | null>(),
  retry_count: int,
  error_class: textOf<string | null>(),
  error_message: textOf<string | null>(),
  next_retry_at: textOf<Instant | null>(),
  worker_id: textOf<string | null>(),
  /** The fence of the attempt that is running or was the last. */
  attempt: int,
  /** Blocks that its run quarantined, until it ends and they stand alone. */
  set_aside: json<{ block: number; error: Failure }[] | null>(),
  /** Whether what was stored before is void, 0 or 1. */
  undo: int,
  /** Whether it was ever quarantined, 0 or 1. */
  was_quarantined: int,
  end_hash: textOf<string | null>(),
  rows_stored: int,
  verification: json<Verification | null>(),
  /** Why it was opened again. */
  reason: textOf<string | null>(),
  /** Who said that it may stay unfetched, and why. */
  excluded: json<{ by: string; reason: string; at: Instant } | null>(),
  created_at: textOf<Instant>(),
  /** When an event last changed it; null for one that none has since this is kept. */
  updated_at: textOf<Instant | null>(),
  started_at: textOf<Instant | null>(),
  finished_at: textOf<Instant | null>(),
  row_version: int,
});

/** A piece of a sync's range, both ends included. */
export type SegmentRow = RowIn<typeof SEGMENTS>;

/** The table of sources of syncs. */
export const SYNC_SOURCES = defineTable("sync_sources", ["name", "source"], {
  name: text,
  source: text,
  head: int,
  head_at: textOf<Instant>(),
  /** Times that the head moved: names the next move. */
  moves: int,
  /** Blocks and their hashes, the oldest first. */
  anchors: json<{ block: number; hash: string }[]>(),
  /** Times that the source rewrote blocks, and the last of them. */
  rewrites: int,
  recent_rewrites:
    json<
      {
        n: number;
        fork_block: number;
        at: Instant /** There where somebody set the head: up to here blocks were planned that never were. */;
        cut_from?: number;
      }[]
    >(),
  row_version: int,
});

/** What a sync knows of one of its sources: the head, and hashes of blocks that were once safe. */
export type SyncSourceRow = RowIn<typeof SYNC_SOURCES>;
