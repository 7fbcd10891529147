import type { Json } from "../../kernel/canonical.ts";
import type { Instant } from "../../kernel/instant.ts";
import type { Interval } from "../../kernel/intervals.ts";
import type { Selector, StaleReasons } from "../../kernel/keyspace/selector.ts";
import type { RetryPolicy } from "../definition/spec.ts";
import type { Condition, Table } from "../../kernel/table.ts";

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

/**
 * A backfill and its counters. Counted in chunks (`chunks_…`) and in pairs of asset and partition
 * (`partitions_…`); what is in no other counter is pending.
 */
export type BackfillRow = {
  backfill_id: string;
  created_pos: number;
  client_request_id: string;
  created_by: string;
  asset_selection: string[];
  spec_hashes: string[];
  partition_selector: Selector;
  /** How many keys each dimension had when the selection was resolved. */
  bound: number[];
  order: "ascending" | "descending";
  state: BackfillState;
  state_version: number;
  reason: string | null;
  chunk_size: number;
  max_concurrent_runs: number;
  priority: number;
  retry: RetryPolicy | null;
  failure_limit: FailureLimit | null;
  failure_limit_reached: number;
  /** Whether a cancel also cancels the active runs, 0 or 1. */
  cancel_runs: number;
  parent_backfill_id: string | null;
  after_backfill_id: string | null;
  continue_on_failure: number;
  followers: string[];
  code_version: string | null;
  labels: Record<string, string>;
  config: Json;
  total_partitions: number;
  survey_pages: number;
  /** Why its partitions were stale, counted in pairs; null when that is not why it was made. */
  stale_reasons: StaleReasons | null;
  base_chunks: number;
  next_chunk: number;
  /** Tiles of split chunks that are not planned yet, by chunk index. */
  pending_tiles: number[];
  /** Tiles ever made: the next one's chunk index goes on from here. */
  tiles_made: number;
  total_chunks: number;
  chunks_planned: number;
  chunks_running: number;
  chunks_succeeded: number;
  chunks_failed: number;
  chunks_cancelled: number;
  partitions_total: number;
  partitions_planned: number;
  partitions_running: number;
  partitions_succeeded: number;
  partitions_failed: number;
  partitions_cancelled: number;
  /** Of the succeeded ones, those whose function said there was nothing to do. */
  partitions_skipped: number;
  first_error: Failure | null;
  created_at: Instant;
  started_at: Instant | null;
  finished_at: Instant | null;
  row_version: number;
};

/** The table of backfills. */
export const BACKFILLS: Table<BackfillRow> = {
  name: "backfills",
  key: ["backfill_id"],
  cells: {
    backfill_id: "text",
    created_pos: "int",
    client_request_id: "text",
    created_by: "text",
    asset_selection: "json",
    spec_hashes: "json",
    partition_selector: "json",
    bound: "json",
    order: "text",
    state: "text",
    state_version: "int",
    reason: "text",
    chunk_size: "int",
    max_concurrent_runs: "int",
    priority: "int",
    retry: "json",
    failure_limit: "json",
    failure_limit_reached: "int",
    cancel_runs: "int",
    parent_backfill_id: "text",
    after_backfill_id: "text",
    continue_on_failure: "int",
    followers: "json",
    code_version: "text",
    labels: "json",
    config: "json",
    total_partitions: "int",
    survey_pages: "int",
    stale_reasons: "json",
    base_chunks: "int",
    next_chunk: "int",
    pending_tiles: "json",
    tiles_made: "int",
    total_chunks: "int",
    chunks_planned: "int",
    chunks_running: "int",
    chunks_succeeded: "int",
    chunks_failed: "int",
    chunks_cancelled: "int",
    partitions_total: "int",
    partitions_planned: "int",
    partitions_running: "int",
    partitions_succeeded: "int",
    partitions_failed: "int",
    partitions_cancelled: "int",
    partitions_skipped: "int",
    first_error: "json",
    created_at: "text",
    started_at: "text",
    finished_at: "text",
    row_version: "int",
  },
  fixed: [
    "created_pos",
    "client_request_id",
    "created_by",
    "asset_selection",
    "spec_hashes",
    "partition_selector",
    "bound",
    "order",
    "chunk_size",
    "retry",
    "failure_limit",
    "parent_backfill_id",
    "after_backfill_id",
    "continue_on_failure",
    "code_version",
    "labels",
    "config",
    "total_partitions",
    "survey_pages",
    "stale_reasons",
    "base_chunks",
    "partitions_total",
    "created_at",
  ],
};

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

/** One chunk of a backfill. */
export type ChunkRow = {
  backfill_id: string;
  chunk_index: number;
  generation: number;
  state: ChunkState;
  parts: ChunkPart[];
  /** Pairs of asset and partition in this chunk. */
  partitions: number;
  run_pos: number | null;
  run_id: string | null;
  failed: OrdinalsByAsset | null;
  skipped: OrdinalsByAsset | null;
  cancelled: OrdinalsByAsset | null;
  split_into: number[] | null;
  planned_at: Instant | null;
  finished_at: Instant | null;
  row_version: number;
};

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
export const CHUNKS: Table<ChunkRow> = {
  name: "chunks",
  key: ["backfill_id", "chunk_index"],
  cells: {
    backfill_id: "text",
    chunk_index: "int",
    generation: "int",
    state: "text",
    parts: "json",
    partitions: "int",
    run_pos: "int",
    run_id: "text",
    failed: "json",
    skipped: "json",
    cancelled: "json",
    split_into: "json",
    planned_at: "text",
    finished_at: "text",
    row_version: "int",
  },
};

/** The permanent memory of a request for backfills: what it asked for, and what it made. */
export type RequestKeyRow = {
  request_key: string;
  request_fingerprint: string;
  backfill_ids: string[];
};

/** The table of requests for backfills. */
export const REQUEST_KEYS: Table<RequestKeyRow> = {
  name: "request_keys",
  key: ["request_key"],
  cells: { request_key: "text", request_fingerprint: "text", backfill_ids: "json" },
};

/** A page of the ordinals that a survey found for a backfill, in ascending order. */
export type SurveyPageRow = {
  backfill_id: string;
  page: number;
  /** How many partitions the earlier pages hold. */
  first_index: number;
  count: number;
  parts: ChunkPart[];
};

/** The table of survey pages. */
export const SURVEY_PAGES: Table<SurveyPageRow> = {
  name: "survey_pages",
  key: ["backfill_id", "page"],
  cells: {
    backfill_id: "text",
    page: "int",
    first_index: "int",
    count: "int",
    parts: "json",
  },
};
