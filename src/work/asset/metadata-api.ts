import { z } from "zod";
import { PartitionKey } from "../../kernel/keyspace/definition.ts";
import { Count, InstantText, JsonValue } from "../envelope.ts";
import { commaList, type Operation, pageOf, pageQuery, readQuery } from "../operation.ts";
import { AssetParams, PARTITIONS_PATH } from "./api.ts";

/** A materialization of a partition, and what it said of itself. */
export const SaidMetadata = z
  .strictObject({
    materialized_at: InstantText,
    /** Where it is in the ledger. */
    pos: Count,
    run_id: z.string().nullable(),
    /** Who said that it was made elsewhere; null when a run made it. */
    reported_by: z.string().nullable(),
    code_version: z.string().nullable(),
    metadata: JsonValue,
  })
  .meta({ id: "SaidMetadata" });
export type SaidMetadata = z.infer<typeof SaidMetadata>;

/** The numbers that the last materialization of a partition said. */
export const PartitionNumbers = z
  .strictObject({
    /** Empty for an asset without partitions. */
    partition_key: z.string(),
    ordinal: Count,
    materialized_at: InstantText,
    pos: Count,
    numbers: z.record(z.string(), z.number()),
  })
  .meta({ id: "PartitionNumbers" });
export type PartitionNumbers = z.infer<typeof PartitionNumbers>;

/** Numbers of neighbouring partitions. */
export const AssetNumbers = z
  .strictObject({
    asset_key: z.string(),
    /** How many partitions there are. */
    total: Count,
    from: Count,
    /** The first ordinal that was not looked at. */
    through: Count,
    /** What there are numbers of, with the unit that the last of them has. */
    names: z.array(z.strictObject({ name: z.string(), unit: z.string().nullable() })),
    /** Those with numbers, in order. */
    items: z.array(PartitionNumbers),
    pos: Count,
  })
  .meta({ id: "AssetNumbers" });
export type AssetNumbers = z.infer<typeof AssetNumbers>;

/** Partitions that one answer looks at. */
export const NUMBERED_MAX = 1_000;

/** What the API can tell of metadata over time and over partitions. */
export const METADATA_OPERATIONS = {
  listPartitionMetadata: {
    method: "GET",
    path: `${PARTITIONS_PATH}/metadata`,
    summary: "Lists what materializations of a partition said of themselves, newest first",
    verb: "read",
    params: AssetParams,
    query: z.strictObject({
      ...pageQuery,
      /** Which partition; left out for an asset without partitions. */
      partition: PartitionKey.optional(),
    }),
    answer: pageOf(SaidMetadata),
    status: 200,
  },
  listPartitionNumbers: {
    method: "GET",
    path: `${PARTITIONS_PATH}/numbers`,
    summary: "Lists the numbers in the metadata of an asset's partitions, in order",
    verb: "read",
    params: AssetParams,
    query: z.strictObject({
      ...readQuery,
      /** The ordinal to begin at; without one, the last partitions are looked at. */
      from: z.coerce.number<number>().int().min(0).optional(),
      limit: z.coerce.number<number>().int().min(1).max(NUMBERED_MAX).default(200),
      /** Only of these names. */
      names: commaList(z.string().min(1).max(200)).optional(),
    }),
    answer: AssetNumbers,
    status: 200,
  },
} as const satisfies Record<string, Operation>;
