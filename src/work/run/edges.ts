import { PawlError, present } from "../../kernel/errors.ts";
import type { RunAssetField } from "./events.ts";
import { countIntervals } from "../../kernel/intervals.ts";
import { boundOf, type Keyspace } from "../../kernel/keyspace/keyspace.ts";
import { isOneToOne, type PartitionMapping } from "../../kernel/keyspace/mapping.ts";
import { isSameDefinition } from "../../kernel/keyspace/definition.ts";
import { valuesOfMultiKey } from "../../kernel/keyspace/keyspace-of.ts";
import { upstreamOrdinals } from "../../kernel/keyspace/map-partitions.ts";
import type { PinnedAsset } from "../asset/look-up.ts";
import type { RunPartitions } from "./request.ts";
import { findAll, type Rows } from "../rows.ts";
import type { RunAssetRow, RunRow, TaskRow } from "./rows.ts";
import { compareText, type Condition } from "../../kernel/table.ts";
import { keysOfTask, runningTasks } from "./tasks.ts";

/** Most edges across partitions between the tasks of one run: each stands with both of them. */
export const RUN_EDGES_MAX = 200_000;

type Upstream = RunAssetField["upstream"];

/**
 * For each asset of a run, the edges from those that it depends on. Throws SELECTION_TOO_LARGE
 * before it makes more than a run may have.
 */
export function edgesOfRun(
  assets: readonly PinnedAsset[],
  partitions: RunPartitions | null,
): Upstream[] {
  const places = new Map(assets.map(({ spec }, index) => [spec.asset_key, index]));
  let own: OwnPartitions | null = null;
  let left = RUN_EDGES_MAX;
  const take = (count: number): void => {
    left -= count;
    if (left < 0) throw tooManyEdges();
  };
  return assets.map(({ spec }, index) =>
    spec.upstream.flatMap(({ asset_key, mapping }): Upstream => {
      const asset = places.get(asset_key);
      if (asset === undefined) return [];
      if (partitions === null) return [{ asset, edges: "all" }];
      const above = assets[asset]?.spec.partitions ?? null;
      // Not counted: of such edges a task has one for each upstream, and a backfill has only them.
      if (mapping.type === "identity" || isOneToOne(mapping, spec.partitions, above)) {
        return [{ asset, edges: "same" }];
      }
      if (mapping.type !== "all" && isSameDefinition(spec.partitions, above)) {
        own ??= new OwnPartitions(partitions);
        return [{ asset, edges: own.pairs(mapping, take) }];
      }
      take(tasksOf(assets, partitions, asset) * tasksOf(assets, partitions, index));
      return [{ asset, edges: "all" }];
    }),
  );
}

function tasksOf(
  assets: readonly PinnedAsset[],
  partitions: RunPartitions | null,
  index: number,
): number {
  if (partitions === null || assets[index]?.spec.batch === true) return 1;
  const indexes = partitions.indexes[index] ?? null;
  return indexes === null ? partitions.keys.length : countIntervals(indexes);
}

/** The partitions of a run, to be joined with each other. */
class OwnPartitions {
  readonly #ordinals: readonly number[];
  readonly #keyspace: Keyspace;

  constructor({ keyspace, ordinals, keys }: RunPartitions) {
    this.#ordinals = ordinals;
    const keyOf = new Map(ordinals.map((ordinal, at) => [ordinal, keys[at] ?? ""]));
    const ordinalOf = new Map(keys.map((key, at) => [key, ordinals[at] ?? 0]));
    // Only the run's own partitions matter, and their keys are here: none has to be looked up.
    const own = {
      ...keyspace,
      keyAt: (ordinal: number) => keyOf.get(ordinal) ?? keyspace.keyAt(ordinal),
      indexOf: (key: string) => ordinalOf.get(key) ?? null,
    };
    this.#keyspace = own.dimensions.length === 1 ? own : withValues(own, keyOf);
  }

  /** Pairs of places [upstream, own] that the mapping joins. */
  pairs(mapping: PartitionMapping, take: (count: number) => void): [number, number][] {
    const pairs: [number, number][] = [];
    for (const [at, ordinal] of this.#ordinals.entries()) {
      for (const [from, to] of upstreamOrdinals(mapping, this.#keyspace, this.#keyspace, ordinal)) {
        const first = this.#placeFrom(from);
        const end = this.#placeFrom(to + 1);
        take(end - first);
        for (let place = first; place < end; place++) pairs.push([place, at]);
      }
    }
    return pairs;
  }

  /** The place of the first of the run's ordinals that is not below. */
  #placeFrom(ordinal: number): number {
    let low = 0;
    let high = this.#ordinals.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#ordinals[middle] ?? 0) < ordinal) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** The keyspace of several dimensions with the values that stand in some of its keys, and their places. */
function withValues(keyspace: Keyspace, keyOf: ReadonlyMap<number, string>): Keyspace {
  const names = keyspace.dimensions.map(({ name }) => name);
  const valuesOf = new Map<number, Record<string, string>>();
  const placeOf = names.map(() => new Map<string, number>());
  const bound = boundOf(keyspace);
  for (const [ordinal, key] of keyOf) {
    const values = present(valuesOfMultiKey(key, names), "a key has a value in each dimension");
    valuesOf.set(ordinal, Object.fromEntries(names.map((name, at) => [name, values[at] ?? ""])));
    let rest = ordinal;
    for (let at = names.length - 1; at >= 0; at--) {
      const size = bound[at] ?? 1;
      const above = Math.floor(rest / size);
      placeOf[at]?.set(values[at] ?? "", rest - above * size);
      rest = above;
    }
  }
  return {
    ...keyspace,
    valuesAt: (ordinal) => valuesOf.get(ordinal) ?? keyspace.valuesAt(ordinal),
    dimensions: keyspace.dimensions.map(({ name, keyspace: one }, at) => ({
      name,
      keyspace: { ...one, indexOf: (value) => placeOf[at]?.get(value) ?? one.indexOf(value) },
    })),
  };
}

function tooManyEdges(): PawlError {
  return new PawlError(
    "SELECTION_TOO_LARGE",
    `The tasks of this run would be joined by more than ${RUN_EDGES_MAX} edges. Run fewer ` +
      "partitions at once, for a backfill with a smaller chunk size, or run the assets one " +
      "after the other.",
    { details: { edges_max: RUN_EDGES_MAX } },
  );
}

/** Runs that are looked through for holders at once; none is left out. */
const RUNS_READ = 10_000;

/** What is known of the running tasks of an asset. */
type Holders = {
  /** Assets of runs with a running task that were not looked at yet. */
  unread: RunAssetRow[];
  /** The run that holds a key: no two runs hold the same. */
  runOf: Map<string, number>;
};

/**
 * Which partitions are being materialized right now. A running task holds its partitions; that is
 * read from the task rows, so a hold cannot be leaked or forgotten. Runs whose keys lie apart are
 * told apart by their first and last key alone.
 */
export class PartitionHolders {
  readonly #rows: Rows;
  readonly #holdersOf = new Map<string, Holders>();

  constructor(rows: Rows) {
    this.#rows = rows;
  }

  /** Whether a running task of another run works on one of the task's partitions. */
  isHeld(run: RunRow, asset: RunAssetRow, task: TaskRow): boolean {
    const { runOf } = this.#holdersNear(asset);
    if (runOf.size === 0) return false;
    return keysOfTask(run, asset, task).some((key) => {
      const holder = runOf.get(key);
      // Tasks of one run never share a partition.
      return holder !== undefined && holder !== run.run_pos;
    });
  }

  /** Remembers that the task is about to start. */
  hold(run: RunRow, asset: RunAssetRow, task: TaskRow): void {
    const { runOf } = this.#holdersNear(asset);
    for (const key of keysOfTask(run, asset, task)) runOf.set(key, run.run_pos);
  }

  /** Reads who holds partitions of these assets of runs, with few look-ups however many they are. */
  need(assets: readonly RunAssetRow[]): void {
    this.#begin(assets);
    const near = new Map<string, RunAssetRow>();
    for (const asset of assets) {
      for (const other of this.#holders(asset).unread) {
        if (mayMeet(other, asset)) near.set(nameOf(other), other);
      }
    }
    if (near.size === 0) return;
    for (const task of runningTasks(this.#rows, [...near.values()])) {
      const run = present(this.#rows.runs.get(task.run_pos), "a task has its run");
      const other = present(near.get(nameOf(task)), "a task has its asset");
      const { runOf } = this.#holders(other);
      for (const key of keysOfTask(run, other, task)) runOf.set(key, task.run_pos);
    }
    for (const asset_key of new Set(assets.map((asset) => asset.asset_key))) {
      const holders = this.#holders({ asset_key });
      holders.unread = holders.unread.filter((other) => !near.has(nameOf(other)));
    }
  }

  #holders({ asset_key }: Pick<RunAssetRow, "asset_key">): Holders {
    return present(this.#holdersOf.get(asset_key), "the holders were looked up");
  }

  /** The holders of the asset's partitions, of all runs whose keys may meet those of this one. */
  #holdersNear(asset: RunAssetRow): Holders {
    this.need([asset]);
    return this.#holders(asset);
  }

  #begin(assets: readonly RunAssetRow[]): void {
    const keys = new Set(assets.map(({ asset_key }) => asset_key));
    const values = [...keys].filter((key) => !this.#holdersOf.has(key));
    if (values.length === 0) return;
    const where: Condition[] = [
      { cell: "asset_key", is: "in", values },
      { cell: "running", is: ">", value: 0 },
    ];
    const order = [{ cell: "run_pos" }, { cell: "asset_index" }];
    const found = findAll(this.#rows.runAssets, where, order, RUNS_READ);
    const unread = Map.groupBy(found, ({ asset_key }) => asset_key);
    for (const key of values) {
      this.#holdersOf.set(key, { unread: unread.get(key) ?? [], runOf: new Map() });
    }
  }
}

function nameOf({ run_pos, asset_index }: { run_pos: number; asset_index: number }): string {
  return `${run_pos}/${asset_index}`;
}

/** Tasks of one run never share a partition; runs whose keys lie apart do not either. */
function mayMeet(one: RunAssetRow, other: RunAssetRow): boolean {
  return one.run_pos !== other.run_pos && !liesApart(one, other);
}

function liesApart(one: RunAssetRow, other: RunAssetRow): boolean {
  return (
    compareText(one.last_key, other.first_key) < 0 || compareText(other.last_key, one.first_key) < 0
  );
}
