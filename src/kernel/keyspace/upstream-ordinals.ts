import { present, unreachable } from "../assert.ts";
import { PawlError } from "../errors.ts";
import { type Interval, intervalsOf } from "../intervals.ts";
import { boundOf, type Keyspace } from "./keyspace.ts";
import { ONE_DIMENSION } from "./definition.ts";
import type { PartitionMapping } from "./mapping.ts";

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
