import type { Context } from "../../work/decision.ts";
import { loadUpstream } from "../../work/asset/load-upstream.ts";
import {
  type AssetView,
  assetView,
  countOf,
  keysFrom,
  type LookedAt,
  type Place,
} from "../../work/asset/partition-status.ts";
import type { PartitionDocument } from "../../work/asset/api.ts";
import { type PartitionRow, PARTITIONS } from "../../work/run/rows.ts";
import type { Rows } from "../../work/rows.ts";
import type { Condition } from "../../kernel/table.ts";
import { cursorOf, keyOfCursor } from "../http/cursor.ts";
import { partitionDocument } from "./maps.ts";

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
};

/** A page of an asset's partitions by ordinal. */
export function pageByOrdinal(
  rows: Rows,
  view: AssetView,
  { limit, cursor, from: first = 0, picks }: PartitionQuery,
  context: Context,
): PartitionPage {
  const last = cursor === undefined ? first - 1 : Number(keyOfCursor(cursor, ["int"])[0]);
  const from = Math.max(-1, last) + 1;
  const scanned = picks === undefined ? limit : SCAN_LIMIT;
  const places = placesOf(rows, view, from, scanned);
  const { items, end } = pick(
    rows,
    loadUpstream(rows, places, LOOKS_MAX),
    { limit, picks },
    context,
  );
  const next = from + end;
  return { items, next_cursor: next < countOf(view) ? cursorOf([next - 1]) : null };
}

/** An asset's partitions from an ordinal on, with their rows. */
export function placesOf(rows: Rows, view: AssetView, from: number, limit: number): Place[] {
  const { asset_key } = view.spec;
  const keys = keysFrom(view, from, limit);
  rows.partitions.need(keys.map((key) => [asset_key, key]));
  return keys.map((key, index) => ({
    view,
    key,
    ordinal: from + index,
    row: rows.partitions.get(asset_key, key),
  }));
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
  for (const each of lookedAt) {
    if (items.length === limit) break;
    end++;
    const document = partitionDocument(rows, each, context.now);
    if (picks?.(document) ?? true) items.push(document);
  }
  return { items, end };
}

/** A page of the partitions that have a row, across assets or of one of them. */
export function pageByRow(
  rows: Rows,
  asset: string | undefined,
  { limit, cursor, picks }: PartitionQuery,
  context: Context,
): PartitionPage {
  const where: Condition[] = [];
  if (asset !== undefined) where.push({ cell: "asset_key", is: "=", value: asset });
  const cells = PARTITIONS.key;
  if (cursor !== undefined) {
    where.push({ cells, is: "after", key: keyOfCursor(cursor, ["text", "text"]) });
  }
  const order = cells.map((cell) => ({ cell }));
  const scanned = picks === undefined ? limit + 1 : SCAN_LIMIT;
  const found = rows.partitions.find(where, order, scanned);
  const places = placesOfRows(rows, found, context);
  const { items, end } = pick(
    rows,
    loadUpstream(rows, places, LOOKS_MAX),
    { limit, picks },
    context,
  );
  const last = end === places.length ? found.at(-1) : places[end - 1]?.row;
  return { items, next_cursor: isEnd(found, last, scanned) ? null : cursorOfRow(last) };
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

function isEnd(
  found: readonly PartitionRow[],
  last: PartitionRow | null | undefined,
  scanned: number,
): boolean {
  return last === found.at(-1) && found.length < scanned;
}

function cursorOfRow(row: PartitionRow | null | undefined): string | null {
  return row === null || row === undefined ? null : cursorOf([row.asset_key, row.partition_key]);
}

/** A page of all partitions of all assets, or of one, by asset and ordinal. */
export function pageByAsset(
  rows: Rows,
  asset: string | undefined,
  { limit, cursor, picks }: PartitionQuery,
  context: Context,
): PartitionPage {
  const first = [asset ?? "", -1] as const;
  const [start, after] = cursor === undefined ? first : keyOfCursor(cursor, ["text", "int"]);
  const assets = asset === undefined ? assetsFrom(rows, String(start)) : [asset];
  const items: PartitionDocument[] = [];
  let looks = LOOKS_MAX;
  for (const [index, assetKey] of assets.entries()) {
    const isCut = index === ASSETS_MAX || looks <= 0 || items.length === limit;
    if (isCut) return { items, next_cursor: cursorOf([assetKey, -1]) };
    const view = assetView(rows, assetKey, context);
    // An asset that the page before ended in may be gone: then this is another, from its start.
    const from = assetKey === start ? Math.max(-1, Number(after)) + 1 : 0;
    const places = placesOf(rows, view, from, Math.min(SCAN_LIMIT, looks));
    const lookedAt = loadUpstream(rows, places, looks);
    for (const { above } of lookedAt) looks -= 1 + above.length;
    const picked = pick(rows, lookedAt, { limit: limit - items.length, picks }, context);
    items.push(...picked.items);
    const next = from + picked.end;
    if (next < countOf(view)) return { items, next_cursor: cursorOf([assetKey, next - 1]) };
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
