import { z } from "zod";
import { Count, InstantText, JsonValue, Sha256 } from "../events/fields.ts";
import { StaleReason, StaleReasons } from "../partitions/stale-reason.ts";
import { Spec, SpecKind } from "../published-spec.ts";
import { AssetSpec } from "../spec.ts";

const definition = {
  spec_hash: Sha256,
  origin: z.enum(["code", "api"]),
  definition_version: Count,
  published_at: InstantText,
  code_version: z.string().nullable(),
  code_version_at: InstantText.nullable(),
  row_version: Count,
};

/** A published definition as the API shows it: its row and its spec. */
export const DefinitionDocument = z
  .strictObject({
    kind: SpecKind,
    name: z.string(),
    ...definition,
    /** The id of what acts by itself; null for assets and pools. */
    entity_id: z.string().nullable(),
    spec: Spec,
  })
  .meta({ id: "Definition" });
export type DefinitionDocument = z.infer<typeof DefinitionDocument>;

/** An asset as the API shows it. */
export const AssetDocument = z
  .strictObject({
    asset_key: z.string(),
    ...definition,
    spec: AssetSpec,
    /** How many partitions there are now; null for an asset without partitions. */
    partition_count: Count.nullable(),
  })
  .meta({ id: "Asset" });
export type AssetDocument = z.infer<typeof AssetDocument>;

/** What a partition is shown as; the first that applies. */
export const PartitionStatus = z.enum([
  "IN_PROGRESS",
  "FAILED",
  "NEVER_MATERIALIZED",
  "MATERIALIZED_LAST_ATTEMPT_FAILED",
  "STALE",
  "MATERIALIZED",
]);
export type PartitionStatus = z.infer<typeof PartitionStatus>;

/** What a cell of a map shows: of what is in progress, that which has data from before stands apart. */
export const MapStatus = z.enum([...PartitionStatus.options, "BEING_REMADE"]);
export type MapStatus = z.infer<typeof MapStatus>;

/** One partition of one asset as the API shows it, also when it was never tried. */
export const PartitionDocument = z
  .strictObject({
    asset_key: z.string(),
    /** Empty for an asset without partitions. */
    partition_key: z.string(),
    partition_values: z.record(z.string(), z.string()).nullable(),
    /** Its place among the partitions of the asset; null when the definition no longer has it. */
    ordinal: Count.nullable(),
    status: PartitionStatus,
    stale_reason: StaleReason.nullable(),
    /** The same as `stale_reason`. */
    stale_reason_code: StaleReason.nullable(),
    stale_since: InstantText.nullable(),
    last_materialization_run_id: z.string().nullable(),
    last_materialization_at: InstantText.nullable(),
    last_materialization_code_version: z.string().nullable(),
    last_materialization_start_pos: Count.nullable(),
    metadata: JsonValue,
    last_attempt_run_id: z.string().nullable(),
    last_attempt_at: InstantText.nullable(),
    last_attempt_outcome: z.enum(["SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"]).nullable(),
    last_attempt_start_pos: Count.nullable(),
    /** Why the last attempt failed, and the task of its run that has the log; null when it did not. */
    last_attempt_error: z
      .strictObject({ task_key: Count, class: z.string(), message: z.string() })
      .nullable(),
    row_version: Count.nullable(),
  })
  .meta({ id: "Partition" });
export type PartitionDocument = z.infer<typeof PartitionDocument>;

/**
 * How many partitions of an asset are in which condition. They add up to the total, but that what is
 * being remade is in progress and materialized as well.
 */
export const PartitionSummary = z
  .strictObject({
    asset_key: z.string(),
    total: Count,
    in_progress: Count,
    /** Never tried, or tried without an end that says it failed. */
    never_materialized: Count,
    /** Tried and failed, with nothing there from before. */
    failed: Count,
    materialized_last_attempt_failed: Count,
    /** Materialized, whether stale or being remade or not. */
    materialized: Count,
    /** In progress, with data from before. */
    being_remade: Count,
    /** What is stale and not in progress, by the first reason that applies. */
    stale_reasons: StaleReasons,
    /**
     * Whether all partitions were looked at for that; when not, there may be more than are counted.
     */
    stale_complete: z.boolean(),
    pos: Count,
  })
  .meta({ id: "PartitionSummary" });
export type PartitionSummary = z.infer<typeof PartitionSummary>;

/** One dimension of a map: partitions that differ by one in it are `stride` ordinals apart. */
export const MapDimension = z
  .strictObject({
    /** Empty for an asset whose partitions have one dimension. */
    name: z.string(),
    count: Count,
    stride: Count,
  })
  .meta({ id: "MapDimension" });
export type MapDimension = z.infer<typeof MapDimension>;

/** What many partitions of an asset are shown as, by ordinal. */
export const PartitionMap = z
  .strictObject({
    asset_key: z.string(),
    /** How many partitions there are; 1 for an asset without partitions. */
    total: Count,
    from: Count,
    /** The first ordinal that the map does not tell of. */
    through: Count,
    /** The last one varies fastest; none for an asset without partitions. */
    dimensions: z.array(MapDimension),
    statuses: z.array(MapStatus),
    /** Place of a status in `statuses`, how many partitions have it, and so on. */
    lengths: z.array(Count),
    pos: Count,
  })
  .meta({ id: "PartitionMap" });
export type PartitionMap = z.infer<typeof PartitionMap>;

/** Keys of partitions or values of a dimension, in order. */
export const PartitionValues = z
  .strictObject({
    items: z.array(z.strictObject({ ordinal: Count, value: z.string() })),
    total: Count,
    pos: Count,
  })
  .meta({ id: "PartitionValues" });
export type PartitionValues = z.infer<typeof PartitionValues>;
