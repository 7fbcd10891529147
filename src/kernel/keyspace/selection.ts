import { PawlError } from "../errors.ts";
import {
  countIntervals,
  expandIntervals,
  type Interval,
  intervalsOf,
  intervalsContain,
} from "../intervals.ts";
import type { Keyspace, Partitioned } from "./keyspace.ts";
import { isSameGrid } from "./definition.ts";
import { assert, present } from "../assert.ts";

/** The most keys that are looked up when two definitions number them differently. */
const KEYS_COMPARED_MAX = 1_000_000;

const PAGE_SIZE = 10_000;

/**
 * The ordinals in `to` of the keys that the intervals hold in `from`; keys that `to` lacks are left
 * out. Arithmetic where the definitions differ in their bounds only; else SELECTION_TOO_LARGE is
 * thrown beyond a million keys.
 */
export function sameKeys(
  from: Partitioned,
  to: Partitioned,
  intervals: readonly Interval[],
): Interval[] {
  const { definition } = from;
  if (definition.type !== "multi" && to.definition.type !== "multi") {
    if (isSameGrid(definition, to.definition))
      return shifted(from.keyspace, to.keyspace, intervals);
  }
  const count = countIntervals(intervals);
  if (count > KEYS_COMPARED_MAX) {
    throw new PawlError(
      "SELECTION_TOO_LARGE",
      `${count} partitions would have to be looked up one by one, more than ` +
        `${KEYS_COMPARED_MAX}; select fewer.`,
      { details: { partition_count: count } },
    );
  }
  const ordinals: number[] = [];
  const all = expandIntervals(intervals);
  for (let offset = 0; offset < count; offset += PAGE_SIZE) {
    const keys = from.keyspace.keysAt(all.slice(offset, offset + PAGE_SIZE));
    for (const ordinal of to.keyspace.indexesOf(keys)) {
      if (ordinal !== null) ordinals.push(ordinal);
    }
  }
  return intervalsOf(ordinals.toSorted((one, other) => one - other));
}

function shifted(from: Keyspace, to: Keyspace, intervals: readonly Interval[]): Interval[] {
  const shift = shiftBetween(from, to);
  if (shift === null) return [];
  const moved: Interval[] = [];
  for (const [first, last] of intervals) {
    const start = Math.max(0, first + shift);
    let end = Math.min(to.count - 1, last + shift);
    // The last range of integers may be cut off in one of the two, and then is another key.
    if (end >= start && to.keyAt(end) !== from.keyAt(end - shift)) end--;
    if (start <= end) moved.push([start, end]);
  }
  return moved;
}

/** What to add to an ordinal, from the first key of one side that the other side has too. */
function shiftBetween(from: Keyspace, to: Keyspace): number | null {
  if (from.count === 0 || to.count === 0) return null;
  const firstInTo = to.indexOf(from.keyAt(0));
  if (firstInTo !== null) return firstInTo;
  const firstInFrom = from.indexOf(to.keyAt(0));
  return firstInFrom === null ? null : -firstInFrom;
}

/** Some partitions of a keyspace, ascending by ordinal and addressed by arithmetic. */
export interface Selection {
  readonly count: number;
  /**
   * The selected ordinals of each dimension, when the selection is all their combinations; one list
   * for a keyspace of one dimension. Null when it is not, and then `intervals` is not null.
   */
  readonly product: readonly (readonly Interval[])[] | null;
  /** The selected ordinals as intervals, where they are few enough to be held. */
  readonly intervals: readonly Interval[] | null;
  /** The ordinal that has this many selected ones before it. */
  ordinalAt(index: number): number;
  /** The selected ordinals from the one at `offset` on, at most `limit`. */
  ordinals(offset: number, limit: number): number[];
  contains(ordinal: number): boolean;
}

/** The selection of these ordinals of a keyspace of one dimension. */
export function selectionOfIntervals(intervals: readonly Interval[]): Selection {
  return { ...runsOf(intervals), product: [intervals], intervals };
}

/** The selection of these ordinals of a keyspace of several dimensions. */
export function selectionOfScattered(intervals: readonly Interval[]): Selection {
  return { ...runsOf(intervals), product: null, intervals };
}

/**
 * Every combination of the selected ordinals of each dimension; `bound` has the dimensions' sizes.
 */
export function selectionOfProduct(
  product: readonly (readonly Interval[])[],
  bound: readonly number[],
): Selection {
  assert(product.length === bound.length, "each dimension has a size");
  if (product.length === 1) return selectionOfIntervals(present(product[0], "there is one"));
  const runs = product.map(runsOf);
  const last = present(runs.at(-1), "there is a last dimension");
  const lastBound = present(bound.at(-1), "there is a last dimension");
  const count = runs.reduce((sofar, run) => sofar * run.count, 1);

  /** The ordinal of the first partition in the row of the last dimension that holds the index. */
  function rowStart(index: number): number {
    let rest = Math.floor(index / last.count);
    const digits = runs.map(() => 0);
    for (let at = runs.length - 2; at >= 0; at--) {
      const run = present(runs[at], "at is within");
      const above = Math.floor(rest / run.count);
      digits[at] = run.ordinalAt(rest - above * run.count);
      rest = above;
    }
    return digits.reduce((sofar, digit, at) => sofar * (bound[at] ?? 0) + digit, 0);
  }

  return {
    count,
    product,
    intervals: null,
    ordinalAt: (index) => rowStart(index) + last.ordinalAt(index % last.count),
    ordinals(offset, limit) {
      const until = Math.min(count, offset + limit);
      const values: number[] = [];
      const row = until - offset > last.count ? last.ordinals(0, last.count) : null;
      for (let at = offset; at < until; ) {
        const from = at % last.count;
        const size = Math.min(last.count - from, until - at);
        const start = rowStart(at);
        const digits = row ?? last.ordinals(from, size);
        const first = row === null ? 0 : from;
        for (let next = first; next < first + size; next++)
          values.push(start + (digits[next] ?? 0));
        at += size;
      }
      return values;
    },
    contains(ordinal) {
      let rest = ordinal;
      for (let at = runs.length - 1; at >= 0; at--) {
        const radix = at === runs.length - 1 ? lastBound : (bound[at] ?? 1);
        const above = Math.floor(rest / radix);
        if (!present(runs[at], "at is within").contains(rest - above * radix)) return false;
        rest = above;
      }
      return rest === 0;
    },
  };
}

type Runs = Pick<Selection, "count" | "ordinalAt" | "ordinals" | "contains">;

/** Intervals with the number of ordinals before each, so that any index is found by halving. */
function runsOf(intervals: readonly Interval[]): Runs {
  const before: number[] = [];
  let sofar = 0;
  for (const [from, to] of intervals) {
    before.push(sofar);
    sofar += to - from + 1;
  }
  const count = countIntervals(intervals);

  function intervalHolding(index: number): number {
    assert(index >= 0 && index < count, `index ${index} is within ${count} selected partitions`);
    let low = 0;
    let high = intervals.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((before[middle] ?? 0) <= index) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  return {
    count,
    ordinalAt(index) {
      const at = intervalHolding(index);
      return present(intervals[at], "at is within")[0] + index - (before[at] ?? 0);
    },
    ordinals(offset, limit) {
      const size = Math.max(0, Math.min(limit, count - offset));
      const values: number[] = [];
      let filled = 0;
      for (let at = size > 0 ? intervalHolding(offset) : 0; filled < size; at++) {
        const [from, to] = present(intervals[at], "at is within");
        const first = filled === 0 ? from + offset - (before[at] ?? 0) : from;
        for (let value = first; value <= to && filled < size; value++) {
          values.push(value);
          filled++;
        }
      }
      return values;
    },
    contains: (ordinal) => intervalsContain(intervals, ordinal),
  };
}
