import { canonicalJson, type Json } from "../../kernel/canonical.ts";
import type { Instant } from "../../kernel/instant.ts";
import type { Key } from "../../kernel/table.ts";
import type { Rows } from "../rows.ts";
import type { BlockMetadata } from "../run/rows.ts";
import { type KeptMetadata } from "./block-edit.ts";
import { blockOf, needPartitions, partitionAt, placeIn } from "./partition-blocks.ts";

/** What materializations of a partition said, besides the last one: of more, the oldest go. */
export const METADATA_KEPT_MAX = 100;

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
  if (found.length < 5) return found[2];
  return rows.partitionMetadata.get(...keptKey(assetKey, key, keptIn(found) - 1))?.metadata ?? null;
}

function metadataFound(rows: Rows, assetKey: string, key: string): BlockMetadata | undefined {
  const block = rows.partitionBlocks.get(assetKey, blockOf(key));
  if (block === null || block.metadata === null) return undefined;
  const place = placeIn(block, key);
  return block.metadata.find(([from, to]) => from <= place && place <= to);
}

/** How much of what a partition's materializations said went into rows of its own. */
function keptIn(found: BlockMetadata | undefined): number {
  return found?.[3] ?? 0;
}

/** How many rows of its own there are for what a partition's materializations said. */
export function keptRowsOf(rows: Rows, assetKey: string, key: string): number {
  return Math.min(METADATA_KEPT_MAX, keptIn(metadataFound(rows, assetKey, key)));
}

function keptKey(assetKey: string, key: string, number: number): [string, string, number] {
  return [assetKey, key, number % METADATA_KEPT_MAX];
}

/** Makes sure that the metadata of partitions is in memory, with one load for all that is missing. */
export function needMetadata(rows: Rows, keys: readonly Key[]): void {
  needPartitions(rows, keys);
  const apart = keys.flatMap(([assetKey, key]): Key[] => {
    const found = metadataFound(rows, String(assetKey), String(key));
    if (found?.length !== 5) return [];
    return [keptKey(String(assetKey), String(key), keptIn(found) - 1)];
  });
  rows.partitionMetadata.need(apart);
}

/** Puts what a materialization said into a row of its own, in the place of the oldest where there are many. */
export function keepMetadata(
  rows: Rows,
  assetKey: string,
  key: string,
  { number, made, value }: KeptMetadata,
): void {
  const { partitionMetadata } = rows;
  const [asset_key, partition_key, slot] = keptKey(assetKey, key, number);
  if (number >= METADATA_KEPT_MAX) partitionMetadata.delete(asset_key, partition_key, slot);
  const [run_id, at, start_pos, pos, , code_version] = made;
  partitionMetadata.insert({
    asset_key,
    partition_key,
    slot,
    run_id,
    at,
    start_pos,
    pos,
    code_version,
    metadata: value,
  });
}

/** Takes away the rows of so much metadata of a partition. */
export function forgetMetadata(rows: Rows, assetKey: string, key: string, kept: number): void {
  for (let number = 0; number < Math.min(METADATA_KEPT_MAX, kept); number++) {
    rows.partitionMetadata.delete(...keptKey(assetKey, key, number));
  }
}

/** A materialization of a partition, by what it said of itself. */
export type SaidEarlier = {
  /** Counts those of the partition; it stays the same whatever comes later. */
  readonly number: number;
  readonly run_id: string;
  readonly at: Instant;
  readonly pos: number;
  readonly code_version: string | null;
  readonly metadata: Json;
};

/** Rows of metadata that are read at once: each may have 16,000 characters. */
const ROWS_READ = 20;

/** Where a list of metadata begins, and how much of it there is to be. */
export type HistoryBounds = {
  /** Only what has a smaller number; null for all. */
  before: number | null;
  limit: number;
  /** The list ends with what reaches so many characters of JSON. */
  charactersMax: number;
};

/** What materializations of a partition said, newest first, and whether there is more. */
export function metadataHistory(
  rows: Rows,
  assetKey: string,
  key: string,
  { before, limit, charactersMax }: HistoryBounds,
): { items: SaidEarlier[]; isEnd: boolean } {
  const found = metadataFound(rows, assetKey, key);
  const kept = keptIn(found);
  const oldest = Math.max(0, kept - METADATA_KEPT_MAX);
  const items: SaidEarlier[] = [];
  const room = { left: charactersMax };
  const add = (item: SaidEarlier): void => {
    items.push(item);
    room.left -= canonicalJson(item.metadata).length;
  };
  const row = partitionAt(rows, assetKey, key);
  const isInside = found !== undefined && found.length < 5 && found[2] !== null;
  if (isInside && row !== null && (before === null || before > kept)) {
    add({
      number: kept,
      run_id: row.last_materialization_run_id ?? "",
      at: row.last_materialization_at ?? row.last_attempt_at,
      pos: row.last_materialization_pos ?? row.row_version,
      code_version: row.last_materialization_code_version,
      metadata: found[2],
    });
  }
  let next = Math.min(kept, before ?? kept) - 1;
  while (next >= oldest && items.length < limit && room.left > 0) {
    const count = Math.min(ROWS_READ, next - oldest + 1, limit - items.length);
    const keys = Array.from({ length: count }, (_, at) => keptKey(assetKey, key, next - at));
    rows.partitionMetadata.need(keys);
    for (const each of keys) {
      if (room.left <= 0) break;
      const said = rows.partitionMetadata.get(...each);
      const number = next--;
      if (said !== null) add({ ...said, number });
    }
  }
  return { items, isEnd: next < oldest };
}
