import { z } from "zod";
import { StaleReason } from "../../kernel/keyspace/selector.ts";
import { Count, InstantText } from "../envelope.ts";
import { AssetOfRun, runRef } from "../run/events.ts";

/** Why an upstream partition does not count as there. */
export const UnmetReason = z.enum([...StaleReason.options, "CHECK_FAILED"]);
export type UnmetReason = z.infer<typeof UnmetReason>;

/** What a task waits for, since when, and until when at most. */
export const TaskWait = z.object({
  asset_key: z.string(),
  /** Empty for an asset without partitions. */
  partition_key: z.string(),
  reason: UnmetReason,
  /** How many other upstream partitions were not there either. */
  others: Count,
  since: InstantText,
  until: InstantText,
});
export type TaskWait = z.infer<typeof TaskWait>;

/** Tasks were to start, and what their assets require of their upstream was not so: they wait for it. */
export const TasksDeferred = {
  ...runRef,
  assets: z.array(AssetOfRun).min(1),
  tasks: z
    .array(
      z.object({
        task_key: Count,
        attempt: Count,
        asset_index: Count,
        asset_key: z.string(),
        waits: TaskWait,
      }),
    )
    .min(1),
};

/** What tasks wait for may be there now: they are to start, and are judged again when they do. */
export const TasksRequeued = {
  ...runRef,
  assets: z.array(AssetOfRun).min(1),
  tasks: z.array(z.object({ task_key: Count, attempt: Count, asset_index: Count })).min(1),
};

/** Whoever waited for these partitions of an asset was told that they were made. */
export const AwaitedPartitionsMade = {
  asset_key: z.string(),
  /** Null for every partition that was waited for. */
  partition_keys: z.array(z.string()).nullable(),
  /** Those of them that something waits for again. */
  awaited: z.array(z.string()),
  /** Nothing is waited for any more. */
  none_left: z.boolean(),
};
