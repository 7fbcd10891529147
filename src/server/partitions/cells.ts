import { setImmediate as turnOfOthers } from "node:timers/promises";
import {
  dimensionsOf,
  isTimeDefinition,
  type PartitionDefinition,
} from "../../kernel/keyspace/definition.ts";
import type { Keyspace } from "../../kernel/keyspace/keyspace.ts";
import { encodeValue } from "../../kernel/keyspace/keyspace-of.ts";
import {
  type Condition,
  compareText,
  type Find,
  type Key,
  type Table,
} from "../../kernel/table.ts";
import type { Reader } from "../../store/store.ts";
import type { MapStatus } from "../../work/asset/api.ts";
import {
  loadPartitions,
  rowOfStretch,
  type Stretch,
  stretchesOf,
} from "../../work/asset/partition-blocks.ts";
import {
  PARTITION_BLOCKS,
  type PartitionBlockRow,
  type PartitionRow,
} from "../../work/run/rows.ts";
import type { OrdinalFinder } from "./ordinals.ts";

/** What a cell of a map can be: a cell holds the place in this list. */
export const CELL_STATUSES = [
  "NEVER_MATERIALIZED",
  "MATERIALIZED",
  "MATERIALIZED_LAST_ATTEMPT_FAILED",
  "STALE",
  "IN_PROGRESS",
  "BEING_REMADE",
  "FAILED",
] as const satisfies readonly MapStatus[];

/** The cell of a status. */
export function cellOf(status: MapStatus): number {
  return CELL_STATUSES.indexOf(status);
}

const NEVER = cellOf("NEVER_MATERIALIZED");
const MATERIALIZED = cellOf("MATERIALIZED");
const FAILED = cellOf("FAILED");
const WITHOUT_DATA: readonly number[] = [NEVER, FAILED];
const LAST_FAILED = cellOf("MATERIALIZED_LAST_ATTEMPT_FAILED");

/** The cell of a partition that a task works on, by what it would be otherwise. */
export function workedOn(cell: number): number {
  return cellOf(WITHOUT_DATA.includes(cell) ? "IN_PROGRESS" : "BEING_REMADE");
}

type Status = Pick<PartitionRow, "last_materialization_at" | "last_attempt_outcome">;

function cellOfRow({ last_materialization_at, last_attempt_outcome }: Status): number {
  const isFailed = last_attempt_outcome === "FAILED";
  if (last_materialization_at === null) return isFailed ? FAILED : NEVER;
  return isFailed ? LAST_FAILED : MATERIALIZED;
}

/** Blocks that are read at once, so that others get their turn in between: about 10 ms. */
const BLOCKS_AT_ONCE = 200;

/** Keys that are looked up at once; a look-up costs more than a row of a walk. */
const KEYS_AT_ONCE = 2_500;

/** The cells of one asset from an ordinal on, without what is running and what is stale. */
export type Cells = { readonly assetKey: string; readonly from: number; cells: Uint8Array };

/** Names between which blocks lie; without the last, all from the first on. */
export type KeyBounds = { atLeast: string; atMost: string | null };

/** All names. */
const EVERYTHING: KeyBounds = { atLeast: "", atMost: null };

/** What a map needs of blocks in which all were made, and by which it finds the others. */
const BLOCK_PLACES: Table<BlockPlaces> = {
  name: PARTITION_BLOCKS.name,
  key: ["asset_key", "block"],
  cells: {
    asset_key: "text",
    block: "text",
    tried: "int",
    materialized: "int",
    failing: "int",
    places: "json",
    keys: "json",
  },
};

type BlockPlaces = Pick<
  PartitionBlockRow,
  "asset_key" | "block" | "tried" | "materialized" | "failing" | "places" | "keys"
>;

/** The first blocks of an asset within bounds. */
function blocksFind(assetKey: string, { atLeast, atMost }: KeyBounds): Find<BlockPlaces> {
  const where: Condition[] = [{ cell: "asset_key", is: "=", value: assetKey }];
  if (atMost !== null) where.push({ cell: "block", is: "<=", value: atMost });
  // One lower bound only: of two, a database may walk from the wrong one.
  where.push({ cell: "block", is: ">=", value: atLeast });
  return { table: BLOCK_PLACES, where, order: [{ cell: "block" }], limit: BLOCKS_AT_ONCE };
}

/** Goes through the blocks of an asset in the order of their names, page by page. */
async function* walkBlocks(
  reader: Reader,
  assetKey: string,
  bounds: KeyBounds,
): AsyncGenerator<BlockPlaces[]> {
  let { atLeast } = bounds;
  for (;;) {
    const blocks = await reader.find(blocksFind(assetKey, { ...bounds, atLeast }));
    yield blocks;
    const last = blocks.at(-1);
    if (last === undefined || blocks.length < BLOCKS_AT_ONCE) return;
    atLeast = `${last.block}${LEAST}`;
  }
}

/** What follows a name to make the least of all that come after it. */
const LEAST = "\u0001";

/** What a look for the blocks within bounds costs, in blocks. */
const BOUND_COST = 10;

/** Fills the cells by walking through the blocks of the asset that lie within the bounds. */
export async function scanCells(
  reader: Reader,
  map: Cells,
  finder: OrdinalFinder,
  bounds: readonly KeyBounds[],
): Promise<void> {
  let cost = 0;
  for (const each of await fewestBounds(reader, map.assetKey, bounds)) {
    cost += BOUND_COST;
    for await (const blocks of walkBlocks(reader, map.assetKey, each)) {
      await fillBlocks(reader, map, finder, blocks);
      cost += blocks.length;
      if (cost < BLOCKS_AT_ONCE) continue;
      cost = 0;
      await turnOfOthers();
    }
  }
}

/** One look for all where the asset has few blocks at all. */
async function fewestBounds(
  reader: Reader,
  assetKey: string,
  bounds: readonly KeyBounds[],
): Promise<readonly KeyBounds[]> {
  if (bounds.length === 1) return bounds;
  const first = await reader.findCells(blocksFind(assetKey, EVERYTHING), ["block"]);
  return first.length < BLOCKS_AT_ONCE ? [EVERYTHING] : bounds;
}

async function fillBlocks(
  reader: Reader,
  map: Cells,
  finder: OrdinalFinder,
  blocks: readonly BlockPlaces[],
): Promise<void> {
  const mixed = blocks.filter((block) => !isAllMade(block));
  const whole = await reader.load(
    PARTITION_BLOCKS,
    mixed.map(({ asset_key, block }) => [asset_key, block]),
  );
  const stretches = whole.flatMap((block) =>
    stretchesOf(block).map((stretch) => {
      return { stretch, cell: cellOfRow(rowOfStretch(block, stretch)) };
    }),
  );
  for (const block of blocks.filter(isAllMade)) {
    for (const stretch of stretchesOf(block)) stretches.push({ stretch, cell: MATERIALIZED });
  }
  await fillStretches(map, finder, stretches);
}

function isAllMade({ tried, materialized, failing }: BlockPlaces): boolean {
  return failing === 0 && materialized === tried;
}

type CellStretch = { stretch: Stretch; cell: number };

/** Fills the cells of stretches; of most it is enough to look at both ends. */
async function fillStretches(
  map: Cells,
  finder: OrdinalFinder,
  stretches: readonly CellStretch[],
): Promise<void> {
  const isCounted = ({ stretch }: CellStretch) => finder.countsPlaces && stretch.isCounted;
  const counted = stretches.filter(isCounted);
  const scattered = stretches.filter((each) => !isCounted(each));
  const ends = await finder.find(counted.flatMap(({ stretch }) => stretch.ends()));
  for (const [at, each] of counted.entries()) {
    const first = ends[2 * at] ?? null;
    const last = ends[2 * at + 1] ?? null;
    const isWhole = first !== null && last !== null && last - first === each.stretch.count - 1;
    if (isWhole) fill(map, first, last, each.cell);
    else scattered.push(each);
  }
  const ordinals = await finder.find(scattered.flatMap(({ stretch }) => stretch.keys()));
  let at = 0;
  for (const { stretch, cell } of scattered) {
    for (const end = at + stretch.count; at < end; at++) {
      const ordinal = ordinals[at] ?? null;
      if (ordinal !== null) fill(map, ordinal, ordinal, cell);
    }
  }
}

/** Fills what a map has of the cells from one ordinal to another. */
function fill({ from, cells }: Cells, first: number, last: number, cell: number): void {
  if (last >= from) cells.fill(cell, Math.max(0, first - from), last + 1 - from);
}

/** Counts the cells of all partitions of an asset, for where there are too many for a map. */
export async function countCells(
  reader: Reader,
  assetKey: string,
  running: ReadonlySet<string>,
): Promise<number[]> {
  const { tried, materialized, failing, failed } = await sumBlocks(reader, assetKey);
  const counts = CELL_STATUSES.map(() => 0);
  const add = (cell: number, count: number): void => {
    counts[cell] = (counts[cell] ?? 0) + count;
  };
  add(FAILED, failed);
  add(LAST_FAILED, failing - failed);
  add(MATERIALIZED, materialized - (failing - failed));
  add(NEVER, tried - materialized - failed);
  const keys = [...running];
  for (let start = 0; start < keys.length; start += KEYS_AT_ONCE) {
    const some = keys.slice(start, start + KEYS_AT_ONCE).map((key): Key => [assetKey, key]);
    for (const row of await loadPartitions(reader, some)) {
      add(cellOfRow(row), -1);
      add(workedOn(cellOfRow(row)), 1);
    }
    await turnOfOthers();
  }
  return counts;
}

/** How many blocks' counts are read at once. */
const COUNTS_AT_ONCE = 10_000;

type BlockCounts = Pick<PartitionBlockRow, "tried" | "materialized" | "failing" | "failed">;

/** What the blocks of an asset count, without a look into them. */
async function sumBlocks(reader: Reader, assetKey: string): Promise<BlockCounts> {
  const sums = { tried: 0, materialized: 0, failing: 0, failed: 0 };
  const ofAsset: Condition = { cell: "asset_key", is: "=", value: assetKey };
  let after = "";
  for (;;) {
    const find = {
      table: PARTITION_BLOCKS,
      where: [ofAsset, { cell: "block", is: ">", value: after }],
      order: [{ cell: "block" }],
      limit: COUNTS_AT_ONCE,
    } as const;
    const page = await reader.findCells(find, [
      "block",
      "tried",
      "materialized",
      "failing",
      "failed",
    ]);
    for (const [, tried, materialized, failing, failed] of page) {
      sums.tried += Number(tried);
      sums.materialized += Number(materialized);
      sums.failing += Number(failing);
      sums.failed += Number(failed);
    }
    if (page.length < COUNTS_AT_ONCE) return sums;
    after = String(page.at(-1)?.[0]);
    await turnOfOthers();
  }
}

/** Fills cells by looking up the rows of these keys; `ordinals` says where each belongs. */
export async function loadCells(
  reader: Reader,
  { assetKey, from, cells }: Cells,
  keys: readonly string[],
  ordinals: readonly (number | null)[],
): Promise<void> {
  for (let start = 0; start < keys.length; start += KEYS_AT_ONCE) {
    const some = keys.slice(start, start + KEYS_AT_ONCE);
    const found = await loadPartitions(
      reader,
      some.map((key) => [assetKey, key]),
    );
    const rows = new Map(found.map((row) => [row.partition_key, row]));
    for (const [at, key] of some.entries()) {
      const place = (ordinals[start + at] ?? -1) - from;
      const row = rows.get(key);
      if (place < 0 || place >= cells.length) continue;
      cells[place] = row === undefined ? NEVER : cellOfRow(row);
    }
    await turnOfOthers();
  }
}

/** Most bounds that the blocks of a stretch are looked for in: each costs as much as many blocks. */
const BOUNDS_MAX = 2_000;

/** Most values of which the first and the last name are looked for, where there are too many bounds. */
const VALUES_MAX = 20_000;

/** Asks a keyspace something, with whatever rows that needs. */
export type AskKeyspace = <Result>(body: (keyspace: Keyspace) => Result) => Promise<Result>;

/** Between which names the blocks of a stretch of ordinals lie: few others do. */
export async function boundsOfStretch(
  definition: PartitionDefinition,
  ask: AskKeyspace,
  from: number,
  through: number,
): Promise<readonly KeyBounds[]> {
  return ask((keyspace) => {
    if (from >= through || through - from > keyspace.count / 2) return [EVERYTHING];
    return (
      boundsInTime(definition, keyspace, from, through) ?? boundsByValues(keyspace, from, through)
    );
  });
}

/** Where keys begin with a date they are in the order of time; a day's own keys may be in any order. */
function boundsInTime(
  definition: PartitionDefinition,
  keyspace: Keyspace,
  from: number,
  through: number,
): KeyBounds[] | null {
  const [first] = dimensionsOf(definition);
  const dimension = keyspace.dimensions[0];
  if (first === undefined || dimension === undefined) return null;
  if (!isTimeDefinition(first.definition)) return null;
  if (first.definition.type !== "cron" && first.definition.format !== undefined) return null;
  const stride = keyspace.count / dimension.keyspace.count;
  const prefix = definition.type === "multi" ? `${first.name}=` : "";
  const dateAt = (ordinal: number, length = 10): string =>
    prefix + encodeValue(dimension.keyspace.keyAt(Math.floor(ordinal / stride)).slice(0, length));
  // Of one dimension a block has the days of a month, or the months of a year.
  const atLeast = keyspace.dimensions.length === 1 ? dateAt(from, 4) : dateAt(from);
  // A tilde comes after everything that can follow a date in a key.
  return [{ atLeast, atMost: `${dateAt(through - 1)}~` }];
}

/** The names of blocks begin with the values of all dimensions but the last. */
function boundsByValues(keyspace: Keyspace, from: number, through: number): readonly KeyBounds[] {
  const { dimensions } = keyspace;
  let stride = 1;
  for (let depth = dimensions.length - 1; depth > 0; depth--) {
    stride *= dimensions[depth]?.keyspace.count ?? 1;
    const first = Math.floor(from / stride);
    const count = Math.floor((through - 1) / stride) - first + 1;
    if (count > (depth === 1 ? VALUES_MAX : BOUNDS_MAX)) continue;
    const keys = keyspace.keysAt(Array.from({ length: count }, (_, at) => (first + at) * stride));
    const starts = keys
      .map((key) => `${key.split(",").slice(0, depth).join(",")},`)
      .toSorted(compareText);
    // A tilde comes after everything that a dimension's name can begin with.
    const bounds = starts.map((start) => ({ atLeast: start, atMost: `${start}~` }));
    if (count <= BOUNDS_MAX) return bounds;
    return [{ atLeast: starts[0] ?? "", atMost: bounds.at(-1)?.atMost ?? null }];
  }
  return [EVERYTHING];
}
