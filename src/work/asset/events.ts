import { z } from "zod";
import { InstantText, JsonValue } from "../envelope.ts";

/** The most partitions that one event is about. */
export const REPORTED_MAX = 10_000;

const partition_keys = z.array(z.string()).min(1).max(REPORTED_MAX);

/** Partitions were made elsewhere, as somebody says. The key of an asset without partitions is empty. */
export const PartitionsReported = {
  asset_key: z.string(),
  request_id: z.string(),
  reported_by: z.string(),
  items: z
    .array(
      z.object({
        partition_keys,
        /** When they were made, as it was said. */
        materialized_at: InstantText,
        code_version: z.string().nullable(),
        metadata: JsonValue.exactOptional(),
      }),
    )
    .min(1)
    .max(1_000),
};

/** What was reported of partitions is not so: nothing is known of them any more. */
export const PartitionsForgotten = {
  asset_key: z.string(),
  request_id: z.string(),
  partition_keys,
};
