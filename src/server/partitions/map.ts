import { setImmediate as turnOfOthers } from "node:timers/promises";
import { loadUpstream as lookUpstream } from "../../work/asset/load-upstream.ts";
import {
  type AssetView,
  assetView,
  displayStatus,
  keysFrom,
  staleness,
} from "../../work/asset/partition-status.ts";
import type { Instant } from "../../kernel/instant.ts";
import { boundOf } from "../../kernel/keyspace/keyspace.ts";
import type { Rows } from "../../work/rows.ts";
import { evaluateRows } from "../../engine/commit.ts";
import type { Engine } from "../../engine/engine.ts";
import type { Reader } from "../../store/store.ts";
import { OrdinalFinder } from "./ordinals.ts";
import { cellOf, workedOn } from "./cells.ts";
import { PartitionMaps } from "./maps.ts";
import { placesOf } from "./pages.ts";

/** Partitions that a map with staleness looks at, those upstream included. */
const LOOKS_MAX = 50_000;

/** How many of them at once, so that others get their turn in between. */
const LOOKS_AT_ONCE = 1_000;

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
  const keysOf = (start: number, limit: number) =>
    evaluateRows(reader, (rows) =>
      keysFrom(assetView(rows, spec.asset_key, { now }), start, limit),
    );
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
  for (let looks = LOOKS_MAX; at < through && looks > 0; ) {
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
