import { z } from "zod";
import { Selector, StaleReasons } from "../../kernel/keyspace/selector.ts";
import { Labels, RetryPolicy } from "../definition/spec.ts";
import {
  ChunkPartField,
  Count,
  InstantText,
  IntervalPair,
  JsonValue,
  Sha256,
} from "../envelope.ts";

/** How many failed partitions, or what share of all, pause a backfill. */
export const FailureLimitField = z.union([
  z.object({ count: z.int().positive() }),
  z.object({ percent: z.number().positive().max(100) }),
]);

/** A backfill was asked for and its selection resolved; it never carries the keys of a range. */
export const BackfillCreated = {
  backfill_id: z.string(),
  client_request_id: z.string(),
  /** What the request asked for and all that it made; null on those after the first. */
  request: z
    .object({
      request_key: z.string(),
      request_fingerprint: Sha256,
      backfill_ids: z.array(z.string()).min(1),
    })
    .nullable(),
  created_by: z.string(),
  asset_selection: z.array(z.string()).min(1),
  spec_hashes: z.array(Sha256).min(1),
  partition_selector: Selector,
  bound: z.array(Count),
  /** The numbers of removed dynamic keys, from and to, by dimension; absent where there are none. */
  removed: z.array(z.array(IntervalPair)).exactOptional(),
  total_partitions: z.int().positive(),
  /** Pairs of asset and partition. */
  total_pairs: z.int().positive(),
  survey_pages: Count,
  /** Why its partitions were stale, counted in pairs; null when that is not why it was made. */
  stale_reasons: StaleReasons.nullable(),
  total_chunks: z.int().positive(),
  chunk_size: z.int().positive(),
  max_concurrent_runs: z.int().positive(),
  order: z.enum(["ascending", "descending"]),
  priority: z.int(),
  retry: RetryPolicy.nullable(),
  failure_limit: FailureLimitField.nullable(),
  parent_backfill_id: z.string().nullable(),
  after_backfill_id: z.string().nullable(),
  continue_on_failure: z.boolean(),
  code_version: z.string().nullable(),
  labels: Labels,
  config: JsonValue,
  /** When chunks may be planned, where that is not always. */
  timing: z
    .object({
      start_at: InstantText.nullable(),
      window: z.string().nullable(),
      is_open: z.boolean(),
      changes_at: InstantText.nullable(),
    })
    .exactOptional(),
};

/** The time has come at which chunks may be planned, or may not any more. */
export const BackfillWindowChanged = {
  backfill_id: z.string(),
  backfill_pos: z.int().positive(),
  is_open: z.boolean(),
  /** When it changes again; null when it does not. */
  changes_at: InstantText.nullable(),
};

/** A page of ordinals that were found for a backfill whose selection is no arithmetic. */
export const KeysSurveyed = {
  backfill_id: z.string(),
  backfill_pos: z.int().positive(),
  page: Count,
  first_index: Count,
  count: z.int().positive(),
  parts: z.array(ChunkPartField).min(1).max(1000),
};

/** The next chunk of a backfill is to be run. Recorded together with its RunRequested. */
export const BackfillChunkPlanned = {
  backfill_id: z.string(),
  backfill_pos: z.int().positive(),
  chunk_id: z.string(),
  chunk_index: Count,
  generation: Count,
  parts: z.array(ChunkPartField).min(1),
  partitions: z.int().positive(),
  run_key: z.string(),
  request_fingerprint: Sha256,
};

/** A failed chunk is replaced by smaller ones that tile it. */
export const BackfillChunkSplit = {
  backfill_id: z.string(),
  backfill_pos: z.int().positive(),
  chunk_id: z.string(),
  chunk_index: Count,
  generation: Count,
  partitions: z.int().positive(),
  tiles: z
    .array(
      z.object({
        chunk_index: Count,
        parts: z.array(ChunkPartField).min(1),
        partitions: z.int().positive(),
      }),
    )
    .min(2),
};

const BackfillStateField = z.enum([
  "PENDING",
  "RUNNING",
  "PAUSED",
  "CANCELLING",
  "SUCCEEDED",
  "FAILED",
  "CANCELLED",
]);

/** A backfill moved on; its state version grew by one. */
export const BackfillStateChanged = {
  backfill_id: z.string(),
  backfill_pos: z.int().positive(),
  from_state: BackfillStateField,
  to_state: BackfillStateField,
  state_version: z.int().positive(),
  changed_by: z.string().nullable(),
  reason: z.string().nullable(),
  /** The failure limit was reached, and will not pause the backfill again. */
  failure_limit_reached: z.boolean(),
  /** The active runs are to be cancelled too. */
  cancel_runs: z.boolean(),
};

/** A backfill runs with another concurrency or priority from now on. */
export const BackfillRetuned = {
  backfill_id: z.string(),
  backfill_pos: z.int().positive(),
  state_version: z.int().positive(),
  max_concurrent_runs: z.int().positive().nullable(),
  priority: z.int().nullable(),
};
