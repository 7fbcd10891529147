import { currentAsset, currentKeyspace } from "../../work/asset/look-up.ts";
import { assetView, countOf } from "../../work/asset/partition-status.ts";
import type { MapDimension, PartitionMap, PartitionValues } from "../../work/asset/api.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { Instant } from "../../kernel/instant.ts";
import { suggestion } from "../../kernel/message-text.ts";
import { dimensionNamed, type Keyspace, partitionInvalid } from "../../kernel/keyspace/keyspace.ts";
import type { PartitionDefinition } from "../../kernel/keyspace/definition.ts";
import type { Rows } from "../../work/rows.ts";
import { runLengths } from "../../kernel/intervals.ts";
import { evaluateRows } from "../../engine/commit.ts";
import type { Reader } from "../../store/store.ts";
import { type Call, type Handler, readAt, type Reply } from "../http/call.ts";
import { CELL_STATUSES } from "./cells.ts";
import { exactCells, mapsOfEngine, plainCells } from "./map.ts";
import type { PartitionMaps } from "./maps.ts";

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
