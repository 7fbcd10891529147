import { assetNotFound, currentAsset } from "../../controllers/asset-lookup.ts";
import { assetView } from "../../controllers/partition-status.ts";
import { collectStale } from "../../controllers/stale-partitions.ts";
import type { PartitionDocument, PartitionSummary } from "../../core/api/asset-documents.ts";
import { PawlError } from "../../core/errors.ts";
import { keyspaceOf } from "../../core/partitions/keyspace-of.ts";
import { type DefinitionRow, DEFINITIONS } from "../../core/rows/definition-rows.ts";
import { PARTITIONS } from "../../core/rows/partition-rows.ts";
import type { Condition } from "../../core/rows/table.ts";
import type { Reader } from "../../store/store.ts";
import { type Call, evaluateAt, type Handler, type Reply } from "../call.ts";
import { pageByAsset, pageByOrdinal, pageByRow, type PartitionQuery } from "../partition-pages.ts";
import { dynamicCounts } from "./assets.ts";
import { withSpecs } from "./definitions.ts";

/** Partitions that a summary looks at to say which are stale, those upstream included. */
const SUMMARY_LOOKS_MAX = 10_000;

type Filter = {
  status?: readonly string[] | undefined;
  since?: string | undefined;
  until?: string | undefined;
};

/** What a list is to have by its query: undefined when that is everything. */
function picksOf({ status, since, until }: Filter): PartitionQuery["picks"] {
  if (status === undefined && since === undefined && until === undefined) return undefined;
  return ({ status: shown, last_attempt_at: at }) => {
    if (status !== undefined && !status.includes(shown)) return false;
    if (since === undefined && until === undefined) return true;
    return at !== null && at >= (since ?? at) && (until === undefined || at < until);
  };
}

async function listAssetPartitions(call: Call<"listAssetPartitions">): Promise<Reply> {
  const { limit, cursor, from } = call.query;
  if (cursor !== undefined && from !== undefined) {
    throw new PawlError(
      "INPUT_INVALID",
      `A list begins at the ordinal ${from} or where a page before it ended: ` +
        "send `from` or `cursor`, not both.",
      { details: { from, cursor } },
    );
  }
  const query = { limit, cursor, from, picks: picksOf(call.query) };
  const { result, pos } = await evaluateAt(call, (rows, context) =>
    pageByOrdinal(rows, assetView(rows, call.params.asset_key, context), query, context),
  );
  return { answer: { ...result, pos }, pos };
}

async function listStalePartitions(call: Call<"listStalePartitions">): Promise<Reply> {
  const { limit, cursor, asset, reason } = call.query;
  const picks = ({ stale_reason: why }: PartitionDocument): boolean =>
    why !== null && (reason?.includes(why) ?? true);
  // All other reasons need a row, and rows are fewer than the partitions of a large keyspace.
  const isByRow = reason !== undefined && !reason.includes("NEVER_MATERIALIZED");
  const page = isByRow ? pageByRow : pageByAsset;
  const { result, pos } = await evaluateAt(call, (rows, context) => {
    if (asset !== undefined) currentAsset(rows, asset);
    return page(rows, asset, { limit, cursor, picks }, context);
  });
  return { answer: { ...result, pos }, pos };
}

async function summarizePartitions(call: Call<"summarizePartitions">): Promise<Reply> {
  const { asset_key } = call.params;
  const { result, pos } = await evaluateAt(call, (rows, context) => {
    const keys = [...assetView(rows, asset_key, context).running];
    rows.partitions.need(keys.map((key) => [asset_key, key]));
    const running = keys.map((key) => rows.partitions.get(asset_key, key));
    const limits = { budget: SUMMARY_LOOKS_MAX, limit: SUMMARY_LOOKS_MAX };
    return { running, stale: collectStale(rows, [asset_key], context, limits) };
  });
  const { running, stale } = result;
  // Counted on a later snapshot than the running ones: the counts add up, and the pos is the
  // earlier one, which both have reached.
  const counts = await call.engine.read((reader) =>
    countRows(reader, asset_key, call.server.now()),
  );
  const made = running.filter((row) => row !== null && row.last_materialization_at !== null);
  const failed = made.filter((row) => row?.last_attempt_outcome === "FAILED").length;
  const materialized = Math.max(0, counts.materialized - (made.length - failed));
  const lastFailed = Math.max(0, counts.failed - failed);
  const in_progress = running.length;
  const never = Math.max(0, counts.total - in_progress - materialized - lastFailed);
  const answer: PartitionSummary = {
    asset_key,
    total: in_progress + never + lastFailed + materialized,
    in_progress,
    never_materialized: never,
    materialized_last_attempt_failed: lastFailed,
    materialized,
    stale_reasons: { ...stale.reasons, NEVER_MATERIALIZED: never },
    stale_complete: stale.next === null,
    pos,
  };
  return { answer, pos };
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
  listStalePartitions: Handler<"listStalePartitions">;
  summarizePartitions: Handler<"summarizePartitions">;
} = {
  listAssetPartitions,
  async listPartitions(call) {
    const { limit, cursor, asset } = call.query;
    const query = { limit, cursor, picks: picksOf(call.query) };
    const { result, pos } = await evaluateAt(call, (rows, context) =>
      pageByRow(rows, asset, query, context),
    );
    return { answer: { ...result, pos }, pos };
  },
  listStalePartitions,
  summarizePartitions,
};
