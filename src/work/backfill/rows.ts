import type { Json } from "../../kernel/canonical.ts";
import type { Instant } from "../../kernel/instant.ts";
import type { Interval } from "../../kernel/intervals.ts";
import type { Selector, StaleReasons } from "../../kernel/keyspace/selector.ts";
import type { RetryPolicy } from "../definition/spec.ts";
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

/** Backfills that have not ended. */
export const OPEN_BACKFILLS: Condition = {
  cell: "state",
  is: "in",
  values: ["PENDING", "RUNNING", "PAUSED", "CANCELLING"],
};

/**
 * PENDING → RUNNING → SUCCEEDED | FAILED; RUNNING ⇄ PAUSED;
 * PENDING | RUNNING | PAUSED → CANCELLING → CANCELLED.
 */
export type BackfillState =
  | "PENDING"
  | "RUNNING"
  | "PAUSED"
  | "CANCELLING"
  | "SUCCEEDED"
  | "FAILED"
  | "CANCELLED";

/** What makes a backfill pause by itself: so many failed partitions, or that share of all. */
export type FailureLimit = { count: number } | { percent: number };

/** Why something failed, as the worker or the engine saw it. */
export type Failure = { class: string; message: string };

/** The table of backfills. */
export const BACKFILLS = defineTable("backfills", ["backfill_id"], {
  backfill_id: text,
  created_pos: fixed(int),
  client_request_id: fixed(text),
  created_by: fixed(text),
  asset_selection: fixed(json<string[]>()),
  spec_hashes: fixed(json<string[]>()),
  partition_selector: fixed(json<Selector>()),
  /** How many keys each dimension had when the selection was resolved. */
  bound: fixed(json<number[]>()),
  /** The numbers of dynamic keys that were removed when it was made, by dimension; null for none. */
  removed: fixed(json<Interval[][] | null>()),
  order: fixed(textOf<"ascending" | "descending">()),
  state: textOf<BackfillState>(),
  state_version: int,
  reason: textOf<string | null>(),
  chunk_size: fixed(int),
  max_concurrent_runs: int,
  priority: int,
  retry: fixed(json<RetryPolicy | null>()),
  failure_limit: fixed(json<FailureLimit | null>()),
  failure_limit_reached: int,
  /** Whether a cancel also cancels the active runs, 0 or 1. */
  cancel_runs: int,
  parent_backfill_id: fixed(textOf<string | null>()),
  after_backfill_id: fixed(textOf<string | null>()),
  continue_on_failure: fixed(int),
  followers: json<string[]>(),
  code_version: fixed(textOf<string | null>()),
  labels: fixed(json<Record<string, string>>()),
  config: fixed(json<Json>()),
  /** No chunk is planned before. */
  start_at: fixed(textOf<Instant | null>()),
  /** The time of the day in which chunks are planned, such as `22:00-06:00 Europe/Berlin`. */
  window: fixed(textOf<string | null>()),
  /** Whether chunks may be planned by these two, 0 or 1, and when that changes. */
  window_open: int,
  window_changes_at: textOf<Instant | null>(),
  total_partitions: fixed(int),
  survey_pages: fixed(int),
  /** Why its partitions were stale, counted in pairs; null when that is not why it was made. */
  stale_reasons: fixed(json<StaleReasons | null>()),
  base_chunks: fixed(int),
  next_chunk: int,
  /** Tiles of split chunks that are not planned yet, by chunk index. */
  pending_tiles: json<number[]>(),
  /** Tiles ever made: the next one's chunk index goes on from here. */
  tiles_made: int,
  total_chunks: int,
  chunks_planned: int,
  chunks_running: int,
  chunks_succeeded: int,
  chunks_failed: int,
  chunks_cancelled: int,
  partitions_total: fixed(int),
  partitions_planned: int,
  partitions_running: int,
  partitions_succeeded: int,
  partitions_failed: int,
  partitions_cancelled: int,
  /** Of the succeeded ones, those whose function said there was nothing to do. */
  partitions_skipped: int,
  first_error: json<Failure | null>(),
  created_at: fixed(textOf<Instant>()),
  started_at: textOf<Instant | null>(),
  finished_at: textOf<Instant | null>(),
  row_version: int,
});

/**
 * A backfill and its counters. Counted in chunks (`chunks_…`) and in pairs of asset and partition
 * (`partitions_…`); what is in no other counter is pending.
 */
export type BackfillRow = RowIn<typeof BACKFILLS>;

/** A chunk that has no row is pending; a split one is replaced by the chunks that tile it. */
export type ChunkState =
  | "PENDING"
  | "PLANNED"
  | "RUNNING"
  | "SUCCEEDED"
  | "FAILED"
  | "CANCELLED"
  | "SPLIT";

/** Ordinals of partitions, and which assets of the selection they are for (all when absent). */
export type ChunkPart = { from: number; to: number; assets?: number[] | undefined };

/** Ordinals by the asset's place in the backfill's selection. */
export type OrdinalsByAsset = { asset: number; ordinals: Interval[] }[];

/** What every chunk begins with: no run, no outcome, no times. */
export const NEW_CHUNK = {
  run_pos: null,
  run_id: null,
  failed: null,
  skipped: null,
  cancelled: null,
  split_into: null,
  planned_at: null,
  finished_at: null,
} as const satisfies Partial<ChunkRow>;

/** The table of chunks. */
export const CHUNKS = defineTable("chunks", ["backfill_id", "chunk_index"], {
  backfill_id: text,
  chunk_index: int,
  generation: int,
  state: textOf<ChunkState>(),
  parts: json<ChunkPart[]>(),
  /** Pairs of asset and partition in this chunk. */
  partitions: int,
  run_pos: intOf<number | null>(),
  run_id: textOf<string | null>(),
  failed: json<OrdinalsByAsset | null>(),
  skipped: json<OrdinalsByAsset | null>(),
  cancelled: json<OrdinalsByAsset | null>(),
  split_into: json<number[] | null>(),
  planned_at: textOf<Instant | null>(),
  finished_at: textOf<Instant | null>(),
  row_version: int,
});

/** One chunk of a backfill. */
export type ChunkRow = RowIn<typeof CHUNKS>;

/** The table of requests for backfills. */
export const REQUEST_KEYS = defineTable("request_keys", ["request_key"], {
  request_key: text,
  request_fingerprint: text,
  backfill_ids: json<string[]>(),
});

/** The permanent memory of a request for backfills: what it asked for, and what it made. */
export type RequestKeyRow = RowIn<typeof REQUEST_KEYS>;

/** The table of survey pages. */
export const SURVEY_PAGES = defineTable("survey_pages", ["backfill_id", "page"], {
  backfill_id: text,
  page: int,
  /** How many partitions the earlier pages hold. */
  first_index: int,
  count: int,
  parts: json<ChunkPart[]>(),
});

/** A page of the ordinals that a survey found for a backfill, in ascending order. */
export type SurveyPageRow = RowIn<typeof SURVEY_PAGES>;
