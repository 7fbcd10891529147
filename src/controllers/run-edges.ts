import { present } from "../core/assert.ts";
import { PawlError } from "../core/errors.ts";
import type { RunAssetField } from "../core/events/run-events.ts";
import { countIntervals } from "../core/intervals.ts";
import { boundOf, type Keyspace } from "../core/partitions/keyspace.ts";
import { isOneToOne } from "../core/partitions/mapping-fault.ts";
import { isSameDefinition } from "../core/partitions/partition-definition.ts";
import { valuesOfMultiKey } from "../core/partitions/multi-key.ts";
import type { PartitionMapping } from "../core/partitions/partition-mapping.ts";
import { upstreamOrdinals } from "../core/partitions/upstream-ordinals.ts";
import type { PinnedAsset } from "./asset-lookup.ts";
import type { RunPartitions } from "./request-run.ts";

/** Most edges across partitions between the tasks of one run: each stands in two task rows. */
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
