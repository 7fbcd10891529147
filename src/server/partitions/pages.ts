import { PawlError, present } from "../../kernel/errors.ts";
import type { Instant } from "../../kernel/instant.ts";
import { countIntervals, expandIntervals, intersectIntervals } from "../../kernel/intervals.ts";
import { numbersAt, ordinalBehind, partitionInvalid } from "../../kernel/keyspace/keyspace.ts";
import { decodeMultiKey } from "../../kernel/keyspace/keyspace-of.ts";
import { compareText, type Condition, type Key } from "../../kernel/table.ts";
import type { PartitionDocument } from "../../work/asset/api.ts";
import { reporterIn } from "../../work/asset/fold-partitions.ts";
import { checkStatusOf } from "../../work/asset/checks.ts";
import {
  blockOf,
  needPartitions,
  partitionAt,
  partitionsIn,
} from "../../work/asset/partition-blocks.ts";
import { metadataAt, needMetadata } from "../../work/asset/partition-metadata.ts";
import {
  type AssetView,
  assetView,
  countOf,
  displayStatus,
  keysFrom,
  type LookedAt,
  loadUpstream,
  type madeFrom,
  type Place,
  staleness,
} from "../../work/asset/partition-status.ts";
import type { Context } from "../../work/decision.ts";
import type { Rows } from "../../work/rows.ts";
import { PARTITION_BLOCKS, type PartitionRow } from "../../work/run/rows.ts";
import { cursorOf, keyOfCursor } from "../http/read-within.ts";

/** A partition as the API shows it; why its last attempt failed is told by `withErrors`. */
export function partitionDocument(rows: Rows, lookedAt: LookedAt, now: Instant): PartitionDocument {
  const { view, key, ordinal, row } = lookedAt;
  const stale = staleness(rows, lookedAt, now);
  const checks = row?.last_materialization_checks ?? null;
  return {
    asset_key: view.spec.asset_key,
    partition_key: key,
    partition_values:
      row === null ? valuesOf(view, ordinal) : (decodeMultiKey(key) ?? valuesOf(view, ordinal)),
    ordinal,
    status: displayStatus(lookedAt, stale !== null),
    stale_reason: stale?.reason ?? null,
    stale_reason_code: stale?.reason ?? null,
    stale_since: stale?.since ?? null,
    ...madeBy(row?.last_materialization_run_id ?? null),
    last_materialization_at: row?.last_materialization_at ?? null,
    last_materialization_code_version: row?.last_materialization_code_version ?? null,
    last_materialization_start_pos: row?.last_materialization_start_pos ?? null,
    last_materialization_pos: row?.last_materialization_pos ?? null,
    metadata: row === null ? null : metadataAt(rows, view.spec.asset_key, key),
    check_status: checks === null ? null : checkStatusOf(checks),
    failed_checks: [],
    last_attempt_run_id: madeBy(row?.last_attempt_run_id ?? null).last_materialization_run_id,
    last_attempt_at: row?.last_attempt_at ?? null,
    last_attempt_outcome: row?.last_attempt_outcome ?? null,
    last_attempt_start_pos: row?.last_attempt_start_pos ?? null,
    last_attempt_error: null,
    row_version: row?.row_version ?? null,
  };
}

/** The run that made a partition, or who said that it was made elsewhere. */
function madeBy(runId: string | null) {
  const reporter = reporterIn(runId);
  return {
    last_materialization_run_id: reporter === null ? runId : null,
    last_materialization_reported_by: reporter,
  };
}

function valuesOf(view: AssetView, ordinal: number | null): Record<string, string> | null {
  if (view.keyspace === null || ordinal === null) return null;
  return view.keyspace.dimensions.length > 1 ? view.keyspace.valuesAt(ordinal) : null;
}

/** Partitions that a page with a filter goes through; it may be short and still have a next one. */
const SCAN_LIMIT = 1_000;

/** Partitions that a page looks at, those upstream included. */
const LOOKS_MAX = 10_000;

/** Assets that a page across assets goes through. */
const ASSETS_MAX = 20;

/** A page of partitions. */
export type PartitionPage = { items: PartitionDocument[]; next_cursor: string | null };

/** Which partitions a page is to have, and where the page before it ended. */
export type PartitionQuery = {
  limit: number;
  cursor?: string | undefined;
  /** The ordinal to begin at, where pages go by ordinal and there is no cursor. */
  from?: number | undefined;
  /** Left out when every partition belongs to the list. */
  picks?: ((document: PartitionDocument) => boolean) | undefined;
  /** Whether only what failed last can be picked: then nothing else is read. */
  isFailing?: boolean;
};

/** Where a page ended before an ordinal, as a cursor has it: by numbers, which no key that comes or goes shifts. */
function placeBefore({ keyspace }: AssetView, ordinal: number): string {
  if (ordinal === 0) return "";
  return keyspace === null ? String(ordinal - 1) : numbersAt(keyspace, ordinal - 1).join(".");
}

/** The ordinal after such a place; the first one where the partitions are of other dimensions by now. */
function ordinalAfter({ keyspace }: AssetView, place: string): number {
  if (!/^\d{1,15}(\.\d{1,15})*$/.test(place)) return 0;
  if (keyspace === null) return 1;
  const numbers = place.split(".").map(Number);
  return numbers.length === keyspace.dimensions.length ? ordinalBehind(keyspace, numbers) : 0;
}

/** A page of an asset's partitions by ordinal. */
export function pageByOrdinal(
  rows: Rows,
  view: AssetView,
  { limit, cursor, from: first = 0, picks }: PartitionQuery,
  context: Context,
): PartitionPage {
  const from =
    cursor === undefined
      ? Math.max(0, first)
      : ordinalAfter(view, String(keyOfCursor(cursor, ["text"])[0]));
  const scanned = picks === undefined ? limit : SCAN_LIMIT;
  const places = placesOf(rows, view, from, scanned);
  const { items, end } = pick(
    rows,
    loadUpstream(rows, places, LOOKS_MAX),
    { limit, picks },
    context,
  );
  const next = from + end;
  return { items, next_cursor: next < countOf(view) ? cursorOf([placeBefore(view, next)]) : null };
}

/** An asset's partitions from an ordinal on, with their rows. */
export function placesOf(rows: Rows, view: AssetView, from: number, limit: number): Place[] {
  const keys = keysFrom(view, from, limit);
  return placesAt(
    rows,
    view,
    keys.map((key, index) => ({ key, ordinal: from + index })),
  );
}

function placesAt(
  rows: Rows,
  view: AssetView,
  partitions: readonly { key: string; ordinal: number }[],
): Place[] {
  const { asset_key } = view.spec;
  needPartitions(
    rows,
    partitions.map(({ key }) => [asset_key, key]),
  );
  return partitions.map(({ key, ordinal }) => {
    return { view, key, ordinal, row: partitionAt(rows, asset_key, key) };
  });
}

/** A partition of an asset by its key; refuses one that there is not. */
export function placeOfPartition(rows: Rows, view: AssetView, key: string | undefined): Place {
  const [place] = placesAt(rows, view, [{ key: key ?? "", ordinal: ordinalOf(view, key) }]);
  return present(place, "a place was asked for");
}

function ordinalOf({ spec, keyspace }: AssetView, key: string | undefined): number {
  const { asset_key, partitions: definition } = spec;
  if (keyspace === null || definition === null) {
    if (key === undefined) return 0;
    const sentence = `${asset_key} has no partitions, so there is no ${JSON.stringify(key)}.`;
    throw new PawlError("PARTITION_INVALID", sentence, { details: { partition_key: key } });
  }
  if (key === undefined) {
    const example = keyspace.count === 0 ? "" : `, such as ${keyspace.keyAt(0)}`;
    throw new PawlError(
      "INPUT_INVALID",
      `${asset_key} has partitions: say which one is meant${example}.`,
      { details: { asset_key } },
    );
  }
  const ordinal = keyspace.indexOf(key);
  if (ordinal === null) throw partitionInvalid(definition, keyspace, key);
  return ordinal;
}

/** A page of what partitions are made from, asset by asset as `madeFrom` has it. */
export function pageOfUpstream(
  rows: Rows,
  made: ReturnType<typeof madeFrom>,
  { limit, cursor }: Pick<PartitionQuery, "limit" | "cursor">,
  context: Context,
): PartitionPage & { total: number } {
  const [start, after] = cursor === undefined ? [0, ""] : keyOfCursor(cursor, ["int", "text"]);
  const places: Place[] = [];
  const cursors: string[] = [];
  let total = 0;
  let left = 0;
  for (const [at, { asset_key, ordinals }] of made.entries()) {
    const view = assetView(rows, asset_key, context);
    const all = ordinals ?? [[0, countOf(view) - 1] as const];
    total += countIntervals(all);
    if (at < Number(start)) continue;
    const from = at === start ? ordinalAfter(view, String(after)) : 0;
    const rest = intersectIntervals(all, [[from, Number.MAX_SAFE_INTEGER]]);
    left += countIntervals(rest);
    const shown = expandIntervals(rest, 0, limit - places.length);
    const keys = view.keyspace?.keysAt(shown) ?? shown.map(() => "");
    const partitions = shown.map((ordinal, index) => ({ key: keys[index] ?? "", ordinal }));
    places.push(...placesAt(rows, view, partitions));
    for (const ordinal of shown) cursors.push(cursorOf([at, placeBefore(view, ordinal + 1)]));
  }
  const looked = loadUpstream(rows, places, LOOKS_MAX);
  const { items, end } = pick(rows, looked, { limit }, context);
  return { items, total, next_cursor: end < left ? (cursors[end - 1] ?? null) : null };
}

/** The documents that belong on a page, and how many partitions it went through for them. */
function pick(
  rows: Rows,
  lookedAt: readonly LookedAt[],
  { limit, picks }: PartitionQuery,
  context: Context,
): { items: PartitionDocument[]; end: number } {
  const items: PartitionDocument[] = [];
  let end = 0;
  needMetadata(
    rows,
    lookedAt.map(({ view, key }) => [view.spec.asset_key, key]),
  );
  for (const each of lookedAt) {
    if (items.length === limit) break;
    end++;
    const document = partitionDocument(rows, each, context.now);
    if (picks?.(document) ?? true) items.push(document);
  }
  return { items, end };
}

/** Where a page ended: a partition's place in the order of blocks, assets first. */
type PlaceOfRow = { asset_key: string; block: string; key: string };

/** A page of the partitions that were ever tried, across assets or of one of them, by their blocks. */
export function pageByRow(
  rows: Rows,
  asset: string | undefined,
  { limit, cursor, picks, isFailing }: PartitionQuery,
  context: Context,
): PartitionPage {
  const where: Condition[] = [];
  if (asset !== undefined) where.push({ cell: "asset_key", is: "=", value: asset });
  if (isFailing === true) where.push({ cell: "failing", is: ">", value: 0 });
  const after = cursor === undefined ? null : placeOfCursor(cursor);
  const scanned = picks === undefined ? limit + 1 : SCAN_LIMIT;
  const { found, isEnd } = rowsAfter(rows, where, after, scanned);
  const places = placesOfRows(rows, found, context);
  const { items, end } = pick(
    rows,
    loadUpstream(rows, places, LOOKS_MAX),
    { limit, picks },
    context,
  );
  const last = end === places.length ? found.at(-1) : places[end - 1]?.row;
  const isLast = isEnd && last === found.at(-1);
  return { items, next_cursor: isLast ? null : cursorOfRow(last) };
}

function placeOfCursor(cursor: string): PlaceOfRow {
  const [asset_key, key] = keyOfCursor(cursor, ["text", "text"]);
  return { asset_key: String(asset_key), block: blockOf(String(key)), key: String(key) };
}

function cursorOfRow(row: PartitionRow | null | undefined): string | null {
  return row === null || row === undefined ? null : cursorOf([row.asset_key, row.partition_key]);
}

/** So many of the partitions behind a place, and whether there are no more. */
function rowsAfter(
  rows: Rows,
  where: readonly Condition[],
  after: PlaceOfRow | null,
  wanted: number,
): { found: PartitionRow[]; isEnd: boolean } {
  const found = after === null ? [] : restOfBlock(rows, after);
  const cells = PARTITION_BLOCKS.key;
  let last: Key | null = after === null ? null : [after.asset_key, after.block];
  for (let limit = BLOCKS_READ_FIRST; found.length < wanted; limit *= 2) {
    const beyond: Condition[] = last === null ? [] : [{ cells, is: "after", key: last }];
    const order = cells.map((cell) => ({ cell }));
    const page = rows.partitionBlocks.find([...where, ...beyond], order, limit);
    for (const row of page.flatMap(partitionsIn)) found.push(row);
    const end = page.at(-1);
    if (end === undefined || page.length < limit) {
      return { found: found.slice(0, wanted), isEnd: found.length <= wanted };
    }
    last = [end.asset_key, end.block];
  }
  return { found: found.slice(0, wanted), isEnd: false };
}

/** Blocks that a page reads first, then twice as many: there may be a hundred partitions in each, or one. */
const BLOCKS_READ_FIRST = 10;

/** The partitions of a block behind one of them; none when the block is gone. */
function restOfBlock(rows: Rows, { asset_key, block, key }: PlaceOfRow): PartitionRow[] {
  const row = rows.partitionBlocks.get(asset_key, block);
  const all = row === null ? [] : partitionsIn(row);
  const at = all.findIndex(({ partition_key }) => compareText(partition_key, key) >= 0);
  if (at < 0) return [];
  return all.slice(all[at]?.partition_key === key ? at + 1 : at);
}

function placesOfRows(
  rows: Rows,
  found: readonly PartitionRow[],
  context: Context,
): (Place & { row: PartitionRow })[] {
  return [...Map.groupBy(found, ({ asset_key }) => asset_key)].flatMap(([assetKey, own]) => {
    // What was materialized of an asset that is no longer defined is not shown.
    if (rows.definitions.get("asset", assetKey) === null) return [];
    const view = assetView(rows, assetKey, context);
    const keys = own.map(({ partition_key }) => partition_key);
    // Looked up at once: the keys of a dynamic definition are rows themselves.
    const ordinals = view.keyspace?.indexesOf(keys) ?? keys.map(() => 0);
    return own.map((row, at) => {
      return { view, key: row.partition_key, ordinal: ordinals[at] ?? null, row };
    });
  });
}

/** A page of all partitions of all assets, or of one, by asset and ordinal. */
export function pageByAsset(
  rows: Rows,
  asset: string | undefined,
  { limit, cursor, picks }: PartitionQuery,
  context: Context,
): PartitionPage {
  const first = [asset ?? "", ""] as const;
  const [start, after] = cursor === undefined ? first : keyOfCursor(cursor, ["text", "text"]);
  const assets = asset === undefined ? assetsFrom(rows, String(start)) : [asset];
  const items: PartitionDocument[] = [];
  let looks = LOOKS_MAX;
  for (const [index, assetKey] of assets.entries()) {
    const isCut = index === ASSETS_MAX || looks <= 0 || items.length === limit;
    if (isCut) return { items, next_cursor: cursorOf([assetKey, ""]) };
    const view = assetView(rows, assetKey, context);
    // An asset that the page before ended in may be gone: then this is another, from its start.
    const from = assetKey === start ? ordinalAfter(view, String(after)) : 0;
    const places = placesOf(rows, view, from, Math.min(SCAN_LIMIT, looks));
    const lookedAt = loadUpstream(rows, places, looks);
    for (const { above } of lookedAt) looks -= 1 + above.length;
    const picked = pick(rows, lookedAt, { limit: limit - items.length, picks }, context);
    items.push(...picked.items);
    const next = from + picked.end;
    if (next < countOf(view)) {
      return { items, next_cursor: cursorOf([assetKey, placeBefore(view, next)]) };
    }
  }
  return { items, next_cursor: null };
}

/** Keys of the assets there are from a key on: those of a page, and the one after. */
function assetsFrom(rows: Rows, key: string): string[] {
  const where: Condition[] = [
    { cell: "kind", is: "=", value: "asset" },
    { cell: "name", is: ">=", value: key },
  ];
  return rows.definitions.find(where, [{ cell: "name" }], ASSETS_MAX + 1).map(({ name }) => name);
}
