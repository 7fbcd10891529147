import { setImmediate as turnOfOthers } from "node:timers/promises";
import type { PartitionDefinition } from "../../kernel/keyspace/definition.ts";
import { boundOf, type Keyspace, removedIn } from "../../kernel/keyspace/keyspace.ts";
import type { Reader } from "../../store/store.ts";
import type { RecordedEvent } from "../../work/envelope.ts";
import type { EventData } from "../../work/events.ts";
import { resultsOf } from "../../work/run/story.ts";
import { type AskKeyspace, boundsOfStretch, type Cells, loadCells, scanCells } from "./cells.ts";
import { OrdinalFinder } from "./ordinals.ts";

/** Maps that are kept up to date, at most a million bytes each. */
const MAPS_KEPT = 16;

/** Positions that a kept map is brought forward by; from further back it is read anew. */
const POSITIONS_MAX = 20_000;

/** Changed partitions that a kept map is brought forward by. */
const CHANGES_MAX = 100_000;

/** Positions that are looked through at once: an event may have a thousand partitions in it. */
const POSITIONS_AT_ONCE = 50;

/** The longest stretch whose rows are looked up by key; a longer one walks through them all. */
const LOOKED_UP_MAX = 20_000;

/** An asset with partitions as it is at the snapshot that is read. */
export type MappedAsset = {
  assetKey: string;
  specHash: string;
  definition: PartitionDefinition;
  keyspace: Keyspace;
  /** Asks the keyspace what may need rows that are not there. */
  ask: AskKeyspace;
};

/** `removed` says which keys were removed: others may stand under the same ordinals after such a change. */
type KeptMap = Cells & {
  specHash: string;
  bound: readonly number[];
  removed: string;
  pos: number;
};

/**
 * Cells of maps, each kept with the position it is of: a page that shows a running backfill asks
 * again every few seconds, and then only what changed since is read. One is made at a time for an
 * asset, so that who asks second finds what the first has read.
 */
export class PartitionMaps {
  readonly #maps = new Map<string, KeptMap>();
  readonly #turns = new Map<string, Promise<unknown>>();

  /** Runs `body` when all that was asked for this asset before is done. */
  async inTurn<Result>(assetKey: string, body: () => Promise<Result>): Promise<Result> {
    const before = this.#turns.get(assetKey) ?? Promise.resolve();
    const result = before.then(body, body);
    this.#turns.set(assetKey, result);
    try {
      return await result;
    } finally {
      if (this.#turns.get(assetKey) === result) this.#turns.delete(assetKey);
    }
  }

  /** The cells from one ordinal to before another, as they are at the reader's position. */
  async cells(
    reader: Reader,
    asset: MappedAsset,
    from: number,
    through: number,
  ): Promise<Uint8Array> {
    const { assetKey, specHash } = asset;
    if (through - from <= LOOKED_UP_MAX) {
      const map = { assetKey, from, cells: new Uint8Array(through - from) };
      await loadStretch(reader, map, asset, from, through);
      return map.cells;
    }
    const { pos } = await reader.head();
    const bound = boundOf(asset.keyspace);
    const removed = JSON.stringify(removedIn(asset.keyspace));
    const finder = new OrdinalFinder(reader, asset.definition, asset.keyspace);
    const kept = this.#maps.get(asset.assetKey);
    if (kept !== undefined && isUsable(kept, asset, from, through)) {
      const cells = await broughtForward(reader, kept, asset, { finder, through, pos });
      if (cells !== null) {
        this.#keep({ ...kept, cells, bound, pos });
        return cells.slice();
      }
    }
    const cells = new Uint8Array(through - from);
    const map = { assetKey, specHash, bound, removed, from, pos, cells };
    const bounds = await boundsOfStretch(asset.definition, asset.ask, from, through);
    await scanCells(reader, map, finder, bounds);
    this.#keep(map);
    return map.cells.slice();
  }

  #keep(map: KeptMap): void {
    this.#maps.delete(map.assetKey);
    this.#maps.set(map.assetKey, map);
    const [oldest] = this.#maps.keys();
    if (this.#maps.size > MAPS_KEPT && oldest !== undefined) this.#maps.delete(oldest);
  }
}

/** Whether the kept cells are the first of those asked for, each under the ordinal it has now. */
function isUsable(kept: KeptMap, asset: MappedAsset, from: number, through: number): boolean {
  const [, ...radices] = boundOf(asset.keyspace);
  return (
    kept.specHash === asset.specHash &&
    kept.removed === JSON.stringify(removedIn(asset.keyspace)) &&
    kept.from === from &&
    kept.from + kept.cells.length <= through &&
    radices.every((radix, at) => radix === kept.bound[at + 1])
  );
}

async function loadStretch(
  reader: Reader,
  map: Cells,
  asset: MappedAsset,
  from: number,
  through: number,
): Promise<void> {
  const keys = await asset.ask((keyspace) => keyspace.slice(from, through - from));
  const ordinals = keys.map((_, at) => from + at);
  await loadCells(reader, map, keys, ordinals);
}

type Target = { finder: OrdinalFinder; through: number; pos: number };

/** What kept cells are at the target, themselves left as they are; null when reading anew costs less. */
async function broughtForward(
  reader: Reader,
  kept: KeptMap,
  asset: MappedAsset,
  { finder, through, pos }: Target,
): Promise<Uint8Array | null> {
  const { assetKey, from } = kept;
  const before = from + kept.cells.length;
  if (pos - kept.pos > POSITIONS_MAX || through - before > LOOKED_UP_MAX) return null;
  const changed = await changedKeys(reader, assetKey, kept.pos, pos);
  if (changed === null) return null;
  const map = { assetKey, from, cells: new Uint8Array(through - from) };
  map.cells.set(kept.cells);
  // What is new in the keyspace may have a row all the same, of an earlier definition.
  if (through > before) await loadStretch(reader, map, asset, before, through);
  await loadCells(reader, map, changed, await finder.find(changed));
  return map.cells;
}

/** The only events that change what is known of partitions. */
const CHANGING = ["TasksFinished", "TaskLeaseExpired", "PartitionsReported", "PartitionsForgotten"];

type ChangedPartitions = { asset_key: string; partition_keys: readonly string[] };

/** The partitions that an event changed. */
function changedBy(event: RecordedEvent): readonly ChangedPartitions[] {
  const { type, data } = event;
  if (type === "PartitionsForgotten") return [JSON.parse(data) as EventData<typeof type>];
  if (type !== "PartitionsReported") return resultsOf(event);
  const { asset_key, items } = JSON.parse(data) as EventData<typeof type>;
  return items.map(({ partition_keys }) => ({ asset_key, partition_keys }));
}

/** The keys of the asset whose rows may have changed; null when they are too many. */
async function changedKeys(
  reader: Reader,
  assetKey: string,
  after: number,
  through: number,
): Promise<string[] | null> {
  const changed = new Set<string>();
  for (let at = after; at < through; at += POSITIONS_AT_ONCE) {
    const end = Math.min(through, at + POSITIONS_AT_ONCE);
    const events = await reader.events({
      after: at,
      through: end,
      types: CHANGING,
      limit: POSITIONS_AT_ONCE,
    });
    for (const { asset_key, partition_keys } of events.flatMap(changedBy)) {
      if (asset_key !== assetKey) continue;
      for (const key of partition_keys) changed.add(key);
    }
    if (changed.size > CHANGES_MAX) return null;
    await turnOfOthers();
  }
  return [...changed];
}
