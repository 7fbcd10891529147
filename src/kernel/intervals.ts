import { assert, present } from "./errors.ts";

/** Consecutive integers from the first to the last, both included. */
export type Interval = readonly [from: number, to: number];

/**
 * The shortest list of intervals that holds exactly these integers, which must ascend; repeats
 * count once. Every list of intervals here is like that: ascending, disjoint and never touching.
 */
export function intervalsOf(ascending: readonly number[]): Interval[] {
  const intervals: Interval[] = [];
  let from: number | null = null;
  let to = 0;
  for (const value of ascending) {
    if (from === null) {
      from = value;
    } else if (value > to + 1) {
      intervals.push([from, to]);
      from = value;
    } else {
      assert(value >= to, "the integers ascend");
    }
    to = value;
  }
  if (from !== null) intervals.push([from, to]);
  return intervals;
}

/** How many integers the intervals hold. */
export function countIntervals(intervals: readonly Interval[]): number {
  let count = 0;
  for (const [from, to] of intervals) count += to - from + 1;
  return count;
}

/** The integers of the intervals, from the one at `offset` on, at most `limit`. */
export function expandIntervals(
  intervals: readonly Interval[],
  offset = 0,
  limit: number = Number.MAX_SAFE_INTEGER,
): number[] {
  const values: number[] = [];
  let skip = offset;
  for (const [from, to] of intervals) {
    const size = to - from + 1;
    if (skip >= size) {
      skip -= size;
      continue;
    }
    for (let value = from + skip; value <= to; value++) {
      if (values.length >= limit) return values;
      values.push(value);
    }
    skip = 0;
  }
  return values;
}

/** Whether one of the intervals holds the integer. */
export function intervalsContain(intervals: readonly Interval[], value: number): boolean {
  let low = 0;
  let high = intervals.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (present(intervals[middle], "the middle is within")[1] < value) low = middle + 1;
    else high = middle;
  }
  const found = intervals[low];
  return found !== undefined && found[0] <= value;
}

/** Any intervals, in whatever order and overlapping or not, as the shortest list. */
export function mergeIntervals(intervals: readonly Interval[]): Interval[] {
  const sorted = intervals.toSorted((one, other) => one[0] - other[0]);
  const merged: Interval[] = [];
  for (const [from, to] of sorted) {
    const last = merged.at(-1);
    if (last !== undefined && from <= last[1] + 1) {
      merged[merged.length - 1] = [last[0], Math.max(last[1], to)];
    } else {
      merged.push([from, to]);
    }
  }
  return merged;
}

/** What either list holds. */
export function uniteIntervals(one: readonly Interval[], other: readonly Interval[]): Interval[] {
  return mergeIntervals([...one, ...other]);
}

/** What both lists hold. */
export function intersectIntervals(
  one: readonly Interval[],
  other: readonly Interval[],
): Interval[] {
  const both: Interval[] = [];
  let atOne = 0;
  let atOther = 0;
  for (;;) {
    const left = one[atOne];
    const right = other[atOther];
    if (left === undefined || right === undefined) return both;
    const from = Math.max(left[0], right[0]);
    const to = Math.min(left[1], right[1]);
    if (from <= to) both.push([from, to]);
    if (left[1] < right[1]) atOne++;
    else atOther++;
  }
}

/** What the first list holds and the second does not. */
export function subtractIntervals(
  from: readonly Interval[],
  taken: readonly Interval[],
): Interval[] {
  const left: Interval[] = [];
  let at = 0;
  for (const [start, end] of from) {
    let next = start;
    while (at < taken.length && present(taken[at], "at is within")[1] < start) at++;
    for (let ahead = at; ahead < taken.length; ahead++) {
      const [takenFrom, takenTo] = present(taken[ahead], "ahead is within");
      if (takenFrom > end) break;
      if (takenFrom > next) left.push([next, takenFrom - 1]);
      next = Math.max(next, takenTo + 1);
    }
    if (next <= end) left.push([next, end]);
  }
  return left;
}

/** Cells as one list of value, length, value, length …: neighbours that are alike stand as one. */
export function runLengths(cells: Uint8Array): number[] {
  const lengths: number[] = [];
  let start = 0;
  for (let at = 1; at <= cells.length; at++) {
    if (at < cells.length && cells[at] === cells[start]) continue;
    lengths.push(cells[start] ?? 0, at - start);
    start = at;
  }
  return lengths;
}
