import { PawlError } from "../errors.ts";
import { countIntervals, expandIntervals, type Interval, intervalsOf } from "../intervals.ts";
import type { Keyspace, Partitioned } from "./keyspace.ts";
import { isSameGrid } from "./partition-definition.ts";

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
