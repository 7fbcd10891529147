import { z } from "zod";
import { PartitionKey } from "../../kernel/keyspace/definition.ts";
import { AssetKey } from "../definition/spec.ts";
import { Count, InstantText, JsonValue } from "../envelope.ts";
import { PAGE_LIMIT_MAX, pageQuery } from "../operation.ts";
import { TaskRef } from "../run/protocol.ts";
import { PartitionStatus } from "./api.ts";

/** "What is my task made from?", asked by the attempt that holds the task. */
export const UpstreamRequest = z.strictObject({
  ...TaskRef.shape,
  /** The upstream asset. */
  asset_key: AssetKey,
  /** Which of the task's partitions; all of them when absent. */
  partition_key: PartitionKey.optional(),
  limit: z.int().min(1).max(PAGE_LIMIT_MAX).default(PAGE_LIMIT_MAX),
  cursor: pageQuery.cursor,
});
export type UpstreamRequest = z.input<typeof UpstreamRequest>;

/** Upstream partitions of a task, by their order in their asset. */
export const UpstreamAnswer = z.object({
  items: z.array(
    z.object({
      /** Empty for an asset without partitions. */
      partition_key: z.string(),
      status: PartitionStatus,
      last_materialization_at: InstantText.nullable(),
      /** The run that made it; null also for one that was reported as made elsewhere. */
      last_materialization_run_id: z.string().nullable(),
      last_materialization_code_version: z.string().nullable(),
      metadata: JsonValue,
    }),
  ),
  /** How many there are on all pages. */
  total: Count,
  next_cursor: z.string().nullable(),
  pos: Count,
});
export type UpstreamAnswer = z.infer<typeof UpstreamAnswer>;
