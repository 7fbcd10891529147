import { setImmediate as turnOfOthers } from "node:timers/promises";
import { currentAsset, currentKeyspace } from "../../controllers/asset-lookup.ts";
import { lookAt as lookUpstream } from "../../controllers/look-upstream.ts";
import {
  type AssetView,
  assetView,
  countOf,
  displayStatus,
  keysFrom,
  staleness,
} from "../../controllers/partition-status.ts";
import type {
  MapDimension,
  PartitionMap,
  PartitionValues,
} from "../../core/api/asset-documents.ts";
import { PawlError } from "../../core/errors.ts";
import type { Instant } from "../../core/instant.ts";
import { suggestion } from "../../core/near-miss.ts";
import { boundOf, dimensionNamed, type Keyspace } from "../../core/partitions/keyspace.ts";
import type { PartitionDefinition } from "../../core/partitions/partition-definition.ts";
import { partitionInvalid } from "../../core/partitions/partition-invalid.ts";
import type { Rows } from "../../core/rows/rows.ts";
import { runLengths } from "../../core/run-lengths.ts";
import { lookAt } from "../../engine/commit.ts";
import type { Engine } from "../../engine/engine.ts";
import type { Reader } from "../../store/store.ts";
import { type Call, type Handler, readAt, type Reply } from "../call.ts";
import { OrdinalFinder } from "../ordinal-finder.ts";
import { CELL_STATUSES, cellOf } from "../partition-cells.ts";
import { PartitionMaps } from "../partition-maps.ts";
import { placesOf } from "../partition-pages.ts";

/** Partitions that a map with staleness looks at, those upstream included. */
const LOOKS_MAX = 50_000;

/** How many of them at once, so that others get their turn in between. */
const LOOKS_AT_ONCE = 1_000;

const mapsOf = new WeakMap<Engine, PartitionMaps>();

function mapsOfEngine(engine: Engine): PartitionMaps {
  const maps = mapsOf.get(engine) ?? new PartitionMaps();
  mapsOf.set(engine, maps);
  return maps;
}

async function mapPartitions(call: Call<"mapPartitions">): Promise<Reply> {
  const { asset_key } = call.params;
  const maps = mapsOfEngine(call.engine);
  const now = await call.server.store.now();
  const map = (reader: Reader) => mapOn(reader, maps, call, now);
  const answer =
    call.query.stale === "true"
      ? await readAt(call, map)
      : await maps.inTurn(asset_key, () => readAt(call, map));
  return { answer, pos: answer.pos };
}

async function mapOn(
  reader: Reader,
  maps: PartitionMaps,
  { params, query }: Pick<Call<"mapPartitions">, "params" | "query">,
  now: Instant,
): Promise<PartitionMap> {
  const { asset_key } = params;
  const view = await lookAt(reader, (rows) => assetView(rows, asset_key, { now }));
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

type Stretch = { from: number; through: number };

/** Whether anything is stale is left out: that depends on everything upstream. */
async function plainCells(
  reader: Reader,
  maps: PartitionMaps,
  view: AssetView,
  { from, through }: Stretch,
  now: Instant,
): Promise<Uint8Array> {
  const { keyspace, spec, running } = view;
  const { partitions: definition } = spec;
  if (keyspace === null || definition === null) {
    return (await exactCells(reader, spec.asset_key, { from, through }, now)).map((cell) =>
      cell === cellOf("STALE") ? cellOf("MATERIALIZED") : cell,
    );
  }
  const keysOf = (start: number, limit: number) =>
    lookAt(reader, (rows) => keysFrom(assetView(rows, spec.asset_key, { now }), start, limit));
  const asset = {
    assetKey: spec.asset_key,
    specHash: view.definition.spec_hash,
    definition,
    keyspace,
    keysFrom: keysOf,
  };
  const cells = await maps.cells(reader, asset, from, through);
  const finder = new OrdinalFinder(reader, definition, boundOf(keyspace));
  for (const ordinal of await finder.find([...running])) {
    if (ordinal !== null && ordinal >= from && ordinal < through) {
      cells[ordinal - from] = cellOf("IN_PROGRESS");
    }
  }
  return cells;
}

/** Looks at each partition and at what is upstream of it, as far as the looks go. */
async function exactCells(
  reader: Reader,
  assetKey: string,
  { from, through }: Stretch,
  now: Instant,
): Promise<Uint8Array> {
  const cells = new Uint8Array(through - from);
  let at = from;
  for (let looks = LOOKS_MAX; at < through && looks > 0; ) {
    const limit = Math.min(through - at, LOOKS_AT_ONCE);
    const looked = await lookAt(reader, (rows) => lookFrom(rows, assetKey, { at, limit }, now));
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
    cells: lookedAt.map((each) => cellOf(displayStatus(each, staleness(rows, each, now) !== null))),
    looks: lookedAt.reduce((sum, { above }) => sum + 1 + above.length, 0),
  };
}

async function listPartitionValues(call: Call<"listPartitionValues">): Promise<Reply> {
  const now = await call.server.store.now();
  const answer = await readAt(call, async (reader): Promise<PartitionValues> => {
    const listed = await lookAt(reader, (rows) =>
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
