import { canonicalJson, type Json } from "../../kernel/canonical.ts";
import type { Key } from "../../kernel/table.ts";
import type { Rows } from "../rows.ts";
import type { BlockMetadata } from "../run/rows.ts";
import { blockOf, needPartitions, placeIn } from "./partition-blocks.ts";

/** Characters of JSON that metadata may have to be in its partition's block. */
const METADATA_INSIDE_MAX = 256;

/** What a materialization said of itself, and whether that is too large for a block. */
export type Said = { readonly value: Json; readonly isApart: boolean };

/** Takes the measure of metadata; null when there is none. */
export function saidOf(metadata: Json | undefined): Said | null {
  if (metadata === undefined || metadata === null) return null;
  const isApart = canonicalJson(metadata).length > METADATA_INSIDE_MAX;
  return { value: metadata, isApart };
}

/** What a partition's last materialization said of itself. */
export function metadataAt(rows: Rows, assetKey: string, key: string): Json {
  const found = metadataFound(rows, assetKey, key);
  if (found === undefined) return null;
  if (found.length === 3) return found[2];
  return rows.partitionMetadata.get(assetKey, key)?.metadata ?? null;
}

function metadataFound(rows: Rows, assetKey: string, key: string): BlockMetadata | undefined {
  const block = rows.partitionBlocks.get(assetKey, blockOf(key));
  if (block === null || block.metadata === null) return undefined;
  const place = placeIn(block, key);
  return block.metadata.find(([from, to]) => from <= place && place <= to);
}

/** Makes sure that the metadata of partitions is in memory, with one load for all that is missing. */
export function needMetadata(rows: Rows, keys: readonly Key[]): void {
  needPartitions(rows, keys);
  const isRowOfItsOwn = ([assetKey, key]: Key): boolean =>
    metadataFound(rows, String(assetKey), String(key))?.length === 2;
  rows.partitionMetadata.need(keys.filter(isRowOfItsOwn));
}
