import { currentAsset } from "../../work/asset/look-up.ts";
import { assetView, type AssetView, countOf } from "../../work/asset/partition-status.ts";
import type { PartitionDocument, MapStatus, PartitionSummary } from "../../work/asset/api.ts";
import { PawlError } from "../../kernel/errors.ts";
import { type Call, evaluateAt, type Handlers, type Reply, readAt } from "../http/call.ts";
import { withErrors, type PartitionMaps } from "../partitions/maps.ts";
import {
  pageByAsset,
  pageByOrdinal,
  pageByRow,
  type PartitionPage,
  type PartitionQuery,
} from "../partitions/pages.ts";
import { setImmediate as turnOfOthers } from "node:timers/promises";
import {
  type CollectedStale,
  collectStale,
  type CollectStaleOptions,
  type StalePlace,
} from "../../work/asset/stale.ts";
import type { Instant } from "../../kernel/instant.ts";
import {
  addStaleReasons,
  NO_STALE_REASONS,
  type StaleReasons,
} from "../../kernel/keyspace/selector.ts";
import { evaluateRows } from "../../engine/commit.ts";
import type { Reader } from "../../store/store.ts";
import { CELL_STATUSES, cellOf, countCells } from "../partitions/cells.ts";
import { mapsOfEngine, plainCells } from "../partitions/map.ts";

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
export const PARTITION_HANDLERS = {
  listAssetPartitions,
  async listPartitions(call) {
    const { limit, cursor, asset } = call.query;
    const query = { limit, cursor, picks: picksOf(call.query) };
    const found = await evaluateAt(call, (rows, context) => pageByRow(rows, asset, query, context));
    return replyWith(call, found);
  },
  listStalePartitions,
} satisfies Handlers;

/** The most partitions that are counted on a map; of more, their rows are counted. */
const MAPPED_MAX = 1_000_000;

/** Partitions that a summary looks at to say which are stale, those upstream included. */
const LOOKS_MAX = 10_000;

/** How many of them at once, so that others get their turn in between. */
const LOOKS_AT_ONCE = 1_000;

async function summarizePartitions(call: Call<"summarizePartitions">): Promise<Reply> {
  const { asset_key } = call.params;
  const maps = mapsOfEngine(call.engine);
  const now = await call.server.store.now();
  // Who waits for a position holds up nobody whose turn it is.
  await readAt(call, () => Promise.resolve());
  const { counts, pos } = await maps.inTurn(asset_key, () =>
    call.engine.read(async (reader) => {
      const view = await evaluateRows(reader, (rows) => assetView(rows, asset_key, { now }));
      const { pos: at } = await reader.head();
      return { counts: await countsOf(reader, maps, view, now), pos: at };
    }),
  );
  // On a later snapshot than the counts, so that nobody waits for it who wants the map: the pos is
  // the earlier one, which both have reached.
  const { reasons, isComplete } = await call.engine.read((reader) =>
    staleReasons(reader, asset_key, now),
  );
  const answer: PartitionSummary = {
    asset_key,
    ...counts,
    stale_reasons: { ...reasons, NEVER_MATERIALIZED: counts.never_materialized + counts.failed },
    stale_complete: isComplete,
    pos,
  };
  return { answer, pos };
}

const LAST_FAILED = "MATERIALIZED_LAST_ATTEMPT_FAILED";

type Counts = Pick<
  PartitionSummary,
  | "total"
  | "in_progress"
  | "never_materialized"
  | "failed"
  | "materialized_last_attempt_failed"
  | "materialized"
  | "being_remade"
>;

async function countsOf(
  reader: Reader,
  maps: PartitionMaps,
  view: AssetView,
  now: Instant,
): Promise<Counts> {
  const total = countOf(view);
  const { running, spec } = view;
  if (total > MAPPED_MAX) {
    const counts = await countCells(reader, spec.asset_key, running);
    // Most have no row: neither those that were never tried, nor those that are for the first time.
    const rest = total - running.size - countedIn(counts, ["MATERIALIZED", LAST_FAILED, "FAILED"]);
    counts[cellOf("NEVER_MATERIALIZED")] = Math.max(0, rest);
    counts[cellOf("IN_PROGRESS")] = running.size - countedIn(counts, ["BEING_REMADE"]);
    return countsIn(counts, total);
  }
  const counts = CELL_STATUSES.map(() => 0);
  for (const cell of await plainCells(reader, maps, view, { from: 0, through: total }, now)) {
    counts[cell] = (counts[cell] ?? 0) + 1;
  }
  return countsIn(counts, total);
}

function countsIn(counts: readonly number[], total: number): Counts {
  return {
    total,
    in_progress: countedIn(counts, ["IN_PROGRESS", "BEING_REMADE"]),
    never_materialized: countedIn(counts, ["NEVER_MATERIALIZED"]),
    failed: countedIn(counts, ["FAILED"]),
    materialized_last_attempt_failed: countedIn(counts, [LAST_FAILED]),
    materialized: countedIn(counts, ["MATERIALIZED", "BEING_REMADE"]),
    being_remade: countedIn(counts, ["BEING_REMADE"]),
  };
}

function countedIn(counts: readonly number[], statuses: readonly MapStatus[]): number {
  return statuses.reduce((sum, status) => sum + (counts[cellOf(status)] ?? 0), 0);
}

/** Counts what is stale by reason, as far as the looks go. */
async function staleReasons(
  reader: Reader,
  assetKey: string,
  now: Instant,
): Promise<{ reasons: StaleReasons; isComplete: boolean }> {
  let reasons = NO_STALE_REASONS;
  let from: StalePlace | null = { asset_index: 0, ordinal: 0 };
  for (let looks = LOOKS_MAX; from !== null && looks > 0; ) {
    const budget = Math.min(looks, LOOKS_AT_ONCE);
    const options: CollectStaleOptions = { budget, limit: budget, from };
    const collected: CollectedStale = await evaluateRows(reader, (rows) =>
      collectStale(rows, [assetKey], { now }, options),
    );
    reasons = addStaleReasons(reasons, collected.reasons);
    from = collected.next;
    looks -= Math.max(1, collected.looked);
    await turnOfOthers();
  }
  return { reasons, isComplete: from === null };
}

/** What counts partitions. */
export const PARTITION_SUMMARY_HANDLERS = { summarizePartitions } satisfies Handlers;
