import { addPartitionKeys } from "../../work/asset/add-keys.ts";
import { assetNotFound } from "../../work/asset/look-up.ts";
import type { AssetDocument } from "../../work/asset/api.ts";
import { AssertionFailure } from "../../kernel/errors.ts";
import type { Instant } from "../../kernel/instant.ts";
import type { DynamicKeys } from "../../kernel/keyspace/keyspace.ts";
import { keyspaceOf } from "../../kernel/keyspace/keyspace-of.ts";
import { dimensionsOf } from "../../kernel/keyspace/definition.ts";
import {
  type DefinitionRow,
  DEFINITIONS,
  DYNAMIC_DEFINITIONS,
} from "../../work/definition/rows.ts";
import type { AssetSpec } from "../../work/definition/spec.ts";
import type { Reader } from "../../store/store.ts";
import { type Handlers, readAt, submitted } from "../http/call.ts";
import { listRows } from "../http/read-within.ts";
import { withSpecs } from "./definitions.ts";

/** Definitions of assets as documents, with how many partitions each has now. */
async function assetDocuments(
  rows: readonly DefinitionRow[],
  reader: Reader,
  now: Instant,
): Promise<AssetDocument[]> {
  const assets = (await withSpecs(rows, reader)).flatMap(({ row, spec }) =>
    spec.kind === "asset" ? [{ row, spec }] : [],
  );
  const counts = await dynamicCounts(
    assets.map(({ spec }) => spec),
    reader,
  );
  return assets.map(({ row, spec }) => {
    const count = spec.partitions === null ? null : keyspaceOf(spec.partitions, counts, now).count;
    const { spec_hash, origin, definition_version, published_at } = row;
    const { code_version, code_version_at, row_version } = row;
    return {
      asset_key: row.name,
      spec_hash,
      origin,
      definition_version,
      published_at,
      code_version,
      code_version_at,
      row_version,
      spec,
      partition_count: count,
    };
  });
}

/** How many keys the dynamic definitions of some assets have: all that a count needs. */
export async function dynamicCounts(
  specs: readonly AssetSpec[],
  reader: Reader,
): Promise<DynamicKeys> {
  const names = specs.flatMap(({ partitions }) =>
    partitions === null
      ? []
      : dimensionsOf(partitions).flatMap(({ definition }) =>
          definition.type === "dynamic" ? [definition.name] : [],
        ),
  );
  const keys = [...new Set(names)].map((name) => [name]);
  const rows = await reader.load(DYNAMIC_DEFINITIONS, keys);
  const counts = new Map(rows.map((row) => [row.definition, row.key_count]));
  const keysAsked = (): never => {
    throw new AssertionFailure("counting partitions needs no keys");
  };
  return { count: (name) => counts.get(name) ?? 0, keyAt: keysAsked, indexOf: keysAsked };
}

/** What can be done with assets. */
export const ASSET_HANDLERS = {
  listAssets: (call) =>
    listRows(
      call,
      {
        table: DEFINITIONS,
        where: [{ cell: "kind", is: "=", value: "asset" }],
        along: ["name"],
      },
      (rows, reader) => assetDocuments(rows, reader, call.server.now()),
    ),
  getAsset: (call) =>
    readAt(call, async (reader) => {
      const rows = await reader.load(DEFINITIONS, [["asset", call.params.asset_key]]);
      const [answer] = await assetDocuments(rows, reader, call.server.now());
      if (answer === undefined) throw assetNotFound(call.params.asset_key);
      return { answer, pos: (await reader.head()).pos };
    }),
  addPartitionKeys: (call) =>
    submitted(
      call,
      addPartitionKeys({
        ...call.body,
        asset_key: call.params.asset_key,
        request_id: call.body.request_id ?? call.idempotency?.key ?? "",
      }),
      (result) => ({
        message: `${result.definition} has ${result.count} keys, ${result.added} of them new.`,
        ...result,
      }),
    ),
} satisfies Handlers;
