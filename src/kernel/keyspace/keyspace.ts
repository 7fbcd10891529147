import type { Instant } from "../instant.ts";
import { type Interval, intervalsContain } from "../intervals.ts";
import { type PartitionDefinition, type SingleDefinition, ONE_DIMENSION } from "./definition.ts";
import { assert, PawlError, present, unreachable } from "../errors.ts";

/** The stretch of time of a partition: `start` belongs to it, `end` does not. */
export type TimeWindow = { start: Instant; end: Instant };

/**
 * Where partitions lie in time. Ordinals may be any integer here, also outside the keyspace, so
 * that windows before the first and after the last partition can be reasoned about.
 */
export interface TimeAxis {
  /** The first millisecond of the partition; it never falls as the ordinal grows. */
  startMsAt(ordinal: number): number;
  /** The last partition that starts at or before the millisecond. */
  ordinalAt(epochMs: number): number;
}

/** One of the dimensions of a keyspace, with the keyspace of its values. */
export type Dimension = { readonly name: string; readonly keyspace: Keyspace };

/**
 * The partitions of a definition, numbered from 0 without holes and addressed by arithmetic:
 * nothing here ever lists, so a keyspace of a billion keys costs the same as one of ten.
 *
 * Several dimensions are a mixed radix over the dimensions sorted by name: the last name varies
 * fastest, so `date` × `region` goes through all regions of a day before the next day.
 */
export interface Keyspace {
  readonly count: number;
  /** Sorted by name, the last varying fastest; one dimension is its own, named `partition`. */
  readonly dimensions: readonly Dimension[];
  /** Where the partitions lie in time, for definitions by time in one dimension. */
  readonly time: TimeAxis | null;
  /** The numbers of dynamic keys that were removed and have no ordinal here; none of several dimensions. */
  readonly removed: readonly Interval[];
  keyAt(ordinal: number): string;
  /** The keys at many ordinals, scattered or not, with one look-up for each dynamic definition. */
  keysAt(ordinals: readonly number[]): string[];
  /** The ordinal of a key written exactly as `keyAt` writes it, or null. */
  indexOf(key: string): number | null;
  /** The ordinals of many keys, with one look-up for those of a dynamic definition. */
  indexesOf(keys: readonly string[]): (number | null)[];
  /** The keys from `offset` on, at most `limit`, fewer at the end. */
  slice(offset: number, limit: number): string[];
  /** The value in each dimension, decoded. */
  valuesAt(ordinal: number): Record<string, string>;
  /** The window in time; for several dimensions that of the only time dimension; else null. */
  windowAt(ordinal: number): TimeWindow | null;
}

/**
 * The keys of dynamic definitions, numbered in the order they were first added: a key has its number
 * for ever, also while it is removed. An implementation may throw to have rows loaded and the
 * calculation repeated; nothing here catches what it throws.
 */
export interface DynamicKeys {
  /** How many numbers were given out, those of removed keys included. */
  count(name: string): number;
  /** The numbers of the keys that are removed now; none when absent. */
  removed?(name: string): readonly Interval[];
  keyAt(name: string, ordinal: number): string;
  indexOf(name: string, key: string): number | null;
  /** The ordinals of many keys, looked up at once. */
  indexesOf?(name: string, keys: readonly string[]): (number | null)[];
  /** Says which keys are about to be asked for, so that they can be loaded at once. */
  prefetch?(name: string, ordinals: readonly number[]): void;
}

/** How many keys each dimension has now: what a backfill pins so that growth shifts no ordinal. */
export function boundOf(keyspace: Keyspace): number[] {
  return keyspace.dimensions.map((dimension) => dimension.keyspace.count);
}

/**
 * Which numbers of dynamic keys each dimension leaves out now, null where none does: what a backfill
 * pins besides the counts, so that removing a key, or adding it again, shifts no ordinal.
 */
export function removedIn(keyspace: Keyspace): (readonly Interval[])[] | null {
  const removed = keyspace.dimensions.map((dimension) => dimension.keyspace.removed);
  return removed.every(({ length }) => length === 0) ? null : removed;
}

/** The ordinal that a number has among those that are left; of a removed one, that of the next. */
export function ordinalFrom(removed: readonly Interval[], number: number): number {
  const at = stretchesBefore(removed, ([from]) => from < number);
  if (at === 0) return number;
  const [from, to] = present(removed[at - 1], "the stretch before is there");
  return number - (removedBefore(removed, at - 1) + Math.min(number, to + 1) - from);
}

/** The number of the key at an ordinal, among those that are left. */
export function numberAt(removed: readonly Interval[], ordinal: number): number {
  if (removed.length === 0) return ordinal;
  const at = stretchesBefore(removed, ([from], index) => {
    return from - removedBefore(removed, index) <= ordinal;
  });
  return ordinal + removedBefore(removed, at);
}

/**
 * The number that the partition at an ordinal has in each dimension: it stays the same, whatever keys
 * are added or removed.
 */
export function numbersAt({ dimensions }: Keyspace, ordinal: number): number[] {
  const numbers: number[] = [];
  let rest = ordinal;
  for (const { keyspace } of dimensions.toReversed()) {
    const above = Math.floor(rest / keyspace.count);
    numbers.unshift(numberAt(keyspace.removed, rest - above * keyspace.count));
    rest = above;
  }
  return numbers;
}

/** The ordinal of the first partition behind the one that has these numbers, whether that is still there or not. */
export function ordinalBehind({ dimensions }: Keyspace, numbers: readonly number[]): number {
  let ordinal = 0;
  let isThere = true;
  for (const [at, { keyspace }] of dimensions.entries()) {
    const { removed, count } = keyspace;
    const number = numbers[at] ?? 0;
    const digit: number = isThere ? Math.min(count, ordinalFrom(removed, number)) : 0;
    ordinal = ordinal * count + digit;
    isThere &&= digit < count && !intervalsContain(removed, number);
  }
  return isThere ? ordinal + 1 : ordinal;
}

/** How many of the stretches come before a place, of which all before it fulfil the test. */
function stretchesBefore(
  removed: readonly Interval[],
  isBefore: (stretch: Interval, index: number) => boolean,
): number {
  let low = 0;
  let high = removed.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isBefore(present(removed[middle], "the middle is within"), middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** How many numbers the stretches before each one hold, counted once for each list. */
const REMOVED_BEFORE = new WeakMap<readonly Interval[], number[]>();

function removedBefore(removed: readonly Interval[], at: number): number {
  let sums = REMOVED_BEFORE.get(removed);
  if (sums === undefined) {
    let sum = 0;
    sums = [0, ...removed.map(([from, to]) => (sum += to - from + 1))];
    REMOVED_BEFORE.set(removed, sums);
  }
  return sums[at] ?? 0;
}

/** A definition with the keyspace it has at some moment. */
export type Partitioned = { definition: PartitionDefinition; keyspace: Keyspace };

/** One dimension by name, as if it stood alone; of a keyspace of one dimension, itself. */
export function dimensionNamed(
  { definition, keyspace }: Partitioned,
  name: string,
): { definition: SingleDefinition; keyspace: Keyspace; at: number } {
  if (definition.type !== "multi") return { definition, keyspace, at: 0 };
  const at = keyspace.dimensions.findIndex((dimension) => dimension.name === name);
  const found = keyspace.dimensions[at];
  const single = definition.dimensions[name];
  assert(found !== undefined && single !== undefined, `${name} is one of the dimensions`);
  return { definition: single, keyspace: found.keyspace, at };
}

/** The error for a key that no partition has, with the keys there are and what to do. */
export function partitionInvalid(
  definition: PartitionDefinition,
  keyspace: Keyspace,
  key: string,
  dimension: string = ONE_DIMENSION,
): PawlError {
  const where = dimension === ONE_DIMENSION ? "" : ` of the dimension ${dimension}`;
  return new PawlError(
    "PARTITION_INVALID",
    `There is no partition ${JSON.stringify(key)}${where}: ${existingKeys(keyspace)}. ` +
      advice(definition, keyspace),
    {
      details: {
        partition_key: key,
        ...(dimension === ONE_DIMENSION ? {} : { dimension }),
        partition_count: keyspace.count,
        ...(keyspace.count === 0
          ? {}
          : { first_key: keyspace.keyAt(0), last_key: keyspace.keyAt(keyspace.count - 1) }),
      },
    },
  );
}

function existingKeys(keyspace: Keyspace): string {
  if (keyspace.count === 0) return "there are none yet";
  const first = keyspace.keyAt(0);
  if (keyspace.count === 1) return `the only one is ${first}`;
  const last = keyspace.keyAt(keyspace.count - 1);
  return `the ${keyspace.count} keys go from ${first} to ${last}`;
}

function advice(definition: PartitionDefinition, keyspace: Keyspace): string {
  if (definition.type !== "multi") return singleAdvice(definition);
  const form = keyspace.dimensions.map(({ name }) => `${name}=…`).join(",");
  return `Write the key as ${form}, with a value that exists in each dimension.`;
}

function singleAdvice(definition: SingleDefinition): string {
  switch (definition.type) {
    case "hourly":
    case "daily":
    case "monthly":
      return growthAdvice("Write the key exactly like these", definition.end);
    case "weekly":
      return growthAdvice(`Name a week by its ${capital(definition.starts_on)}`, definition.end);
    case "cron":
      return growthAdvice(`Name a local time of ${definition.expression}`, definition.end);
    case "static":
      return "Use a key of the definition, or add this one to it.";
    case "dynamic":
      return `Add it with \`pawl partitions add <asset> <key>\`, of an asset that has ${definition.name}.`;
    case "integers":
      return definition.size === 1
        ? "Name one integer of the range."
        : `Name a whole range of ${definition.size} integers, counted from ${definition.start}.`;
    default:
      return unreachable(definition);
  }
}

function growthAdvice(form: string, end: string | undefined): string {
  return end === undefined ? `${form}; a partition exists once its time is over.` : `${form}.`;
}

function capital(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1);
}
