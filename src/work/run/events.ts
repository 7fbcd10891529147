import { z } from "zod";
import { SegmentPurpose, SegmentReport } from "../sync/segment-protocol.ts";
import { CheckResults } from "../asset/checks.ts";
import { Labels, RetryPolicy } from "../definition/spec.ts";
import { ShardWorkRef, StepReport } from "../shard/step-protocol.ts";
import { Block } from "../sync/spec.ts";
import { Count, FailureField, InstantText, IntervalPair, JsonValue, Sha256 } from "../envelope.ts";

/** The segment of a sync that a run is about, under the generation it was asked for. */
export const SegmentRef = z.object({
  sync_id: z.string(),
  segment_index: Count,
  generation: Count,
  purpose: SegmentPurpose,
});
export type SegmentRef = z.infer<typeof SegmentRef>;

/** The part of some work that a run is about, for kinds without a reference of their own; `n` makes it unique. */
export const WorkRef = z.object({
  kind: z.string(),
  id: z.string(),
  index: Count,
  n: Count,
});
export type WorkRef = z.infer<typeof WorkRef>;

/** Who asked for a run. */
export const TriggerSourceField = z.discriminatedUnion("type", [
  z.object({ type: z.literal("manual"), user_id: z.string(), request_id: z.string() }),
  z.object({
    type: z.literal("backfill"),
    backfill_id: z.string(),
    chunk_id: z.string(),
    generation: Count,
  }),
  z.object({ type: z.literal("schedule"), schedule_id: z.string(), tick_id: z.string() }),
  z.object({ type: z.literal("sensor"), sensor_id: z.string(), eval_id: z.string() }),
  z.object({ type: z.literal("sync"), ...SegmentRef.shape }),
  z.object({ type: z.literal("shards"), work: ShardWorkRef }),
  z.object({ type: z.literal("work"), ...WorkRef.shape }),
]);

/**
 * One asset of a run and the tasks it stands for: one for each of its partitions, or one in all
 * (`batch`, or no partitions). Tasks are numbered through the run, asset by asset.
 */
export const RunAssetField = z.object({
  asset_key: z.string(),
  spec_hash: Sha256,
  batch: z.boolean(),
  pool: z.string().nullable(),
  /** Which of the run's partition keys, by index; null for all. */
  partition_indexes: z.array(IntervalPair).nullable(),
  /**
   * Edges from earlier assets of the run, or from its own. `same`: each task waits for the upstream task of its own
   * partition; `all`: for every upstream task; or pairs of partition indexes [upstream, own].
   */
  upstream: z.array(
    z.object({
      asset: Count,
      edges: z.union([z.literal("same"), z.literal("all"), z.array(IntervalPair)]),
    }),
  ),
});
export type RunAssetField = z.infer<typeof RunAssetField>;

/** A run was asked for. Under a known run key it is a conflict and makes no run. */
export const RunRequested = {
  /** Long enough for that of a sensor's message, whose id may have 500 characters. */
  run_key: z.string().min(1).max(600),
  run_id: z.string(),
  request_fingerprint: Sha256,
  asset_selection: z.array(z.string()).min(1),
  partition_selection: z.array(z.string()).nullable(),
  config: JsonValue,
  tasks: z.array(RunAssetField).min(1),
  trigger_source_ref: TriggerSourceField,
  backfill_id: z.string().nullable(),
  chunk_index: Count.nullable(),
  labels: Labels,
  code_version: z.string().nullable(),
  class: Count,
  priority: z.int(),
  retry: RetryPolicy.nullable(),
};

/** What the fold needs to find the rows of a run. */
export const runRef = {
  run_id: z.string(),
  run_pos: z.int().positive(),
  backfill_id: z.string().nullable(),
  chunk_index: Count.nullable(),
  segment: SegmentRef.optional(),
  /** The step of a move or a split that the run is. */
  shard_work: ShardWorkRef.optional(),
  work: WorkRef.optional(),
};

/** The first task of a run has started. */
export const RunStarted = { ...runRef };

const OrdinalsByAssetField = z.array(z.object({ asset: Count, indexes: z.array(IntervalPair) }));

/** What the end of its run makes of a segment. */
export const SegmentEndField = z.discriminatedUnion("becomes", [
  z.object({
    becomes: z.literal("complete"),
    synced_to: z.int().min(-1),
    /** The complete piece of tail right before it that swallows it; null when it stays. */
    merged_into: Count.nullable(),
  }),
  /** To be run again under the next generation, from where it got to unless that is void. */
  z.object({ becomes: z.literal("pending"), reason: z.string(), undo: z.boolean() }),
  z.object({ becomes: z.literal("quarantined"), error: FailureField }),
  /** Complete but for some blocks, which stand alone from now on. */
  z.object({
    becomes: z.literal("split"),
    synced_to: z.int().min(-1),
    tiles: z
      .array(
        z.object({
          segment_index: Count,
          from_block: Block,
          to_block: Block,
          /** Why it cannot be fetched; null for what is complete. */
          error: FailureField.nullable(),
        }),
      )
      .min(1),
  }),
  /** The run was about an earlier generation, or only looked: the segment stays as it is. */
  z.object({ becomes: z.literal("released") }),
]);
export type SegmentEndField = z.infer<typeof SegmentEndField>;

/** All tasks of a run have ended. */
export const RunFinished = {
  ...runRef,
  segment_end: SegmentEndField.optional(),
  /** The schedule whose tick asked for the run. */
  schedule_id: z.string().optional(),
  outcome: z.enum(["SUCCEEDED", "FAILED", "CANCELLED"]),
  asset_count: z.int().positive(),
  task_count: z.int().positive(),
  /** Pairs of asset and partition, by outcome. */
  counts: z.object({ succeeded: Count, failed: Count, cancelled: Count, skipped: Count }),
  /** Indexes into the run's partition keys of what did not succeed, by asset of the run. */
  failed: OrdinalsByAssetField,
  cancelled: OrdinalsByAssetField,
  skipped: OrdinalsByAssetField,
  /** The failed chunk is replaced by smaller ones, so the backfill does not count it as failed. */
  splits: z.boolean(),
};

/** Somebody wants the run to stop. Its tasks that wait are closed by the events beside this one. */
export const RunCancelRequested = {
  ...runRef,
  reason: z.string(),
  deadline_at: InstantText,
};

/**
 * How many tasks an entry stands for: this one and those numbered directly after it, which are alike
 * in everything said here. One when absent.
 */
const repeated = { count: z.int().min(2).optional() };

/** What the fold needs to find an asset of a run. */
export const AssetOfRun = z.object({
  asset_index: Count,
  pool: z.string().nullable(),
});

/** A worker took tasks of one run. `attempt` is the fence from now on. */
export const TasksStarted = {
  ...runRef,
  worker_id: z.string(),
  /** The id of the token that claimed them; only who has it may say anything of these attempts. */
  claimed_by: z.string().optional(),
  assets: z.array(AssetOfRun).min(1),
  tasks: z
    .array(
      z.object({
        task_key: Count,
        attempt: z.int().positive(),
        asset_index: Count,
        partitions: z.int().positive(),
        ...repeated,
      }),
    )
    .min(1),
};

/** What happened to one partition of a task that had several. */
export const PartitionExceptionField = z.object({
  index: Count,
  outcome: z.enum(["FAILED", "SKIPPED"]),
  error: FailureField.nullable(),
});

/** One task's result. */
export const TaskResultField = z.object({
  task_key: Count,
  attempt: Count,
  asset_index: Count,
  asset_key: z.string(),
  outcome: z.enum(["SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"]),
  ...repeated,
  /**
   * Keys of the task's partitions, in order; `[""]` for an asset without partitions. Empty when it
   * never started. Of an entry for several tasks, one key of each.
   */
  partition_keys: z.array(z.string()),
  /** How many partitions each task stands for, also when it never started. */
  partitions: z.int().positive(),
  /** Partitions that differ from the outcome, by their place in `partition_keys`. */
  exceptions: z.array(PartitionExceptionField).optional(),
  code_version: z.string().nullable(),
  metadata: JsonValue.optional(),
  /** What checks found in the partitions that a success has made. */
  checks: CheckResults.optional(),
  error: FailureField.optional(),
  /** The worker gave the task back: the attempt does not count as a failure. */
  released: z.boolean().optional(),
  /**
   * The attempt was lost with its worker, and is no failure of the task: the so manieth in a row. In
   * older events, where it is absent, a lease that ran out counts as a failure.
   */
  lost_attempts: z.int().positive().optional(),
  /** Of an attempt at a segment: how far it got. */
  segment: SegmentReport.optional(),
  /** Of an attempt at a step on shards: what it found or did. */
  step: StepReport.optional(),
  /** There is another attempt, from this time on. */
  retry_at: InstantText.optional(),
  /** Tasks that need not wait for this one any more. */
  releases: z.array(z.object({ task_key: Count, asset_index: Count })).optional(),
  /** Tasks that can never run now, as this one failed. */
  skips: z
    .array(z.object({ task_key: Count, asset_index: Count, partitions: z.int().positive() }))
    .optional(),
});
export type TaskResultField = z.infer<typeof TaskResultField>;

/** Tasks of one run ended, or wait for another attempt. */
export const TasksFinished = {
  ...runRef,
  assets: z.array(AssetOfRun).min(1),
  results: z.array(TaskResultField).min(1),
};

/** A worker was not heard of in time; its task is free for another attempt, or failed. */
export const TaskLeaseExpired = {
  ...runRef,
  task_key: Count,
  attempt: z.int().positive(),
  assets: z.array(AssetOfRun).min(1),
  result: TaskResultField,
};
