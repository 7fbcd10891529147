import { assert, PawlError, present } from "../errors.ts";
import {
  countIntervals,
  expandIntervals,
  type Interval,
  intersectIntervals,
  intervalsContain,
  intervalsOf,
  subtractIntervals,
} from "../intervals.ts";
import { dimensionsOf, isSameDefinition, isSameGrid } from "./definition.ts";
import {
  boundOf,
  type Keyspace,
  numberAt,
  ordinalFrom,
  type Partitioned,
  removedIn,
} from "./keyspace.ts";

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
    if (isSameGrid(definition, to.definition) && isSameRemoved(from.keyspace, to.keyspace))
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

/** Whether the same keys were removed in both, so that ordinals leave the same numbers out. */
function isSameRemoved(one: Keyspace, other: Keyspace): boolean {
  return JSON.stringify(removedIn(one)) === JSON.stringify(removedIn(other));
}

/** The numbers of the keys at some ordinals: the same in every keyspace of a definition. */
function numbersOf({ removed }: Keyspace, intervals: readonly Interval[]): readonly Interval[] {
  if (removed.length === 0) return intervals;
  const numbers = intervals.map(([from, to]): Interval => {
    return [numberAt(removed, from), numberAt(removed, to)];
  });
  return subtractIntervals(numbers, removed);
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

/** What one backfill works on; null for an asset without partitions. */
export type SelectedPartitions = (Partitioned & { selection: Selection }) | null;

/**
 * The most keys that are looked up before two selections are simply taken to overlap.
 */
const OVERLAP_KEYS_MAX = 10_000;

/**
 * Whether two selections of the same asset may have a partition in common. Each may be pinned to
 * another definition or another count of keys. Says yes when unsure, and never no when there is
 * one.
 */
export function selectionsOverlap(one: SelectedPartitions, other: SelectedPartitions): boolean {
  if (one === null || other === null) return true;
  const scattered = one.selection.product === null || other.selection.product === null;
  return scattered ? scatteredOverlap(one, other) : productsOverlap(one, other);
}

function scatteredOverlap(
  one: NonNullable<SelectedPartitions>,
  other: NonNullable<SelectedPartitions>,
): boolean {
  const left = one.selection.intervals;
  const right = other.selection.intervals;
  const isSame = isSameDefinition(one.definition, other.definition);
  // Of one dimension, a key keeps its number for ever; of several, a longer one moves all ordinals.
  const sameNumbers =
    isSame &&
    (one.definition.type !== "multi" ||
      (String(boundOf(one.keyspace)) === String(boundOf(other.keyspace)) &&
        isSameRemoved(one.keyspace, other.keyspace)));
  if (sameNumbers && left !== null && right !== null) {
    const [numbers, others] = [numbersOf(one.keyspace, left), numbersOf(other.keyspace, right)];
    return intersectIntervals(numbers, others).length > 0;
  }
  const [few, many] = one.selection.count <= other.selection.count ? [one, other] : [other, one];
  if (few.selection.count > OVERLAP_KEYS_MAX) return true;
  const ordinals = few.selection.ordinals(0, few.selection.count);
  const found = isSame
    ? ordinals.map((ordinal) => sameOrdinal(few.keyspace, many.keyspace, ordinal))
    : many.keyspace.indexesOf(few.keyspace.keysAt(ordinals));
  return found.some((ordinal) => ordinal !== null && many.selection.contains(ordinal));
}

/**
 * Where the partition at an ordinal stands among more or fewer of the same definition, or null. By
 * arithmetic: within a dimension a key keeps its number, so that no key has to be looked up.
 */
function sameOrdinal(from: Keyspace, to: Keyspace, ordinal: number): number | null {
  const bound = boundOf(to);
  let rest = ordinal;
  let moved = 0;
  let weight = 1;
  for (const [at, size] of [...boundOf(from).entries()].toReversed()) {
    const above = Math.floor(rest / size);
    const { removed } = keyspaceAt(to, at);
    const number = numberAt(keyspaceAt(from, at).removed, rest - above * size);
    const digit = ordinalFrom(removed, number);
    if (digit >= (bound[at] ?? 0) || intervalsContain(removed, number)) return null;
    moved += digit * weight;
    weight *= bound[at] ?? 0;
    rest = above;
  }
  return moved;
}

/** Products have a partition in common exactly when they share a value in every dimension. */
function productsOverlap(
  one: NonNullable<SelectedPartitions>,
  other: NonNullable<SelectedPartitions>,
): boolean {
  const left = dimensionsOf(one.definition);
  const right = dimensionsOf(other.definition);
  if (left.length !== right.length) return true;
  return left.every(({ name, definition }, at) => {
    const match = right[at];
    if (match === undefined || match.name !== name) return true;
    return dimensionsOverlap(
      { definition, keyspace: keyspaceAt(one.keyspace, at) },
      one.selection.product?.[at] ?? [],
      { definition: match.definition, keyspace: keyspaceAt(other.keyspace, at) },
      other.selection.product?.[at] ?? [],
    );
  });
}

function keyspaceAt(keyspace: Keyspace, at: number): Keyspace {
  return present(keyspace.dimensions[at], "at is one of the dimensions").keyspace;
}

function dimensionsOverlap(
  one: Partitioned,
  left: readonly Interval[],
  other: Partitioned,
  right: readonly Interval[],
): boolean {
  if (isSameDefinition(one.definition, other.definition)) {
    const [numbers, others] = [numbersOf(one.keyspace, left), numbersOf(other.keyspace, right)];
    return intersectIntervals(numbers, others).length > 0;
  }
  const sameGrid =
    one.definition.type !== "multi" &&
    other.definition.type !== "multi" &&
    isSameGrid(one.definition, other.definition);
  if (sameGrid) return intersectIntervals(sameKeys(one, other, left), right).length > 0;
  if (countIntervals(left) > countIntervals(right)) return keysMeet(other, right, one, left);
  return keysMeet(one, left, other, right);
}

function keysMeet(
  few: Partitioned,
  fewIntervals: readonly Interval[],
  many: Partitioned,
  manyIntervals: readonly Interval[],
): boolean {
  if (countIntervals(fewIntervals) > OVERLAP_KEYS_MAX) return true;
  const keys = few.keyspace.keysAt(expandIntervals(fewIntervals));
  return many.keyspace
    .indexesOf(keys)
    .some((found) => found !== null && intervalsContain(manyIntervals, found));
}
