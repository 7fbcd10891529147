import { present } from "../assert.ts";
import {
  countIntervals,
  expandIntervals,
  type Interval,
  intersectIntervals,
  intervalsContain,
} from "../intervals.ts";
import { boundOf, type Keyspace, type Partitioned } from "./keyspace.ts";
import { dimensionsOf, isSameDefinition, isSameGrid } from "./definition.ts";
import { sameKeys, type Selection } from "./selection.ts";

/** What one backfill works on; null for an asset without partitions. */
export type SelectedPartitions = (Partitioned & { selection: Selection }) | null;

/**
 * The most keys that are looked up before two selections are simply taken to overlap.
 */
const KEYS_COMPARED_MAX = 10_000;

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
  // Of one dimension, keys only ever come at the end; of several, a longer one moves all ordinals.
  const sameOrdinals =
    isSame &&
    (one.definition.type !== "multi" ||
      String(boundOf(one.keyspace)) === String(boundOf(other.keyspace)));
  if (sameOrdinals && left !== null && right !== null) {
    return intersectIntervals(left, right).length > 0;
  }
  const [few, many] = one.selection.count <= other.selection.count ? [one, other] : [other, one];
  if (few.selection.count > KEYS_COMPARED_MAX) return true;
  const ordinals = few.selection.ordinals(0, few.selection.count);
  const found = isSame
    ? ordinals.map((ordinal) => sameOrdinal(few.keyspace, many.keyspace, ordinal))
    : many.keyspace.indexesOf(few.keyspace.keysAt(ordinals));
  return found.some((ordinal) => ordinal !== null && many.selection.contains(ordinal));
}

/**
 * Where the partition at an ordinal stands among more or fewer of the same definition, or null. By
 * arithmetic: within a dimension a key keeps its place, so that no key has to be looked up.
 */
function sameOrdinal(from: Keyspace, to: Keyspace, ordinal: number): number | null {
  const bound = boundOf(to);
  let rest = ordinal;
  let moved = 0;
  let weight = 1;
  for (const [at, size] of [...boundOf(from).entries()].toReversed()) {
    const above = Math.floor(rest / size);
    const digit = rest - above * size;
    if (digit >= (bound[at] ?? 0)) return null;
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
    return intersectIntervals(left, right).length > 0;
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
  if (countIntervals(fewIntervals) > KEYS_COMPARED_MAX) return true;
  const keys = few.keyspace.keysAt(expandIntervals(fewIntervals));
  return many.keyspace
    .indexesOf(keys)
    .some((found) => found !== null && intervalsContain(manyIntervals, found));
}
