import { assert, present } from "../assert.ts";
import { countIntervals, type Interval, intervalsContain } from "../intervals.ts";

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
