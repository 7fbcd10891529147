import type { Instant } from "../../kernel/instant.ts";
import type { MovePlan } from "./spec.ts";
import type { TablePolicy } from "../shard/spec.ts";
import type { MoveReport, ShardKey } from "../shard/step-protocol.ts";
import type { Failure } from "../backfill/rows.ts";
import {
  type Condition,
  fixed,
  int,
  intOf,
  json,
  type RowIn,
  defineTable,
  text,
  textOf,
} from "../../kernel/table.ts";

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

/** The table of moves. */
export const MOVES = defineTable("moves", ["move_id"], {
  move_id: text,
  name: fixed(textOf<string | null>()),
  plan: fixed(json<MovePlan>()),
  /** Whether it is only looked at how large it would be, 0 or 1. */
  dry_run: fixed(int),
  spec_hash: fixed(text),
  state: textOf<MoveState>(),
  state_version: int,
  reason: textOf<string | null>(),
  lanes: json<MoveLane[]>(),
  lanes_sealed: int,
  segment_concurrency: int,
  rows_per_second: intOf<number | null>(),
  next_segment: int,
  segments_total: int,
  segments_pending: int,
  /** Of the pending ones and those that wait to be removed or verified, those with a run. */
  segments_active: int,
  segments_copied: int,
  segments_removed: int,
  segments_poisoned: int,
  segments_excluded: int,
  /** Of the excluded ones, those that may have rows on the target still. */
  segments_discarding: int,
  rows_estimated: int,
  rows_copied: int,
  bytes_copied: int,
  rows_removed: int,
  /** Attempts at segments that came after a failed one, and failed ones that count against the budget. */
  retries: int,
  retries_counted: int,
  /** Time that copying took, one segment at a time, for estimates. */
  work_ms: int,
  last_error: json<Failure | null>(),
  last_error_at: textOf<Instant | null>(),
  /** Requests to compare everything, segments that wait for it, and what did not match. */
  verifications: int,
  verify_waiting: int,
  verify_failed: int,
  /** Segments below this one have been asked for by the last request. */
  verify_next: int,
  /** The look at where all rows are: its run, the request it answers, and what it found. */
  check_run_pos: intOf<number | null>(),
  checks: int,
  checked_n: int,
  check_ok: intOf<number | null>(),
  check_report: json<MoveReport | null>(),
  planned_by: fixed(text),
  created_at: fixed(textOf<Instant>()),
  created_pos: fixed(int),
  started_at: textOf<Instant | null>(),
  finished_at: textOf<Instant | null>(),
  row_version: int,
});

/** A segmented migration between shards: the holder of its segments, which are counted by state. */
export type MoveRow = RowIn<typeof MOVES>;

/**
 * PENDING → COPIED (and verified) → REMOVED (from where it came from); PENDING or COPIED → POISONED
 * when it failed too often; POISONED → where it was by a retry, or EXCLUDED by a person; COPIED or
 * POISONED → PENDING under the next generation when it has to be copied again.
 */
export type MoveSegmentState = "PENDING" | "COPIED" | "REMOVED" | "POISONED" | "EXCLUDED";

/** The table of the segments of moves. */
export const MOVE_SEGMENTS = defineTable("move_segments", ["move_id", "segment_index"], {
  move_id: text,
  segment_index: int,
  segment_id: fixed(text),
  lane: fixed(int),
  table_name: fixed(text),
  /** The place of the table: what has a lower one is copied first. */
  table_order: fixed(int),
  lower: fixed(json<ShardKey | null>()),
  upper: json<ShardKey | null>(),
  generation: int,
  state: textOf<MoveSegmentState>(),
  rows_estimated: int,
  rows_copied: int,
  bytes_copied: int,
  digest: textOf<string | null>(),
  /** How far the copy is known to have got, and the position it was read at. */
  cursor: json<ShardKey | null>(),
  position: textOf<string | null>(),
  run_pos: intOf<number | null>(),
  run_id: textOf<string | null>(),
  /** Whether its run is running, 0 or 1, and what for. */
  running: int,
  step: textOf<"copy" | "verify" | "remove" | null>(),
  worker_id: textOf<string | null>(),
  /** Runs and changes of state so far. */
  runs: int,
  changes: int,
  /** Whether rows of it may be on the target, 0 or 1, and what the last attempt reported. */
  leftover: int,
  report: json<MoveReport | null>(),
  /** Attempts so far, those that failed since somebody looked, and when the next one may be. */
  attempts: int,
  failures: int,
  next_retry_at: textOf<Instant | null>(),
  error: json<Failure | null>(),
  /** The request of a comparison that waits or was the last, and what it found, 0 or 1. */
  verify_n: int,
  verify_ok: intOf<number | null>(),
  verify_note: textOf<string | null>(),
  verified_at: textOf<Instant | null>(),
  /** Who said that it may stay, and why. */
  excluded: json<{ by: string; reason: string; at: Instant } | null>(),
  created_at: fixed(textOf<Instant>()),
  finished_at: textOf<Instant | null>(),
  row_version: int,
});

/** Keys of one table, from `lower` on and below `upper`, on their way from one shard to another. */
export type MoveSegmentRow = RowIn<typeof MOVE_SEGMENTS>;

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
