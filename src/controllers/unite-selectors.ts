import { present } from "../core/assert.ts";
import {
  countIntervals,
  expandIntervals,
  type Interval,
  mergeIntervals,
} from "../core/intervals.ts";
import type { Keyspace, Partitioned } from "../core/partitions/keyspace.ts";
import { resolveSelector } from "../core/partitions/resolve-selector.ts";
import type { Selection } from "../core/partitions/selection.ts";
import { EXPLICIT_KEYS_MAX, type Pattern, type Selector } from "../core/partitions/selector.ts";

/**
 * A selector of everything that any of the selectors selects: exactly that where a range or a list
 * of keys can say it, else the least range around it, never less.
 */
export function uniteSelectors(selectors: readonly Selector[], partitions: Partitioned): Selector {
  const [only] = selectors;
  if (only !== undefined && selectors.length === 1) return only;
  if (selectors.some(({ type }) => type === "all")) return { type: "all" };
  const { definition, keyspace } = partitions;
  const selections = selectors.map((each) => resolveSelector(definition, keyspace, each));
  const single = keyspace.dimensions.length === 1;
  const united = ordinalsOf(selections);
  if (united !== null) {
    const [whole] = united;
    if (single && whole !== undefined && united.length === 1) return rangeOf(keyspace, whole);
    if (countIntervals(united) <= EXPLICIT_KEYS_MAX) {
      return { type: "explicit", partition_keys: keysOf(keyspace, united) };
    }
    if (single) return rangeOf(keyspace, covering(united));
  }
  return coveringFilter(keyspace, selections);
}

/** All that is selected, when it can be held as intervals. */
function ordinalsOf(selections: readonly Selection[]): Interval[] | null {
  const all: Interval[] = [];
  for (const selection of selections) {
    const { intervals, count } = selection;
    if (intervals === null && count > EXPLICIT_KEYS_MAX) return null;
    const own = intervals ?? selection.ordinals(0, count).map((at): Interval => [at, at]);
    for (const interval of own) all.push(interval);
  }
  return mergeIntervals(all);
}

/** In each dimension the range around all that is selected there; all where that is not known. */
function coveringFilter(keyspace: Keyspace, selections: readonly Selection[]): Selector {
  const patterns: Record<string, Pattern> = {};
  for (const [at, dimension] of keyspace.dimensions.entries()) {
    const selected: Interval[] = [];
    for (const { product } of selections) {
      if (product === null) return { type: "all" };
      for (const interval of product[at] ?? []) selected.push(interval);
    }
    const { start, end } = rangeOf(dimension.keyspace, covering(mergeIntervals(selected)));
    patterns[dimension.name] = { start, end };
  }
  return { type: "filter", dimensions: patterns };
}

function covering(intervals: readonly Interval[]): Interval {
  const first = present(intervals[0], "a selection is not empty");
  return [first[0], (intervals.at(-1) ?? first)[1]];
}

function rangeOf(keyspace: Keyspace, [from, to]: Interval) {
  return { type: "range" as const, start: keyspace.keyAt(from), end: keyspace.keyAt(to) };
}

function keysOf(keyspace: Keyspace, intervals: readonly Interval[]): string[] {
  return keyspace.keysAt(expandIntervals(intervals));
}
