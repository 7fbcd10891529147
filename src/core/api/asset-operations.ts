import { z } from "zod";
import { Count } from "../events/fields.ts";
import { PartitionKey } from "../partitions/partition-definition.ts";
import { EXPLICIT_KEYS_MAX } from "../partitions/selector.ts";
import { StaleReason } from "../partitions/stale-reason.ts";
import { Spec, SpecKind } from "../published-spec.ts";
import { AssetKey } from "../spec.ts";
import {
  AssetDocument,
  DefinitionDocument,
  PartitionDocument,
  PartitionMap,
  PartitionStatus,
  PartitionSummary,
  PartitionValues,
} from "./asset-documents.ts";
import {
  accepted,
  commaList,
  Flag,
  LARGE_BODY_BYTES_MAX,
  type Operation,
  ORCHESTRATION_PATH,
  pageOf,
  pageQuery,
  readQuery,
  timeQuery,
  DOCUMENT_BYTES_MAX,
} from "./operation.ts";

const DEFINITIONS_PATH = `${ORCHESTRATION_PATH}/definitions`;
const ASSETS_PATH = `${ORCHESTRATION_PATH}/assets`;
const PARTITIONS_PATH = `${ASSETS_PATH}/{asset_key}/partitions`;

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

/** Keys to add to a dynamic partition definition. */
export const AddKeysBody = z
  .strictObject({
    request_id: z.string().min(1).max(200).optional(),
    keys: z.array(PartitionKey).min(1).max(EXPLICIT_KEYS_MAX),
    /** Which dimension, where the asset has several. */
    dimension: z.string().min(1).max(64).optional(),
  })
  .meta({ id: "AddPartitionKeys" });
export type AddKeysBody = z.infer<typeof AddKeysBody>;

/** What adding keys answers. */
export const AddedKeys = z
  .strictObject({
    ...accepted,
    definition: z.string(),
    /** How many were new, and how many were there already. */
    added: Count,
    existing: Count,
    /** How many keys the definition has now. */
    count: Count,
  })
  .meta({ id: "AddedPartitionKeys" });
export type AddedKeys = z.infer<typeof AddedKeys>;

/** The most partitions that one map shows. */
const MAP_LIMIT_MAX = 1_000_000;

/** A place among the partitions of an asset. */
const Ordinal = z.coerce.number<number>().int().min(0);

const AssetParams = z.strictObject({ asset_key: AssetKey });

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
      /** Begin at this ordinal, instead of where a cursor says. */
      from: Ordinal.optional(),
    }),
    answer: pageOf(PartitionDocument),
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
      stale: Flag.default("false"),
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
