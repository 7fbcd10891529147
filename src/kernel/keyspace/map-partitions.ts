import { PawlError, present, unreachable } from "../errors.ts";
import {
  countIntervals,
  expandIntervals,
  type Interval,
  intervalsOf,
  mergeIntervals,
} from "../intervals.ts";
import { isSameDefinition, ONE_DIMENSION } from "./definition.ts";
import { boundOf, dimensionNamed, type Keyspace, type Partitioned } from "./keyspace.ts";
import type { PartitionMapping } from "./mapping.ts";
import { resolveSelector } from "./resolve-selector.ts";
import { type Selection, sameKeys } from "./selection.ts";
import { EXPLICIT_KEYS_MAX, type Pattern, type Selector } from "./selector.ts";

/** The most single ordinals that are looked at to find the values they have in one dimension. */
const ORDINALS_PROJECTED_MAX = 1_000_000;

/**
 * What is selected upstream: a selector, and its selection where that is known already, which it
 * must be for a selector of an earlier backfill's partitions.
 */
export type SelectedUpstream = Partitioned & { selector: Selector; selection?: Selection };

/**
 * The downstream partitions that are made from any of the selected upstream partitions, as a
 * selector. Throws SELECTION_EMPTY where there are none and SELECTION_TOO_LARGE where no range says
 * it and they are more than an explicit selector may name.
 */
export function mapSelectionDownstream(
  mapping: PartitionMapping,
  upstream: SelectedUpstream,
  downstream: Partitioned,
): Selector {
  if (mapping.type === "all") return { type: "all" };
  if (mapping.type === "identity" && isSameDefinition(upstream.definition, downstream.definition)) {
    return upstream.selector;
  }
  const selection =
    upstream.selection ??
    resolveSelector(upstream.definition, upstream.keyspace, upstream.selector);
  switch (mapping.type) {
    case "identity":
      return sameKeysDownstream(upstream, selection, downstream);
    case "time_window": {
      const { start_offset, end_offset } = mapping;
      const moved = intervalsOfDimension(upstream.keyspace, selection, 0).flatMap((interval) =>
        windowsTouching(upstream.keyspace, downstream.keyspace, interval, start_offset, end_offset),
      );
      return selectorOfIntervals(downstream.keyspace, mergeIntervals(moved));
    }
    case "offset": {
      const moved = intervalsOfDimension(upstream.keyspace, selection, 0).flatMap(([from, to]) =>
        shiftedBack(upstream.keyspace, downstream.keyspace, from - mapping.by, to - mapping.by),
      );
      return selectorOfIntervals(downstream.keyspace, mergeIntervals(moved));
    }
    case "dimension":
      return dimensionDownstream(mapping.dimension, upstream, selection, downstream);
    case "table":
      return tableDownstream(mapping.map, upstream.keyspace, selection, downstream.keyspace);
    default:
      return unreachable(mapping);
  }
}

function sameKeysDownstream(
  upstream: Partitioned,
  selection: Selection,
  downstream: Partitioned,
): Selector {
  const { dimensions } = downstream.keyspace;
  if (dimensions.length === 1) {
    const intervals = intervalsOfDimension(upstream.keyspace, selection, 0);
    return selectorOfIntervals(downstream.keyspace, sameKeys(upstream, downstream, intervals));
  }
  if (selection.product === null) {
    const intervals = present(selection.intervals, "what is no product has intervals");
    return selectorOfKeys(downstream.keyspace, sameKeys(upstream, downstream, intervals));
  }
  const patterns = dimensions.map(({ name }): [string, Pattern] => {
    const from = dimensionNamed(upstream, name);
    const to = dimensionNamed(downstream, name);
    const intervals = intervalsOfDimension(upstream.keyspace, selection, from.at);
    return [name, patternOfIntervals(to.keyspace, sameKeys(from, to, intervals))];
  });
  return { type: "filter", dimensions: Object.fromEntries(patterns) };
}

function dimensionDownstream(
  dimension: string,
  upstream: Partitioned,
  selection: Selection,
  downstream: Partitioned,
): Selector {
  const from = dimensionNamed(upstream, dimension);
  const to = dimensionNamed(downstream, dimension);
  const intervals = sameKeys(from, to, intervalsOfDimension(upstream.keyspace, selection, from.at));
  if (downstream.definition.type !== "multi") return selectorOfIntervals(to.keyspace, intervals);
  return {
    type: "filter",
    dimensions: { [dimension]: patternOfIntervals(to.keyspace, intervals) },
  };
}

function tableDownstream(
  map: Readonly<Record<string, readonly string[]>>,
  upstream: Keyspace,
  selection: Selection,
  downstream: Keyspace,
): Selector {
  const above = [...new Set(Object.values(map).flat())];
  const found = upstream.indexesOf(above);
  const isSelected = (ordinal: number | null | undefined): boolean =>
    typeof ordinal === "number" && selection.contains(ordinal);
  const selected = new Set(above.filter((_, at) => isSelected(found[at])));
  const touched = Object.keys(map).filter((key) => map[key]?.some((each) => selected.has(each)));
  const ordinals = downstream.indexesOf(touched).filter((ordinal) => ordinal !== null);
  return selectorOfKeys(downstream, intervalsOf(ordinals.toSorted((one, other) => one - other)));
}

/**
 * The downstream windows made from any of the upstream partitions `from` to `to`. A window that
 * overlaps the upstream partitions f to l is made from f + startOffset to l + endOffset, so it is
 * touched when f ≤ to − startOffset and l ≥ from − endOffset.
 */
function windowsTouching(
  upstream: Keyspace,
  downstream: Keyspace,
  [from, to]: Interval,
  startOffset: number,
  endOffset: number,
): Interval[] {
  const source = present(upstream.time, "a time window maps times");
  const target = present(downstream.time, "a time window maps times");
  const first = target.ordinalAt(source.startMsAt(from - endOffset));
  const last = target.ordinalAt(source.startMsAt(to - startOffset + 1) - 1);
  return clipped(downstream, first, last);
}

/**
 * The downstream partitions with the keys of these upstream ordinals, which may be out of bounds.
 */
function shiftedBack(
  upstream: Keyspace,
  downstream: Keyspace,
  from: number,
  to: number,
): Interval[] {
  if (upstream.time === null || downstream.time === null) return clipped(downstream, from, to);
  const { time } = downstream;
  return clipped(
    downstream,
    time.ordinalAt(upstream.time.startMsAt(from)),
    time.ordinalAt(upstream.time.startMsAt(to)),
  );
}

function clipped({ count }: Keyspace, from: number, to: number): Interval[] {
  const first = Math.max(0, from);
  const last = Math.min(count - 1, to);
  return first <= last ? [[first, last]] : [];
}

/** The values that the selected partitions have in one dimension. */
function intervalsOfDimension(
  keyspace: Keyspace,
  selection: Selection,
  at: number,
): readonly Interval[] {
  const known = selection.product?.[at];
  if (known !== undefined) return known;
  if (keyspace.dimensions.length === 1) return selection.intervals ?? [];
  if (selection.count > ORDINALS_PROJECTED_MAX) {
    throw tooLarge(selection.count, ORDINALS_PROJECTED_MAX);
  }
  const bound = boundOf(keyspace);
  const stride = bound.slice(at + 1).reduce((sofar, size) => sofar * size, 1);
  const radix = present(bound[at], "at is one of the dimensions");
  const digits = new Set<number>();
  for (const ordinal of selection.ordinals(0, selection.count)) {
    digits.add(Math.floor(ordinal / stride) % radix);
  }
  return intervalsOf([...digits].toSorted((one, other) => one - other));
}

function selectorOfIntervals(keyspace: Keyspace, intervals: readonly Interval[]): Selector {
  const [only] = intervals;
  if (only === undefined || intervals.length > 1) return selectorOfKeys(keyspace, intervals);
  return { type: "range", start: keyspace.keyAt(only[0]), end: keyspace.keyAt(only[1]) };
}

function selectorOfKeys(keyspace: Keyspace, intervals: readonly Interval[]): Selector {
  return { type: "explicit", partition_keys: keysOf(keyspace, intervals) };
}

function patternOfIntervals(keyspace: Keyspace, intervals: readonly Interval[]): Pattern {
  const [only] = intervals;
  if (only === undefined || intervals.length > 1) return keysOf(keyspace, intervals);
  return { start: keyspace.keyAt(only[0]), end: keyspace.keyAt(only[1]) };
}

function keysOf(keyspace: Keyspace, intervals: readonly Interval[]): string[] {
  const count = countIntervals(intervals);
  if (count > EXPLICIT_KEYS_MAX) throw tooLarge(count, EXPLICIT_KEYS_MAX);
  if (count === 0) {
    throw new PawlError(
      "SELECTION_EMPTY",
      "No downstream partition that exists is made from what is selected.",
    );
  }
  return keyspace.keysAt(expandIntervals(intervals));
}

function tooLarge(count: number, maximum: number): PawlError {
  return new PawlError(
    "SELECTION_TOO_LARGE",
    `The selection means ${count} scattered downstream partitions, more than the ${maximum} that ` +
      "can be named one by one; select one range, or do it in parts.",
    { details: { partition_count: count, maximum } },
  );
}

/** The most separate stretches of upstream partitions that one partition may be made from. */
const STRETCHES_MAX = 1_000_000;

/**
 * The upstream partitions that one downstream partition is made from, as far as they exist. The
 * mapping must have passed `mappingFault`.
 */
export function upstreamOrdinals(
  mapping: PartitionMapping,
  downstream: Keyspace,
  upstream: Keyspace,
  downstreamOrdinal: number,
): Interval[] {
  switch (mapping.type) {
    case "identity":
      return single(upstream.indexOf(downstream.keyAt(downstreamOrdinal)));
    case "all":
      return within(upstream, 0, upstream.count - 1);
    case "time_window": {
      const [first, last] = timeNeighbours(downstream, upstream, downstreamOrdinal);
      return within(upstream, first + mapping.start_offset, last + mapping.end_offset);
    }
    case "offset": {
      const base = sameOrNull(downstream, upstream, downstreamOrdinal);
      return base === null ? [] : within(upstream, base + mapping.by, base + mapping.by);
    }
    case "dimension": {
      const values = downstream.valuesAt(downstreamOrdinal);
      const value = values[mapping.dimension] ?? values[ONE_DIMENSION];
      return withValue(upstream, mapping.dimension, present(value, "the value is named"));
    }
    case "table": {
      const keys = mapping.map[downstream.keyAt(downstreamOrdinal)] ?? [];
      const ordinals = keys.map((key) => upstream.indexOf(key)).filter((each) => each !== null);
      return intervalsOf(ordinals.toSorted((one, other) => one - other));
    }
    default:
      return unreachable(mapping);
  }
}

function single(ordinal: number | null): Interval[] {
  return ordinal === null ? [] : [[ordinal, ordinal]];
}

function within({ count }: Keyspace, from: number, to: number): Interval[] {
  const first = Math.max(0, from);
  const last = Math.min(count - 1, to);
  return first <= last ? [[first, last]] : [];
}

/** The first and the last upstream partition that overlap in time, bounds left aside. */
function timeNeighbours(
  downstream: Keyspace,
  upstream: Keyspace,
  ordinal: number,
): [first: number, last: number] {
  const from = present(downstream.time, "a time window maps times");
  const to = present(upstream.time, "a time window maps times");
  const startMs = from.startMsAt(ordinal);
  const endMs = from.startMsAt(ordinal + 1);
  return [to.ordinalAt(startMs), to.ordinalAt(endMs - 1)];
}

/** The ordinal upstream of the same key, also outside its bounds where times tell it. */
function sameOrNull(downstream: Keyspace, upstream: Keyspace, ordinal: number): number | null {
  if (downstream.time !== null && upstream.time !== null) {
    return upstream.time.ordinalAt(downstream.time.startMsAt(ordinal));
  }
  return upstream.indexOf(downstream.keyAt(ordinal));
}

/** The partitions with the value in the dimension: one stretch for each combination before it. */
function withValue(upstream: Keyspace, dimension: string, value: string): Interval[] {
  if (upstream.dimensions.length === 1) return single(upstream.indexOf(value));
  const at = upstream.dimensions.findIndex(({ name }) => name === dimension);
  const digit = present(upstream.dimensions[at], "it has the dimension").keyspace.indexOf(value);
  if (digit === null) return [];
  const bound = boundOf(upstream);
  const stretch = bound.slice(at + 1).reduce((sofar, size) => sofar * size, 1);
  const rows = bound.slice(0, at).reduce((sofar, size) => sofar * size, 1);
  if (stretch === 0 || rows === 0) return [];
  if (rows > STRETCHES_MAX) {
    throw new PawlError(
      "SELECTION_TOO_LARGE",
      `${dimension}=${value} stands for ${rows} separate stretches of upstream partitions, more ` +
        `than ${STRETCHES_MAX}.`,
    );
  }
  const row = stretch * present(bound[at], "it has the dimension");
  return Array.from({ length: rows }, (_, index) => {
    const from = index * row + digit * stretch;
    return [from, from + stretch - 1] as const;
  });
}
