import { assetNotFound } from "../../controllers/asset-lookup.ts";
import type { Context } from "../../controllers/decision.ts";
import type { PartitionDocument, PartitionSummary } from "../../core/api/asset-documents.ts";
import { keyspaceOf } from "../../core/partitions/keyspace-of.ts";
import { type DefinitionRow, DEFINITIONS } from "../../core/rows/definition-rows.ts";
import { type PartitionRow, PARTITIONS } from "../../core/rows/partition-rows.ts";
import type { Rows } from "../../core/rows/rows.ts";
import type { Condition } from "../../core/rows/table.ts";
import type { Reader } from "../../store/store.ts";
import { type Call, evaluateAt, type Handler, type Reply } from "../call.ts";
import { cursorOf, keyOfCursor } from "../cursor.ts";
import {
  type AssetView,
  assetView,
  needPartitions,
  partitionDocument,
} from "../partition-status.ts";
import { dynamicCounts } from "./assets.ts";
import { withSpecs } from "./definitions.ts";

/** Partitions that a page with a filter looks at; it may be short and still have a next one. */
const SCAN_LIMIT = 1_000;

type Page = { items: PartitionDocument[]; next_cursor: string | null };

/** A page of an asset's partitions by ordinal. */
function pageByOrdinal(
  rows: Rows,
  view: AssetView,
  context: Context,
  { after, limit, status }: { after: number; limit: number; status: readonly string[] | undefined },
): Page {
  const count = view.keyspace?.count ?? 1;
  const items: PartitionDocument[] = [];
  const end = Math.min(count, after + 1 + (status === undefined ? limit : SCAN_LIMIT));
  const keys = view.keyspace?.slice(after + 1, end - after - 1) ?? [""];
  const { asset_key } = view.spec;
  rows.partitions.need(keys.map((key) => [asset_key, key]));
  needPartitions(
    rows,
    view,
    keys.map((_, index) => after + 1 + index),
  );
  let ordinal = after;
  for (const key of keys) {
    ordinal++;
    const row = rows.partitions.get(asset_key, key);
    const document = partitionDocument(rows, view, key, ordinal, row, context.now);
    if (status?.includes(document.status) ?? true) items.push(document);
    if (items.length === limit) break;
  }
  return { items, next_cursor: ordinal + 1 < count ? cursorOf([ordinal]) : null };
}

async function listAssetPartitions(call: Call<"listAssetPartitions">): Promise<Reply> {
  const { limit, cursor, status } = call.query;
  const after = cursor === undefined ? -1 : Number(keyOfCursor(cursor, ["int"])[0]);
  const { result, pos } = await evaluateAt(call, (rows, context) =>
    pageByOrdinal(rows, assetView(rows, call.params.asset_key, context), context, {
      after: Math.max(-1, after),
      limit,
      status,
    }),
  );
  return { answer: { ...result, pos }, pos };
}

/** A page of the partitions that have a row, across assets. */
function pageByRow(call: Call<"listPartitions">, rows: Rows, context: Context): Page {
  const { limit, cursor, status, asset } = call.query;
  const where: Condition[] = [];
  if (asset !== undefined) where.push({ cell: "asset_key", is: "=", value: asset });
  const cells = PARTITIONS.key;
  if (cursor !== undefined) {
    where.push({ cells, is: "after", key: keyOfCursor(cursor, ["text", "text"]) });
  }
  const scanned = status === undefined ? limit + 1 : SCAN_LIMIT;
  const found = rows.partitions.find(
    where,
    cells.map((cell) => ({ cell })),
    scanned,
  );
  const views = new Map<string, AssetView | null>();
  const places = found.map((row) => {
    const view = viewOf(views, rows, row.asset_key, context);
    return { row, view, ordinal: view === null ? null : ordinalOf(view, row.partition_key) };
  });
  for (const view of views.values()) {
    if (view !== null) needPartitions(rows, view, ordinalsOf(places, view));
  }
  const items: PartitionDocument[] = [];
  let last: PartitionRow | undefined;
  for (const { row, view, ordinal } of places) {
    if (items.length === limit) break;
    last = row;
    if (view === null) continue;
    const document = partitionDocument(rows, view, row.partition_key, ordinal, row, context.now);
    if (status?.includes(document.status) ?? true) items.push(document);
  }
  const hasMore = last !== found.at(-1) || found.length === scanned;
  if (last === undefined || !hasMore) return { items, next_cursor: null };
  return { items, next_cursor: cursorOf([last.asset_key, last.partition_key]) };
}

function ordinalOf({ keyspace }: AssetView, key: string): number | null {
  return keyspace === null ? 0 : keyspace.indexOf(key);
}

function ordinalsOf(
  places: readonly { view: AssetView | null; ordinal: number | null }[],
  view: AssetView,
): number[] {
  return places.flatMap((place) => (place.view === view ? (place.ordinal ?? []) : []));
}

/** What was materialized of an asset that is no longer defined is not shown. */
function viewOf(
  views: Map<string, AssetView | null>,
  rows: Rows,
  assetKey: string,
  context: Context,
): AssetView | null {
  let view = views.get(assetKey);
  if (view === undefined) {
    const isDefined = rows.definitions.get("asset", assetKey) !== null;
    view = isDefined ? assetView(rows, assetKey, context) : null;
    views.set(assetKey, view);
  }
  return view;
}

async function summarizePartitions(call: Call<"summarizePartitions">): Promise<Reply> {
  const { asset_key } = call.params;
  const running = await evaluateAt(call, (rows, context) => {
    const keys = [...assetView(rows, asset_key, context).running];
    rows.partitions.need(keys.map((key) => [asset_key, key]));
    return keys.map((key) => rows.partitions.get(asset_key, key));
  });
  // Counted on a later snapshot than the running ones: the counts add up, and the pos is the
  // earlier one, which both have reached.
  const counts = await call.engine.read((reader) =>
    countRows(reader, asset_key, call.server.now()),
  );
  const made = running.result.filter((row) => row !== null && row.last_materialization_at !== null);
  const failed = made.filter((row) => row?.last_attempt_outcome === "FAILED").length;
  const materialized = Math.max(0, counts.materialized - (made.length - failed));
  const lastFailed = Math.max(0, counts.failed - failed);
  const in_progress = running.result.length;
  const never = Math.max(0, counts.total - in_progress - materialized - lastFailed);
  const answer: PartitionSummary = {
    asset_key,
    total: in_progress + never + lastFailed + materialized,
    in_progress,
    never_materialized: never,
    materialized_last_attempt_failed: lastFailed,
    materialized,
    pos: running.pos,
  };
  return { answer, pos: running.pos };
}

async function countRows(
  reader: Reader,
  assetKey: string,
  now: string,
): Promise<{ total: number; materialized: number; failed: number }> {
  const definitions = (await reader.load(DEFINITIONS, [["asset", assetKey]])) as DefinitionRow[];
  const [found] = await withSpecs(definitions, reader);
  if (found?.spec.kind !== "asset") throw assetNotFound(assetKey);
  const { partitions } = found.spec;
  const dynamic = await dynamicCounts([found.spec], reader);
  const where: Condition[] = [
    { cell: "asset_key", is: "=", value: assetKey },
    { cell: "last_materialization_at", is: "not null" },
  ];
  let materialized = 0;
  let failed = 0;
  for (const { values, count } of await reader.countBy(PARTITIONS, where, [
    "last_attempt_outcome",
  ])) {
    if (values["last_attempt_outcome"] === "FAILED") failed += count;
    else materialized += count;
  }
  const total = partitions === null ? 1 : keyspaceOf(partitions, dynamic, now).count;
  return { total, materialized, failed };
}

/** What can be asked about partitions. */
export const PARTITION_HANDLERS: {
  listAssetPartitions: Handler<"listAssetPartitions">;
  listPartitions: Handler<"listPartitions">;
  summarizePartitions: Handler<"summarizePartitions">;
} = {
  listAssetPartitions,
  async listPartitions(call) {
    const { result, pos } = await evaluateAt(call, (rows, context) =>
      pageByRow(call, rows, context),
    );
    return { answer: { ...result, pos }, pos };
  },
  summarizePartitions,
};
