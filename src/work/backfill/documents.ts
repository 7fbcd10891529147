import { z } from "zod";
import { FailureLimitField } from "./events.ts";
import { Count, FailureField, InstantText, IntervalPair, JsonValue } from "../envelope.ts";
import { Selector, StaleReasons } from "../../kernel/keyspace/selector.ts";
import type { BackfillRow, ChunkRow } from "./rows.ts";
import { RetryPolicy } from "../definition/spec.ts";

/** Where a backfill stands. */
export const BackfillStateField = z.enum([
  "PENDING",
  "RUNNING",
  "PAUSED",
  "CANCELLING",
  "SUCCEEDED",
  "FAILED",
  "CANCELLED",
]);

const backfillRow = z.strictObject({
  backfill_id: z.string(),
  created_pos: Count,
  client_request_id: z.string(),
  created_by: z.string(),
  asset_selection: z.array(z.string()),
  spec_hashes: z.array(z.string()),
  partition_selector: Selector,
  bound: z.array(Count),
  order: z.enum(["ascending", "descending"]),
  state: BackfillStateField,
  state_version: Count,
  reason: z.string().nullable(),
  chunk_size: Count,
  max_concurrent_runs: Count,
  priority: z.int(),
  retry: RetryPolicy.nullable(),
  failure_limit: FailureLimitField.nullable(),
  failure_limit_reached: Count,
  cancel_runs: Count,
  parent_backfill_id: z.string().nullable(),
  after_backfill_id: z.string().nullable(),
  continue_on_failure: Count,
  followers: z.array(z.string()),
  code_version: z.string().nullable(),
  labels: z.record(z.string(), z.string()),
  config: JsonValue,
  /** No chunk is planned before. */
  start_at: InstantText.nullable(),
  /** The time of the day in which chunks are planned, such as `22:00-06:00 Europe/Berlin`. */
  window: z.string().nullable(),
  window_open: Count,
  /** When its window opens, or closes; when it starts. */
  window_changes_at: InstantText.nullable(),
  /** Keys of partitions; of each there is a partition in one of the assets or in several. */
  total_partitions: Count,
  survey_pages: Count,
  stale_reasons: StaleReasons.nullable(),
  base_chunks: Count,
  next_chunk: Count,
  pending_tiles: z.array(Count),
  tiles_made: Count,
  total_chunks: Count,
  chunks_planned: Count,
  chunks_running: Count,
  chunks_succeeded: Count,
  chunks_failed: Count,
  chunks_cancelled: Count,
  /** Partitions of all assets: what all other counts of partitions are of. */
  partitions_total: Count,
  partitions_planned: Count,
  partitions_running: Count,
  partitions_succeeded: Count,
  partitions_failed: Count,
  partitions_cancelled: Count,
  partitions_skipped: Count,
  first_error: FailureField.nullable(),
  created_at: InstantText,
  started_at: InstantText.nullable(),
  finished_at: InstantText.nullable(),
  row_version: Count,
}) satisfies z.ZodType<Omit<BackfillRow, "removed">>;

/** A backfill as the API shows it: its row, what is pending, and how fast it goes. */
export const BackfillDocument = backfillRow
  .extend({
    /** Whether so much has failed that it was paused. */
    failure_limit_reached: z.boolean(),
    /** Whether it is cancelled with its active runs. */
    cancel_runs: z.boolean(),
    /** Whether it begins although what it comes after has failed. */
    continue_on_failure: z.boolean(),
    /** Whether chunks may be planned now, by its start and its window. */
    window_open: z.boolean(),
    display_status: z.enum([...BackfillStateField.options, "PAUSED_WITH_FAILURES"]),
    chunks_pending: Count,
    partitions_pending: Count,
    /** Finished pairs of asset and partition a second, lately; null when it does not run. */
    rate_per_second: z.number().nullable(),
    /** When it will be done at that rate; null while its window is closed. */
    eta_at: InstantText.nullable(),
    /** How long it was paused, in pauses that are over; and since when it is paused. */
    paused_ms: Count,
    paused_at: InstantText.nullable(),
  })
  .meta({ id: "Backfill" });
export type BackfillDocument = z.infer<typeof BackfillDocument>;

/** Where a chunk stands. */
export const ChunkStateField = z.enum([
  "PENDING",
  "PLANNED",
  "RUNNING",
  "SUCCEEDED",
  "FAILED",
  "CANCELLED",
  "SPLIT",
]);

const OrdinalsByAssetField = z
  .array(z.strictObject({ asset: Count, ordinals: z.array(IntervalPair) }))
  .nullable();

const chunkRow = z.strictObject({
  backfill_id: z.string(),
  chunk_index: Count,
  generation: Count,
  state: ChunkStateField,
  parts: z.array(
    z.strictObject({ from: Count, to: Count, assets: z.array(Count).exactOptional() }),
  ),
  partitions: Count,
  run_pos: Count.nullable(),
  run_id: z.string().nullable(),
  failed: OrdinalsByAssetField,
  skipped: OrdinalsByAssetField,
  cancelled: OrdinalsByAssetField,
  split_into: z.array(Count).nullable(),
  planned_at: InstantText.nullable(),
  finished_at: InstantText.nullable(),
  row_version: Count,
}) satisfies z.ZodType<ChunkRow>;

/** A chunk as the API shows it, also when it is not planned yet. */
export const ChunkDocument = chunkRow
  .extend({
    chunk_id: z.string(),
    /** The key of its run, which it has also before it is planned. */
    run_key: z.string(),
    /** Keys of the first and last partition; null for assets without partitions. */
    first_partition_key: z.string().nullable(),
    last_partition_key: z.string().nullable(),
    /** How many partitions it has, whatever the number of assets; 0 for assets without. */
    partition_count: Count,
    /** The first of its keys: at most 100, and at most 2,000 of all chunks of a page. */
    partition_keys: z.array(z.string()),
    /** Where the other keys go on in `/chunks/{chunk_index}/partitions`; null when these are all. */
    partition_keys_cursor: z.string().nullable(),
    /** The first keys, as many, of which an asset failed, once its run has ended. */
    failed_partition_keys: z.array(z.string()),
  })
  .meta({ id: "Chunk" });
export type ChunkDocument = z.infer<typeof ChunkDocument>;

/** A partition of a chunk, and which assets did not succeed for it, once its run has ended. */
export const ChunkPartitionDocument = z
  .strictObject({
    partition_key: z.string(),
    failed: z.array(z.string()),
    cancelled: z.array(z.string()),
    skipped: z.array(z.string()),
  })
  .meta({ id: "ChunkPartition" });
export type ChunkPartitionDocument = z.infer<typeof ChunkPartitionDocument>;
