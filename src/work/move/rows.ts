import type { Instant } from "../../kernel/instant.ts";
import type { MovePlan } from "./spec.ts";
import type { TablePolicy } from "../shard/spec.ts";
import type { MoveReport, ShardKey } from "../shard/step-protocol.ts";
import type { Failure } from "../backfill/rows.ts";
import type { Condition, Table } from "../../kernel/table.ts";

/** Moves that have not ended. */
export const OPEN_MOVES: Condition = {
  cell: "state",
  is: "in",
  values: ["PLANNED", "RUNNING", "PAUSED"],
};

/**
 * PLANNED → RUNNING ⇄ PAUSED; RUNNING → COMPLETE; from each of the first three to CANCELLED. One that
 * could not be surveyed is PAUSED, and PLANNED again when it goes on before it was started.
 */
export type MoveState = "PLANNED" | "RUNNING" | "PAUSED" | "COMPLETE" | "CANCELLED";

/** What a move is busy with: one after the other, each when the one before has nothing left. */
export type MovePhase = "survey" | "copy" | "remove" | "check" | "done";

/** Rows of one table from one shard to another, and how far their survey is. */
export type MoveLane = {
  table: TablePolicy;
  order: number;
  from: string;
  to: string;
  /** Where the next page of the survey begins, and its number. */
  after: ShardKey | null;
  pages: number;
  sealed: boolean;
  /** The run that surveys it, how many there were, and what the last one found. */
  run_pos: number | null;
  runs: number;
  report: MoveReport | null;
};

/** A segmented migration between shards: the holder of its segments, which are counted by state. */
export type MoveRow = {
  move_id: string;
  name: string | null;
  plan: MovePlan;
  /** Whether it is only looked at how large it would be, 0 or 1. */
  dry_run: number;
  spec_hash: string;
  state: MoveState;
  state_version: number;
  reason: string | null;
  lanes: MoveLane[];
  lanes_sealed: number;
  segment_concurrency: number;
  rows_per_second: number | null;
  next_segment: number;
  segments_total: number;
  segments_pending: number;
  /** Of the pending ones and those that wait to be removed or verified, those with a run. */
  segments_active: number;
  segments_copied: number;
  segments_removed: number;
  segments_poisoned: number;
  segments_excluded: number;
  /** Of the excluded ones, those that may have rows on the target still. */
  segments_discarding: number;
  rows_estimated: number;
  rows_copied: number;
  bytes_copied: number;
  rows_removed: number;
  /** Attempts at segments that came after a failed one, and failed ones that count against the budget. */
  retries: number;
  retries_counted: number;
  /** Time that copying took, one segment at a time, for estimates. */
  work_ms: number;
  last_error: Failure | null;
  last_error_at: Instant | null;
  /** Requests to compare everything, segments that wait for it, and what did not match. */
  verifications: number;
  verify_waiting: number;
  verify_failed: number;
  /** Segments below this one have been asked for by the last request. */
  verify_next: number;
  /** The look at where all rows are: its run, the request it answers, and what it found. */
  check_run_pos: number | null;
  checks: number;
  checked_n: number;
  check_ok: number | null;
  check_report: MoveReport | null;
  planned_by: string;
  created_at: Instant;
  created_pos: number;
  started_at: Instant | null;
  finished_at: Instant | null;
  row_version: number;
};

/** The table of moves. */
export const MOVES: Table<MoveRow> = {
  name: "moves",
  key: ["move_id"],
  cells: {
    move_id: "text",
    name: "text",
    plan: "json",
    dry_run: "int",
    spec_hash: "text",
    state: "text",
    state_version: "int",
    reason: "text",
    lanes: "json",
    lanes_sealed: "int",
    segment_concurrency: "int",
    rows_per_second: "int",
    next_segment: "int",
    segments_total: "int",
    segments_pending: "int",
    segments_active: "int",
    segments_copied: "int",
    segments_removed: "int",
    segments_poisoned: "int",
    segments_excluded: "int",
    segments_discarding: "int",
    rows_estimated: "int",
    rows_copied: "int",
    bytes_copied: "int",
    rows_removed: "int",
    retries: "int",
    retries_counted: "int",
    work_ms: "int",
    last_error: "json",
    last_error_at: "text",
    verifications: "int",
    verify_waiting: "int",
    verify_failed: "int",
    verify_next: "int",
    check_run_pos: "int",
    checks: "int",
    checked_n: "int",
    check_ok: "int",
    check_report: "json",
    planned_by: "text",
    created_at: "text",
    created_pos: "int",
    started_at: "text",
    finished_at: "text",
    row_version: "int",
  },
  fixed: ["name", "plan", "dry_run", "spec_hash", "planned_by", "created_at", "created_pos"],
};

/**
 * PENDING → COPIED (and verified) → REMOVED (from where it came from); PENDING or COPIED → POISONED
 * when it failed too often; POISONED → where it was by a retry, or EXCLUDED by a person; COPIED or
 * POISONED → PENDING under the next generation when it has to be copied again.
 */
export type MoveSegmentState = "PENDING" | "COPIED" | "REMOVED" | "POISONED" | "EXCLUDED";

/** Keys of one table, from `lower` on and below `upper`, on their way from one shard to another. */
export type MoveSegmentRow = {
  move_id: string;
  segment_index: number;
  segment_id: string;
  lane: number;
  table_name: string;
  /** The place of the table: what has a lower one is copied first. */
  table_order: number;
  lower: ShardKey | null;
  upper: ShardKey | null;
  generation: number;
  state: MoveSegmentState;
  rows_estimated: number;
  rows_copied: number;
  bytes_copied: number;
  digest: string | null;
  /** How far the copy is known to have got, and the position it was read at. */
  cursor: ShardKey | null;
  position: string | null;
  run_pos: number | null;
  run_id: string | null;
  /** Whether its run is running, 0 or 1, and what for. */
  running: number;
  step: "copy" | "verify" | "remove" | null;
  worker_id: string | null;
  /** Runs and changes of state so far. */
  runs: number;
  changes: number;
  /** Whether rows of it may be on the target, 0 or 1, and what the last attempt reported. */
  leftover: number;
  report: MoveReport | null;
  /** Attempts so far, those that failed since somebody looked, and when the next one may be. */
  attempts: number;
  failures: number;
  next_retry_at: Instant | null;
  error: Failure | null;
  /** The request of a comparison that waits or was the last, and what it found, 0 or 1. */
  verify_n: number;
  verify_ok: number | null;
  verify_note: string | null;
  verified_at: Instant | null;
  /** Who said that it may stay, and why. */
  excluded: { by: string; reason: string; at: Instant } | null;
  created_at: Instant;
  finished_at: Instant | null;
  row_version: number;
};

/** The table of the segments of moves. */
export const MOVE_SEGMENTS: Table<MoveSegmentRow> = {
  name: "move_segments",
  key: ["move_id", "segment_index"],
  cells: {
    move_id: "text",
    segment_index: "int",
    segment_id: "text",
    lane: "int",
    table_name: "text",
    table_order: "int",
    lower: "json",
    upper: "json",
    generation: "int",
    state: "text",
    rows_estimated: "int",
    rows_copied: "int",
    bytes_copied: "int",
    digest: "text",
    cursor: "json",
    position: "text",
    run_pos: "int",
    run_id: "text",
    running: "int",
    step: "text",
    worker_id: "text",
    runs: "int",
    changes: "int",
    leftover: "int",
    report: "json",
    attempts: "int",
    failures: "int",
    next_retry_at: "text",
    error: "json",
    verify_n: "int",
    verify_ok: "int",
    verify_note: "text",
    verified_at: "text",
    excluded: "json",
    created_at: "text",
    finished_at: "text",
    row_version: "int",
  },
  fixed: ["segment_id", "lane", "table_name", "table_order", "lower", "created_at"],
};

/** What a segment begins with. */
export const NEW_MOVE_SEGMENT = {
  generation: 0,
  state: "PENDING",
  rows_copied: 0,
  bytes_copied: 0,
  digest: null,
  cursor: null,
  position: null,
  run_pos: null,
  run_id: null,
  running: 0,
  step: null,
  worker_id: null,
  runs: 0,
  changes: 0,
  leftover: 0,
  report: null,
  attempts: 0,
  failures: 0,
  next_retry_at: null,
  error: null,
  verify_n: 0,
  verify_ok: null,
  verify_note: null,
  verified_at: null,
  excluded: null,
  finished_at: null,
} as const satisfies Partial<MoveSegmentRow>;
