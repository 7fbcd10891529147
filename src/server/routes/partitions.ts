import { currentAsset } from "../../controllers/asset-lookup.ts";
import { assetView } from "../../controllers/partition-status.ts";
import type { PartitionDocument } from "../../core/api/asset-documents.ts";
import { PawlError } from "../../core/errors.ts";
import { type Call, evaluateAt, type Handler, type Reply } from "../call.ts";
import { withErrors } from "../partition-document.ts";
import {
  pageByAsset,
  pageByOrdinal,
  pageByRow,
  type PartitionPage,
  type PartitionQuery,
} from "../partition-pages.ts";

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

/** The answer with a page, with why attempts failed: what is in the ledger by then is not changed. */
async function replyWith(
  { engine }: Pick<Call<"listPartitions">, "engine">,
  { result: page, pos }: { result: PartitionPage; pos: number },
): Promise<Reply> {
  const items = await engine.read((reader) => withErrors(reader, page.items));
  return { answer: { ...page, items, pos }, pos };
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
  const found = await evaluateAt(call, (rows, context) =>
    pageByOrdinal(rows, assetView(rows, call.params.asset_key, context), query, context),
  );
  return replyWith(call, found);
}

async function listStalePartitions(call: Call<"listStalePartitions">): Promise<Reply> {
  const { limit, cursor, asset, reason } = call.query;
  const picks = ({ stale_reason: why }: PartitionDocument): boolean =>
    why !== null && (reason?.includes(why) ?? true);
  // All other reasons need a row, and rows are fewer than the partitions of a large keyspace.
  const isByRow = reason !== undefined && !reason.includes("NEVER_MATERIALIZED");
  const page = isByRow ? pageByRow : pageByAsset;
  const found = await evaluateAt(call, (rows, context) => {
    if (asset !== undefined) currentAsset(rows, asset);
    return page(rows, asset, { limit, cursor, picks }, context);
  });
  return replyWith(call, found);
}

/** What can be asked about partitions. */
export const PARTITION_HANDLERS: {
  listAssetPartitions: Handler<"listAssetPartitions">;
  listPartitions: Handler<"listPartitions">;
  listStalePartitions: Handler<"listStalePartitions">;
} = {
  listAssetPartitions,
  async listPartitions(call) {
    const { limit, cursor, asset } = call.query;
    const query = { limit, cursor, picks: picksOf(call.query) };
    const found = await evaluateAt(call, (rows, context) => pageByRow(rows, asset, query, context));
    return replyWith(call, found);
  },
  listStalePartitions,
};
