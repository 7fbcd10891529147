import { unreachable } from "../../kernel/errors.ts";
import {
  countIntervals,
  expandIntervals,
  type Interval,
  mergeIntervals,
} from "../../kernel/intervals.ts";
import type { Keyspace } from "../../kernel/keyspace/keyspace.ts";
import { ONE_DIMENSION } from "../../kernel/keyspace/definition.ts";
import type { PartitionMapping } from "../../kernel/keyspace/mapping.ts";
import { upstreamOrdinals } from "../../kernel/keyspace/map-partitions.ts";
import type { Rows } from "../rows.ts";
import { type Key, keyText } from "../../kernel/table.ts";
import {
  type AssetView,
  type LookedAt,
  ownReason,
  type Place,
  type Upstream,
} from "./partition-status.ts";

/** Upstream partitions that are loaded at once. */
const UPSTREAM_BATCH = 100_000;

/**
 * Looks at partitions and at all that is upstream of them, from the first on and as far as the
 * budget goes: each partition of either kind costs one. The first is looked at whatever it costs,
 * so that a list always gets on; none is ever looked at in part.
 */
export function loadUpstream(rows: Rows, places: readonly Place[], budget: number): LookedAt[] {
  const mappedOf = upstreamMapper(places);
  const taken: { place: Place; mapped: readonly Mapped[] }[] = [];
  let spent = 0;
  for (const place of places) {
    const mapped = mappedOf(place);
    spent += 1 + mapped.reduce((sum, { stretches }) => sum + countIntervals(stretches), 0);
    if (spent > budget && taken.length > 0) break;
    taken.push({ place, mapped });
  }
  // Many partitions may be made from one and the same: it is read once.
  const known = new Map<string, Key>();
  const keysOf = upstreamKeys(taken.flatMap(({ mapped }) => mapped));
  const lookedAt = taken.map(({ place, mapped }) => {
    const above = mapped.flatMap((each) => keysOf(each).map((key) => keyIn(known, key)));
    return { ...place, above };
  });
  const keys = [...known.values()];
  for (let at = 0; at < keys.length; at += UPSTREAM_BATCH) {
    rows.partitions.need(keys.slice(at, at + UPSTREAM_BATCH));
  }
  const views = new Map(lookedAt.map(({ view }) => [view, wholesOf(view)]));
  rows.assetStatus.need([...views.values()].flat().map((assetKey): Key => [assetKey]));
  return lookedAt.map((each) => ({ ...each, wholes: views.get(each.view) ?? [] }));
}

/** The same key as before, when it was there before. */
function keyIn(known: Map<string, Key>, key: Key): Key {
  const text = keyText(key);
  const before = known.get(text);
  if (before === undefined) known.set(text, key);
  return before ?? key;
}

/** Upstream partitions of one asset that a partition is made from. */
type Mapped = { upstream: Upstream; stretches: readonly Interval[] };

/** A function that says what places are made from, with few look-ups for all of them. */
function upstreamMapper(places: readonly Place[]): (place: Place) => Mapped[] {
  const isMapped = (place: Place): boolean => ownReason(place) === null && place.ordinal !== null;
  const byView = Map.groupBy(places.filter(isMapped), ({ view }) => view);
  const sides = new Map([...byView].map(([view, own]) => [view, sidesOf(view, own)]));
  return (place) => {
    const { ordinal } = place;
    if (ordinal === null || !isMapped(place)) return [];
    return (sides.get(place.view) ?? []).map(({ upstream, below, above }) => {
      return { upstream, stretches: upstreamOrdinals(upstream.mapping, below, above, ordinal) };
    });
  };
}

type Sides = { upstream: Upstream; below: Keyspace; above: Keyspace };

/** Both sides of each mapping, with what it asks about the places known. */
function sidesOf({ keyspace, upstream: every }: AssetView, places: readonly Place[]): Sides[] {
  if (keyspace === null) return [];
  const keyOf = new Map(places.map(({ ordinal, key }) => [ordinal, key]));
  const below = {
    ...keyspace,
    keyAt: (ordinal: number) => keyOf.get(ordinal) ?? keyspace.keyAt(ordinal),
  };
  return every.flatMap((upstream): Sides[] => {
    if (upstream.keyspace === null) return [];
    return [
      { upstream, below, above: aboveOf(upstream.keyspace, upstream.mapping, below, places) },
    ];
  });
}

/** The upstream keyspace with the ordinals of all keys and values that a mapping will ask for. */
function aboveOf(
  above: Keyspace,
  mapping: PartitionMapping,
  below: Keyspace,
  places: readonly Place[],
): Keyspace {
  switch (mapping.type) {
    case "all":
    case "time_window":
      return above;
    case "identity":
    case "offset":
      return withOrdinals(
        above,
        places.map(({ key }) => key),
      );
    case "table":
      return withOrdinals(
        above,
        places.flatMap(({ key }) => mapping.map[key] ?? []),
      );
    case "dimension": {
      const values = valuesIn(below, mapping.dimension, places);
      if (above.dimensions.length === 1) return withOrdinals(above, values);
      const dimensions = above.dimensions.map(({ name, keyspace }) => {
        const isMeant = name === mapping.dimension;
        return { name, keyspace: isMeant ? withOrdinals(keyspace, values) : keyspace };
      });
      return { ...above, dimensions };
    }
    default:
      return unreachable(mapping);
  }
}

/** The values of places in one dimension. */
function valuesIn(keyspace: Keyspace, dimension: string, places: readonly Place[]): string[] {
  const ordinals = places.map(({ ordinal }) => ordinal ?? 0);
  // Has the values of all dimensions loaded at once.
  keyspace.keysAt(ordinals);
  return ordinals.flatMap((ordinal) => {
    const values = keyspace.valuesAt(ordinal);
    return values[dimension] ?? values[ONE_DIMENSION] ?? [];
  });
}

/** The keyspace with the ordinals of some keys looked up at once. */
function withOrdinals(keyspace: Keyspace, keys: readonly string[]): Keyspace {
  const distinct = [...new Set(keys)];
  const ordinals = keyspace.indexesOf(distinct);
  const ordinalOf = new Map(distinct.map((key, at) => [key, ordinals[at] ?? null]));
  const indexOf = (key: string): number | null => {
    const known = ordinalOf.get(key);
    return known === undefined ? keyspace.indexOf(key) : known;
  };
  return { ...keyspace, indexOf };
}

/** A function that says which rows the stretches stand for, with one look-up for each upstream. */
function upstreamKeys(all: readonly Mapped[]): (mapped: Mapped) => Key[] {
  const byUpstream = Map.groupBy(all, ({ upstream }) => upstream);
  const known = new Map(
    [...byUpstream].map(([upstream, mapped]) => {
      const stretches = mergeIntervals(mapped.flatMap(({ stretches: own }) => own));
      const ordinals = expandIntervals(stretches);
      const keys = upstream.keyspace?.keysAt(ordinals) ?? [];
      return [upstream, new Map(ordinals.map((ordinal, at) => [ordinal, keys[at] ?? ""]))];
    }),
  );
  return ({ upstream, stretches }) =>
    expandIntervals(stretches).map((ordinal): Key => {
      return [upstream.asset_key, known.get(upstream)?.get(ordinal) ?? ""];
    });
}

/** The assets of which each partition is made from everything. */
function wholesOf({ upstream }: AssetView): string[] {
  return upstream.flatMap(({ asset_key, keyspace }) => (keyspace === null ? [asset_key] : []));
}
