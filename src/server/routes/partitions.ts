import { setImmediate as turnOfOthers } from "node:timers/promises";
import { evaluateRows } from "../../engine/commit.ts";
import type { Engine } from "../../engine/engine.ts";
import { PawlError, present } from "../../kernel/errors.ts";
import type { Instant } from "../../kernel/instant.ts";
import { runLengths } from "../../kernel/intervals.ts";
import type { PartitionDefinition } from "../../kernel/keyspace/definition.ts";
import { dimensionNamed, type Keyspace, partitionInvalid } from "../../kernel/keyspace/keyspace.ts";
import {
  addStaleReasons,
  NO_STALE_REASONS,
  type StaleReasons,
} from "../../kernel/keyspace/selector.ts";
import { suggestion } from "../../kernel/message-text.ts";
import type { Reader } from "../../store/store.ts";
import type {
  MapDimension,
  MapStatus,
  PartitionDocument,
  PartitionMap,
  PartitionSummary,
  PartitionValues,
} from "../../work/asset/api.ts";
import { currentAsset, currentKeyspace } from "../../work/asset/look-up.ts";
import {
  type AssetView,
  assetView,
  countOf,
  displayStatus,
  loadUpstream as lookUpstream,
  madeFrom,
  staleness,
} from "../../work/asset/partition-status.ts";
import {
  type CollectedStale,
  type CollectStaleOptions,
  collectStale,
  type StalePlace,
} from "../../work/asset/stale.ts";
import type { Rows } from "../../work/rows.ts";
import {
  type Call,
  evaluateAt,
  type Handler,
  type Handlers,
  type Reply,
  readAt,
} from "../http/call.ts";
import {
  type AskKeyspace,
  CELL_STATUSES,
  cellOf,
  countCells,
  workedOn,
} from "../partitions/cells.ts";
import { PartitionMaps } from "../partitions/maps.ts";
import { OrdinalFinder } from "../partitions/ordinals.ts";
import {
  type PartitionPage,
  type PartitionQuery,
  pageByAsset,
  pageByOrdinal,
  pageByRow,
  pageOfUpstream,
  placeOfPartition,
  placesOf,
} from "../partitions/pages.ts";
import { withErrors } from "../partitions/with-errors.ts";

/** Partitions that a map with staleness looks at, those upstream included. */
const MAP_LOOKS_MAX = 50_000;

const mapsOf = new WeakMap<Engine, PartitionMaps>();

/** The maps of a workspace that are kept. */
export function mapsOfEngine(engine: Engine): PartitionMaps {
  const maps = mapsOf.get(engine) ?? new PartitionMaps();
  mapsOf.set(engine, maps);
  return maps;
}

/** Ordinals from one to before another. */
export type MapStretch = { from: number; through: number };

/** What partitions are shown as, but for what is stale: that depends on everything upstream. */
export async function plainCells(
  reader: Reader,
  maps: PartitionMaps,
  view: AssetView,
  { from, through }: MapStretch,
  now: Instant,
): Promise<Uint8Array> {
  const { keyspace, spec, running } = view;
  const { partitions: definition } = spec;
  if (keyspace === null || definition === null) {
    return (await exactCells(reader, spec.asset_key, { from, through }, now)).map((cell) =>
      cell === cellOf("STALE") ? cellOf("MATERIALIZED") : cell,
    );
  }
  const ask: AskKeyspace = (body) =>
    evaluateRows(reader, (rows) => {
      const { keyspace: own } = assetView(rows, spec.asset_key, { now });
      return body(present(own, "an asset keeps its partitions within a snapshot"));
    });
  const asset = {
    assetKey: spec.asset_key,
    specHash: view.definition.spec_hash,
    definition,
    keyspace,
    ask,
  };
  const cells = await maps.cells(reader, asset, from, through);
  const finder = new OrdinalFinder(reader, definition, keyspace);
  for (const ordinal of await finder.find([...running])) {
    if (ordinal !== null && ordinal >= from && ordinal < through) {
      cells[ordinal - from] = workedOn(cells[ordinal - from] ?? cellOf("NEVER_MATERIALIZED"));
    }
  }
  return cells;
}

/** Looks at each partition and at what is upstream of it, as far as the looks go. */
export async function exactCells(
  reader: Reader,
  assetKey: string,
  { from, through }: MapStretch,
  now: Instant,
): Promise<Uint8Array> {
  const cells = new Uint8Array(through - from);
  let at = from;
  for (let looks = MAP_LOOKS_MAX; at < through && looks > 0; ) {
    const limit = Math.min(through - at, LOOKS_AT_ONCE);
    const looked = await evaluateRows(reader, (rows) =>
      lookFrom(rows, assetKey, { at, limit }, now),
    );
    for (const cell of looked.cells) cells[at++ - from] = cell;
    looks -= looked.looks;
    await turnOfOthers();
  }
  return cells.subarray(0, at - from);
}

function lookFrom(
  rows: Rows,
  assetKey: string,
  { at, limit }: { at: number; limit: number },
  now: Instant,
): { cells: number[]; looks: number } {
  const places = placesOf(rows, assetView(rows, assetKey, { now }), at, limit);
  const lookedAt = lookUpstream(rows, places, LOOKS_AT_ONCE);
  return {
    cells: lookedAt.map((each) => {
      const status = displayStatus(each, staleness(rows, each, now) !== null);
      const isRemade =
        status === "IN_PROGRESS" && (each.row?.last_materialization_at ?? null) !== null;
      return cellOf(isRemade ? "BEING_REMADE" : status);
    }),
    looks: lookedAt.reduce((sum, { above }) => sum + 1 + above.length, 0),
  };
}

type Filter = {
  status?: readonly string[] | undefined;
  checks?: readonly string[] | undefined;
  since?: string | undefined;
  until?: string | undefined;
};

/** What a list is to have by its query: undefined when that is everything. */
function picksOf({ status, checks, since, until }: Filter): PartitionQuery["picks"] {
  if ([status, checks, since, until].every((each) => each === undefined)) return undefined;
  return ({ status: shown, check_status, last_attempt_at: at }) => {
    if (status !== undefined && !status.includes(shown)) return false;
    if (checks !== undefined && (check_status === null || !checks.includes(check_status)))
      return false;
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

async function listUpstreamPartitions(call: Call<"listUpstreamPartitions">): Promise<Reply> {
  const { asset_key } = call.params;
  const { partition, limit, cursor } = call.query;
  const found = await evaluateAt(call, (rows, context) => {
    const view = assetView(rows, asset_key, context);
    return pageOfUpstream(
      rows,
      madeFrom(placeOfPartition(rows, view, partition)),
      { limit, cursor },
      context,
    );
  });
  const { total } = found.result;
  const reply = await replyWith(call, found);
  return { ...reply, answer: { ...(reply.answer as object), total } };
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

/** What partitions are shown as whose last attempt failed. */
const FAILING: readonly string[] = ["FAILED", "MATERIALIZED_LAST_ATTEMPT_FAILED"];

/** What can be asked about partitions. */
export const PARTITION_HANDLERS = {
  listAssetPartitions,
  listUpstreamPartitions,
  async listPartitions(call) {
    const { limit, cursor, asset } = call.query;
    const isFailing = call.query.status?.every((status) => FAILING.includes(status)) ?? false;
    const query = { limit, cursor, picks: picksOf(call.query), isFailing };
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

async function mapPartitions(call: Call<"mapPartitions">): Promise<Reply> {
  const { asset_key } = call.params;
  const maps = mapsOfEngine(call.engine);
  const now = await call.server.store.now();
  const map = (reader: Reader) => mapOn(reader, maps, call, now);
  // Who waits for a position holds up nobody whose turn it is.
  await readAt(call, () => Promise.resolve());
  const answer =
    call.query.stale === "true"
      ? await call.engine.read(map)
      : await maps.inTurn(asset_key, () => call.engine.read(map));
  return { answer, pos: answer.pos };
}

async function mapOn(
  reader: Reader,
  maps: PartitionMaps,
  { params, query }: Pick<Call<"mapPartitions">, "params" | "query">,
  now: Instant,
): Promise<PartitionMap> {
  const { asset_key } = params;
  const view = await evaluateRows(reader, (rows) => assetView(rows, asset_key, { now }));
  const total = countOf(view);
  const from = Math.min(query.from, total);
  const through = Math.min(total, from + query.limit);
  const cells =
    query.stale === "true"
      ? await exactCells(reader, asset_key, { from, through }, now)
      : await plainCells(reader, maps, view, { from, through }, now);
  return {
    asset_key,
    total,
    from,
    through: from + cells.length,
    dimensions: view.keyspace === null ? [] : dimensionsOfMap(view.keyspace),
    statuses: [...CELL_STATUSES],
    lengths: runLengths(cells),
    pos: (await reader.head()).pos,
  };
}

function dimensionsOfMap({ dimensions }: Keyspace): MapDimension[] {
  let stride = 1;
  return dimensions
    .toReversed()
    .map(({ name, keyspace: { count } }): MapDimension => {
      const dimension = { name: dimensions.length === 1 ? "" : name, count, stride };
      stride *= count;
      return dimension;
    })
    .toReversed();
}

async function listPartitionValues(call: Call<"listPartitionValues">): Promise<Reply> {
  const now = await call.server.store.now();
  const answer = await readAt(call, async (reader): Promise<PartitionValues> => {
    const listed = await evaluateRows(reader, (rows) =>
      valuesFrom(rows, call.params.asset_key, call.query, now),
    );
    return { ...listed, pos: (await reader.head()).pos };
  });
  return { answer, pos: answer.pos };
}

type ValuesQuery = Pick<
  Call<"listPartitionValues">["query"],
  "dimension" | "from" | "around" | "limit"
>;

function valuesFrom(
  rows: Rows,
  assetKey: string,
  { dimension = "", from, around, limit }: ValuesQuery,
  now: Instant,
): Omit<PartitionValues, "pos"> {
  const { spec } = currentAsset(rows, assetKey);
  const keyspace = currentKeyspace(rows, spec, { now });
  const { partitions: definition } = spec;
  if (keyspace === null || definition === null) {
    throw new PawlError(
      "INPUT_INVALID",
      `${assetKey} has no partitions, so there are no values to list.`,
      { details: { asset_key: assetKey } },
    );
  }
  const along = axisOf(definition, keyspace, dimension);
  const first = around === undefined ? from : along.keyspace.indexOf(around);
  if (first === null) {
    throw partitionInvalid(along.definition, along.keyspace, around ?? "", along.name);
  }
  const total = along.keyspace.count;
  const values = first >= total ? [] : along.keyspace.slice(first, limit);
  return { items: values.map((value, at) => ({ ordinal: first + at, value })), total };
}

/** The keyspace whose values are meant: one dimension, or the whole keys. */
function axisOf(
  definition: PartitionDefinition,
  keyspace: Keyspace,
  dimension: string,
): { definition: PartitionDefinition; keyspace: Keyspace; name: string | undefined } {
  if (dimension === "") return { definition, keyspace, name: undefined };
  const names = definition.type === "multi" ? keyspace.dimensions.map(({ name }) => name) : [];
  if (names.includes(dimension)) {
    return { ...dimensionNamed({ definition, keyspace }, dimension), name: dimension };
  }
  const there = names.length === 0 ? "its partitions have one only" : `use ${names.join(" or ")}`;
  throw new PawlError(
    "INPUT_INVALID",
    `There is no dimension ${JSON.stringify(dimension)}${suggestion(dimension, names)}: ${there}.`,
    { details: { dimension } },
  );
}

/** What draws partitions: their map, and the keys along its sides. */
export const PARTITION_MAP_HANDLERS: {
  mapPartitions: Handler<"mapPartitions">;
  listPartitionValues: Handler<"listPartitionValues">;
} = { mapPartitions, listPartitionValues };
