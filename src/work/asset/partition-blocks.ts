import { type AnyRow, type Key, keyText, type Table } from "../../kernel/table.ts";
import type { Readable, Rows } from "../rows.ts";
import {
  type BlockAttempt,
  PARTITION_BLOCKS,
  type PartitionBlockRow,
  type PartitionRow,
} from "../run/rows.ts";

/*
 * What is known of partitions lies in blocks of neighbours. A key's block follows from the key alone:
 * the hour of a time, or else the last two digits of a number, count the places of a block, and stars
 * stand for them in its name. All other keys are in one of a fixed number of buckets, which list them;
 * those of several dimensions together with others that have all values but the last in common.
 */

/** Stands for a digit in the name of a block. */
const STAR = "*";
/** Begins the number of a bucket. */
const TILDE = "~";
const BUCKETS = 65_536;
/** How the name of a bucket ends, and of no other block. */
const BUCKET = /~[0-9a-f]{2,4}$/;
/** Buckets for the values of the last of several dimensions. */
const BUCKETS_OF_LAST = 256;
/** The hour of keys of hours and of cron partitions: what follows it is mostly the same for all. */
const HOUR = /T\d\d:\d\d(?:Z|[+-]\d\d:\d\d)?$/;

/** The block that a partition is in. */
export function blockOf(key: string): string {
  if (!key.includes(STAR)) {
    const hour = hourIn(key);
    if (hour >= 0) return `${key.slice(0, hour)}**${key.slice(hour + 2)}`;
    const digits = digitsEnding(key);
    if (digits > 1) return `${key.slice(0, -2)}**`;
    if (digits === 1) return `${key.slice(0, -1)}*`;
  }
  return bucketOf(key);
}

/** Where the hour of a key stands; -1 where it has none. */
function hourIn(key: string): number {
  // Most keys are no times: a look at two characters tells.
  if (!key.endsWith("Z") && key.charCodeAt(key.length - 3) !== COLON) return -1;
  const at = key.search(HOUR);
  return at < 0 ? -1 : at + 1;
}

const COLON = 58;

/** How many digits a key ends with that count something; those of a hash do not. */
function digitsEnding(key: string): number {
  let at = key.length;
  while (at > 0 && isDigit(key.charCodeAt(at - 1))) at--;
  const digits = key.length - at;
  if (digits === 0) return 0;
  while (at > 0 && isLetter(key.charCodeAt(at - 1))) at--;
  while (at > 0 && isDigit(key.charCodeAt(at - 1))) at--;
  return at > 0 && isLetter(key.charCodeAt(at - 1)) ? 0 : digits;
}

function isDigit(code: number): boolean {
  return code >= 48 && code <= 57;
}

function isLetter(code: number): boolean {
  return (code >= 97 && code <= 122) || (code >= 65 && code <= 90);
}

function bucketOf(key: string): string {
  const last = key.lastIndexOf("=") + 1;
  if (last > 0 && key.lastIndexOf(",", last) > 0) {
    const bucket = hashOf(key.slice(last)) % BUCKETS_OF_LAST;
    return `${key.slice(0, last)}${TILDE}${bucket.toString(16).padStart(2, "0")}`;
  }
  return `${TILDE}${(hashOf(key) % BUCKETS).toString(16).padStart(4, "0")}`;
}

/** FNV-1a, its bits mixed so that few of them will do. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) {
    hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  }
  return (hash ^ (hash >>> 12) ^ (hash >>> 24)) >>> 0;
}

/** What all keys of a bucket begin with. */
export function prefixOf(bucket: string): string {
  return bucket.slice(0, bucket.lastIndexOf(TILDE));
}

/** The places of a block that counts them: where their digits stand in keys, and how many. */
export type Digits = { readonly at: number; readonly count: 1 | 2 };

export function digitsOf(block: string): Digits | null {
  // By its end: values before the last may have stars in the name of a bucket.
  if (BUCKET.test(block)) return null;
  const at = block.indexOf(STAR);
  return { at, count: block[at + 1] === STAR ? 2 : 1 };
}

export function placeOf(key: string, { at, count }: Digits): number {
  const first = key.charCodeAt(at) - 48;
  return count === 1 ? first : first * 10 + key.charCodeAt(at + 1) - 48;
}

/** The key of a partition's block. */
export function blockKeyOf(assetKey: string, key: string): Key {
  return [assetKey, blockOf(key)];
}

/** The keys of the blocks that partitions are in, each once. */
function blockKeysOf(keys: Iterable<Key>): Key[] {
  const blocks = new Map<string, Key>();
  for (const [assetKey, key] of keys) {
    const block = blockKeyOf(String(assetKey), String(key));
    blocks.set(keyText(block), block);
  }
  return [...blocks.values()];
}

/** Makes sure that partitions are in memory, with one load for all that are missing. */
export function needPartitions(rows: Rows, keys: readonly Key[]): void {
  rows.partitionBlocks.need(blockKeysOf(keys));
}

/** What is known of a partition; null when it was never tried. */
export function partitionAt(
  rows: { readonly partitionBlocks: Readable<PartitionBlockRow> },
  assetKey: string,
  key: string,
): PartitionRow | null {
  const block = rows.partitionBlocks.get(assetKey, blockOf(key));
  return block === null ? null : partitionIn(block, key);
}

/** What can look up rows by their keys. */
type Loader = {
  load<Row extends AnyRow>(table: Table<Row>, keys: readonly Key[]): Promise<Row[]>;
};

/** Those of the partitions that were ever tried. */
export async function loadPartitions(
  reader: Loader,
  keys: readonly Key[],
): Promise<PartitionRow[]> {
  const found = await reader.load(PARTITION_BLOCKS, blockKeysOf(keys));
  const blocks = new Map(found.map((row) => [keyText([row.asset_key, row.block]), row]));
  return keys.flatMap(([assetKey, key]) => {
    const block = blocks.get(keyText(blockKeyOf(String(assetKey), String(key))));
    return (block && partitionIn(block, String(key))) ?? [];
  });
}

/** The place of a key in its block; -1 when a bucket does not have it. */
export function placeIn({ block, keys }: PartitionBlockRow, key: string): number {
  const digits = digitsOf(block);
  if (digits !== null) return placeOf(key, digits);
  return keys?.indexOf(key.slice(prefixOf(block).length)) ?? -1;
}

/** What a block knows of a partition that would be in it; null when it was never tried. */
export function partitionIn(block: PartitionBlockRow, key: string): PartitionRow | null {
  const place = placeIn(block, key);
  const { places } = block;
  for (let at = 0; at < places.length; at += 4) {
    if (place > (places[at + 1] ?? 0)) continue;
    if (place < (places[at] ?? 0)) return null;
    return rowOf(block, key, places[at + 2] ?? 0, places[at + 3] ?? -1);
  }
  return null;
}

function rowOf(block: PartitionBlockRow, key: string, last: number, made: number): PartitionRow {
  const [run_id, at, start_pos, pos, outcome] = block.attempts[last] as BlockAttempt;
  const success = made < 0 ? null : (block.attempts[made] as BlockAttempt);
  return {
    asset_key: block.asset_key,
    partition_key: key,
    last_materialization_run_id: success === null ? null : success[0],
    last_materialization_at: success === null ? null : success[1],
    last_materialization_code_version: success === null ? null : success[5],
    last_materialization_start_pos: success === null ? null : success[2],
    last_materialization_pos: success === null ? null : success[3],
    last_materialization_checks: success?.[6] ?? null,
    last_attempt_run_id: run_id,
    last_attempt_at: at,
    last_attempt_outcome: outcome,
    last_attempt_start_pos: start_pos,
    row_version: pos,
  };
}

/** The cells of a block that say which partitions are in it. */
type BlockPlaces = Pick<PartitionBlockRow, "block" | "keys" | "places">;

/** Neighbouring partitions of which the same is known. */
export class Stretch {
  readonly count: number;
  /** Whether digits count its places; a bucket lists its keys in the order of their texts. */
  readonly isCounted: boolean;
  /** Which of the block's attempts was the last, and which made them; -1 for none. */
  readonly attempt: number;
  readonly made: number;
  readonly #first: number;
  readonly #keyAt: (place: number) => string;

  constructor({ places, keys }: BlockPlaces, at: number, keyAt: (place: number) => string) {
    this.isCounted = keys === null;
    this.#first = places[at] ?? 0;
    this.count = (places[at + 1] ?? 0) - this.#first + 1;
    this.attempt = places[at + 2] ?? 0;
    this.made = places[at + 3] ?? -1;
    this.#keyAt = keyAt;
  }

  /** The first and the last key. */
  ends(): [string, string] {
    return [this.#keyAt(this.#first), this.#keyAt(this.#first + this.count - 1)];
  }

  keys(): string[] {
    return Array.from({ length: this.count }, (_, at) => this.#keyAt(this.#first + at));
  }
}

/** The partitions of a block, as stretches that have everything in common, in the order of places. */
export function stretchesOf(block: BlockPlaces): Stretch[] {
  const keyAt = keysAt(block);
  const length = block.places.length / 4;
  return Array.from({ length }, (_, at) => new Stretch(block, 4 * at, keyAt));
}

/** What is known of the first partition of a stretch, and so of all others. */
export function rowOfStretch(block: PartitionBlockRow, stretch: Stretch): PartitionRow {
  return rowOf(block, stretch.ends()[0], stretch.attempt, stretch.made);
}

/** The partitions of a block in the order of its places. */
export function partitionsIn(block: PartitionBlockRow): PartitionRow[] {
  return stretchesOf(block).flatMap((stretch) => {
    const row = rowOfStretch(block, stretch);
    return stretch.keys().map((partition_key) => ({ ...row, partition_key }));
  });
}

/** The keys of all partitions in a block. */
export function keysInBlock(block: PartitionBlockRow): string[] {
  return stretchesOf(block).flatMap((stretch) => stretch.keys());
}

/** The keys of those that were ever materialized. */
export function materializedIn(block: PartitionBlockRow): string[] {
  return stretchesOf(block).flatMap((stretch) => (stretch.made < 0 ? [] : stretch.keys()));
}

function keysAt({ block, keys }: BlockPlaces): (place: number) => string {
  const digits = digitsOf(block);
  if (digits === null) {
    const prefix = prefixOf(block);
    return (place) => `${prefix}${keys?.[place]}`;
  }
  const { at, count } = digits;
  const before = block.slice(0, at);
  const after = block.slice(at + count);
  return (place) => {
    const zero = count === 2 && place < 10 ? "0" : "";
    return `${before}${zero}${place}${after}`;
  };
}
