import { z } from "zod";
import { Count, InstantText, JsonValue, Sha256 } from "../envelope.ts";
import { EXPLICIT_KEYS_MAX, StaleReason, StaleReasons } from "../../kernel/keyspace/selector.ts";
import { CheckDocument, CheckStatus } from "./checks.ts";
import { Spec, SpecKind } from "../definition/published-spec.ts";
import { AssetSpec, AssetKey } from "../definition/spec.ts";
import { PartitionKey } from "../../kernel/keyspace/definition.ts";
import {
  accepted,
  commaList,
  QueryFlag,
  LARGE_BODY_BYTES_MAX,
  type Operation,
  ORCHESTRATION_PATH,
  pageOf,
  pageQuery,
  readQuery,
  timeQuery,
  DOCUMENT_BYTES_MAX,
} from "../operation.ts";

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
    /** Who said that it was made elsewhere; null when a run made it. */
    last_materialization_reported_by: z.string().nullable(),
    last_materialization_at: InstantText.nullable(),
    last_materialization_code_version: z.string().nullable(),
    last_materialization_start_pos: Count.nullable(),
    last_materialization_pos: Count.nullable(),
    metadata: JsonValue,
    /** What the checks of the last materialization came to, the worst of them; null where there were none. */
    check_status: CheckStatus.nullable(),
    /** Those of them that did not pass; left out where a page has no room for more. */
    failed_checks: z.array(CheckDocument),
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

/** Partitions that one is made from. */
export const UpstreamPartitions = pageOf(PartitionDocument)
  .extend({
    /** How many there are on all pages. */
    total: Count,
  })
  .meta({ id: "UpstreamPartitions" });

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

const DEFINITIONS_PATH = `${ORCHESTRATION_PATH}/definitions`;
const ASSETS_PATH = `${ORCHESTRATION_PATH}/assets`;
/** Where the partitions of an asset are. */
export const PARTITIONS_PATH = `${ASSETS_PATH}/{asset_key}/partitions`;

/** Specs to publish. */
export const PublishBody = z
  .strictObject({
    origin: z.enum(["code", "api"]).default("api"),
    specs: z.array(Spec).max(10_000),
    /** Remove what the same origin published before and is not among these. */
    prune: z.boolean().default(false),
  })
  .meta({ id: "PublishDefinitions" });
export type PublishBody = z.infer<typeof PublishBody>;

/** What publishing answers. */
export const PublishedDefinitions = z
  .strictObject({
    ...accepted,
    definition_version: Count,
    /** Names of what was new or different. */
    changed: z.array(z.string()),
    removed: z.array(z.string()),
  })
  .meta({ id: "PublishedDefinitions" });
export type PublishedDefinitions = z.infer<typeof PublishedDefinitions>;

const keysBody = {
  request_id: z.string().min(1).max(200).optional(),
  keys: z.array(PartitionKey).min(1).max(EXPLICIT_KEYS_MAX),
  /** Which dimension, where the asset has several. */
  dimension: z.string().min(1).max(64).optional(),
};

/** Keys to add to a dynamic partition definition. */
export const AddKeysBody = z.strictObject(keysBody).meta({ id: "AddPartitionKeys" });
export type AddKeysBody = z.infer<typeof AddKeysBody>;

/** Keys to remove from a dynamic partition definition. */
export const RemoveKeysBody = z.strictObject(keysBody).meta({ id: "RemovePartitionKeys" });
export type RemoveKeysBody = z.infer<typeof RemoveKeysBody>;

/** What is said of a definition whose keys changed. */
const keysAnswer = {
  ...accepted,
  definition: z.string(),
  /** How many keys the definition has now. */
  count: Count,
};

/** What removing keys answers: how many were removed, and how many were not there. */
export const RemovedKeys = z
  .strictObject({ ...keysAnswer, removed: Count, absent: Count })
  .meta({ id: "RemovedPartitionKeys" });
export type RemovedKeys = z.infer<typeof RemovedKeys>;

/** What adding keys answers: how many were new, and how many were there already. */
export const AddedKeys = z
  .strictObject({ ...keysAnswer, added: Count, existing: Count })
  .meta({ id: "AddedPartitionKeys" });
export type AddedKeys = z.infer<typeof AddedKeys>;

/** The most partitions that one map shows. */
const MAP_LIMIT_MAX = 1_000_000;

/** A place among the partitions of an asset. */
const Ordinal = z.coerce.number<number>().int().min(0);

/** Which asset. */
export const AssetParams = z.strictObject({ asset_key: AssetKey });

/** What the API can do with definitions, assets and their partitions. */
export const ASSET_OPERATIONS = {
  publishDefinitions: {
    method: "POST",
    path: DEFINITIONS_PATH,
    summary: "Publishes specs; unchanged ones cost nothing",
    verb: "write",
    body: PublishBody,
    bodyBytesMax: LARGE_BODY_BYTES_MAX,
    answer: PublishedDefinitions,
    status: 202,
  },
  listDefinitions: {
    method: "GET",
    path: DEFINITIONS_PATH,
    summary: "Lists what is published",
    verb: "read",
    query: z.strictObject({ ...pageQuery, kind: SpecKind.optional() }),
    answer: pageOf(DefinitionDocument),
    status: 200,
  },
  listAssets: {
    method: "GET",
    path: ASSETS_PATH,
    summary: "Lists assets by key",
    verb: "read",
    query: z.strictObject(pageQuery),
    answer: pageOf(AssetDocument),
    status: 200,
  },
  getAsset: {
    method: "GET",
    path: `${ASSETS_PATH}/{asset_key}`,
    summary: "Shows an asset",
    verb: "read",
    params: AssetParams,
    query: z.strictObject(readQuery),
    answer: AssetDocument,
    status: 200,
  },
  listAssetPartitions: {
    method: "GET",
    path: PARTITIONS_PATH,
    summary: "Lists the partitions of an asset in order, also those never materialized",
    verb: "read",
    params: AssetParams,
    query: z.strictObject({
      ...pageQuery,
      ...timeQuery,
      status: commaList(PartitionStatus).optional(),
      checks: commaList(CheckStatus).optional(),
      /** Begin at this ordinal, instead of where a cursor says. */
      from: Ordinal.optional(),
    }),
    answer: pageOf(PartitionDocument),
    status: 200,
  },
  listUpstreamPartitions: {
    method: "GET",
    path: `${PARTITIONS_PATH}/upstream`,
    summary: "Lists the partitions that one partition is made from, with their status",
    verb: "read",
    params: AssetParams,
    query: z.strictObject({
      ...pageQuery,
      /** Whose upstream partitions; left out for an asset without partitions. */
      partition: PartitionKey.optional(),
    }),
    answer: UpstreamPartitions,
    status: 200,
  },
  mapPartitions: {
    method: "GET",
    path: `${PARTITIONS_PATH}/map`,
    summary: "Shows the status of up to a million partitions of an asset as run lengths",
    verb: "read",
    params: AssetParams,
    query: z.strictObject({
      ...readQuery,
      from: Ordinal.default(0),
      limit: z.coerce.number<number>().int().min(1).max(MAP_LIMIT_MAX).default(MAP_LIMIT_MAX),
      /** Also say what is stale, as far as a number of looks goes. */
      stale: QueryFlag.default("false"),
    }),
    answer: PartitionMap,
    status: 200,
  },
  listPartitionValues: {
    method: "GET",
    path: `${PARTITIONS_PATH}/values`,
    summary: "Lists the keys of an asset's partitions, or the values of one dimension, in order",
    verb: "read",
    params: AssetParams,
    query: z.strictObject({
      ...readQuery,
      /** Which dimension, where the asset has several; whole keys when left out. */
      dimension: z.string().max(64).optional(),
      from: Ordinal.default(0),
      /** Begin at this value, instead of at an ordinal. */
      around: z.string().min(1).max(1_000).optional(),
      limit: z.coerce.number<number>().int().min(1).max(1_000).default(200),
    }),
    answer: PartitionValues,
    status: 200,
  },
  summarizePartitions: {
    method: "GET",
    path: `${PARTITIONS_PATH}/summary`,
    summary: "Counts the partitions of an asset by condition",
    verb: "read",
    params: AssetParams,
    query: z.strictObject(readQuery),
    answer: PartitionSummary,
    status: 200,
  },
  addPartitionKeys: {
    method: "POST",
    path: PARTITIONS_PATH,
    summary: "Adds keys to an asset with dynamic partitions",
    verb: "write",
    params: AssetParams,
    body: AddKeysBody,
    bodyBytesMax: DOCUMENT_BYTES_MAX,
    answer: AddedKeys,
    status: 202,
    creates: true,
    keyField: "request_id",
  },
  removePartitionKeys: {
    method: "POST",
    path: `${PARTITIONS_PATH}/remove`,
    summary: "Removes keys from an asset with dynamic partitions; what is known of them stays",
    verb: "write",
    params: AssetParams,
    body: RemoveKeysBody,
    bodyBytesMax: DOCUMENT_BYTES_MAX,
    answer: RemovedKeys,
    status: 202,
    creates: true,
    keyField: "request_id",
  },
  listPartitions: {
    method: "GET",
    path: `${ORCHESTRATION_PATH}/partitions`,
    summary: "Lists partitions that were tried, across assets",
    verb: "read",
    query: z.strictObject({
      ...pageQuery,
      /** By the time of the last attempt. */
      ...timeQuery,
      asset: AssetKey.optional(),
      status: commaList(PartitionStatus).optional(),
      /** By what the checks of the last materialization came to. */
      checks: commaList(CheckStatus).optional(),
    }),
    answer: pageOf(PartitionDocument),
    status: 200,
  },
  listStalePartitions: {
    method: "GET",
    path: `${ORCHESTRATION_PATH}/partitions/stale`,
    summary: "Lists stale partitions with the reason; a page may be short and still have a next",
    verb: "read",
    query: z.strictObject({
      ...pageQuery,
      asset: AssetKey.optional(),
      reason: commaList(StaleReason).optional(),
    }),
    answer: pageOf(PartitionDocument),
    status: 200,
  },
} as const satisfies Record<string, Operation>;
