import { assert, PawlError, present } from "../errors.ts";
import { epochMsOf, type Instant, instantOf } from "../instant.ts";
import { countIntervals, type Interval, intervalsContain } from "../intervals.ts";
import {
  dimensionsOf,
  isTimeDefinition,
  ONE_DIMENSION,
  type PartitionDefinition,
  type SingleDefinition,
} from "./definition.ts";
import {
  type Dimension,
  type DynamicKeys,
  type Keyspace,
  numberAt,
  ordinalFrom,
  type TimeAxis,
} from "./keyspace.ts";
import { type TimeGrid, timeGridOf } from "./time-grid.ts";

type Keys = Pick<Keyspace, "keyAt" | "indexOf" | "slice"> &
  Partial<Pick<Keyspace, "keysAt" | "indexesOf">>;

/** The first `count` partitions of a definition in one dimension; of a dynamic one without those removed. */
export function singleKeyspace(
  definition: SingleDefinition,
  dynamicKeys: DynamicKeys,
  count: number,
  removed: readonly Interval[] = [],
): Keyspace {
  if (isTimeDefinition(definition)) {
    const grid = timeGridOf(definition);
    return oneDimension(count, grid, grid);
  }
  switch (definition.type) {
    case "static":
      return oneDimension(count, staticKeys(definition.keys), null);
    case "dynamic":
      return oneDimension(count, keysAdded(definition.name, dynamicKeys, removed), null, removed);
    default:
      return oneDimension(count, integerKeys(definition), null);
  }
}

/** How many partitions a definition in one dimension has at the instant. */
export function countPartitions(
  definition: SingleDefinition,
  dynamicKeys: DynamicKeys,
  nowMs: number,
): number {
  if (isTimeDefinition(definition)) {
    const grid: TimeGrid = timeGridOf(definition);
    const untilMs = definition.end === undefined ? nowMs : grid.msOf(definition.end);
    // The partition that holds the last moment is not wholly over and does not exist yet.
    return Math.max(0, grid.ordinalAt(untilMs));
  }
  switch (definition.type) {
    case "static":
      return definition.keys.length;
    case "dynamic":
      return (
        dynamicKeys.count(definition.name) - countIntervals(removedNow(definition, dynamicKeys))
      );
    default:
      return Math.max(0, Math.ceil((integersEnd(definition) - definition.start) / definition.size));
  }
}

/** The numbers of dynamic keys that are removed now. */
function removedNow(definition: SingleDefinition, dynamicKeys: DynamicKeys): readonly Interval[] {
  return definition.type === "dynamic" ? (dynamicKeys.removed?.(definition.name) ?? []) : [];
}

/** Bounds keys to the first `count` and adds what every keyspace of one dimension has. */
function oneDimension(
  count: number,
  keys: Keys,
  time: TimeAxis | null,
  removed: readonly Interval[] = [],
): Keyspace {
  assert(Number.isSafeInteger(count) && count >= 0, "a count is a natural number");
  const check = (ordinal: number): void =>
    assert(
      ordinal >= 0 && ordinal < count,
      () => `ordinal ${ordinal} is within ${count} partitions`,
    );
  const keyAt = (ordinal: number): string => {
    check(ordinal);
    return keys.keyAt(ordinal);
  };
  const within = (ordinal: number | null): number | null =>
    ordinal !== null && ordinal >= 0 && ordinal < count ? ordinal : null;
  const keyspace: Keyspace = {
    count,
    time,
    removed,
    get dimensions() {
      return [{ name: ONE_DIMENSION, keyspace }];
    },
    keyAt,
    keysAt(ordinals) {
      for (const ordinal of ordinals) check(ordinal);
      return keys.keysAt?.(ordinals) ?? ordinals.map((ordinal) => keys.keyAt(ordinal));
    },
    indexOf: (key) => within(keys.indexOf(key)),
    indexesOf(many) {
      return (keys.indexesOf?.(many) ?? many.map((key) => keys.indexOf(key))).map(within);
    },
    slice(offset, limit) {
      assert(offset >= 0, "an offset is a natural number");
      return keys.slice(offset, Math.max(0, Math.min(limit, count - offset)));
    },
    valuesAt: (ordinal) => ({ [ONE_DIMENSION]: keyAt(ordinal) }),
    windowAt(ordinal) {
      if (time === null) return null;
      return {
        start: instantOf(time.startMsAt(ordinal)),
        end: instantOf(time.startMsAt(ordinal + 1)),
      };
    },
  };
  return keyspace;
}

function staticKeys(keys: readonly string[]): Keys {
  let ordinals: Map<string, number> | null = null;
  return {
    keyAt: (ordinal) => present(keys[ordinal], "the ordinal is within the list"),
    indexOf(key) {
      ordinals ??= new Map(keys.map((each, ordinal) => [each, ordinal]));
      return ordinals.get(key) ?? null;
    },
    slice: (offset, limit) => keys.slice(offset, offset + limit),
  };
}

/** The keys that are left of those that were added: their ordinals have no holes. */
function keysAdded(name: string, dynamicKeys: DynamicKeys, removed: readonly Interval[]): Keys {
  const left = (number: number | null): number | null =>
    number === null || intervalsContain(removed, number) ? null : ordinalFrom(removed, number);
  const indexOf = (key: string): number | null => left(dynamicKeys.indexOf(name, key));
  const keyAt = (ordinal: number): string => dynamicKeys.keyAt(name, numberAt(removed, ordinal));
  const keysAt = (ordinals: readonly number[]): string[] => {
    const numbers = ordinals.map((ordinal) => numberAt(removed, ordinal));
    if (numbers.length > 0) dynamicKeys.prefetch?.(name, numbers);
    return numbers.map((number) => dynamicKeys.keyAt(name, number));
  };
  return {
    keyAt,
    keysAt,
    indexOf,
    indexesOf: (keys) => dynamicKeys.indexesOf?.(name, keys).map(left) ?? keys.map(indexOf),
    slice: (offset, limit) => keysAt(Array.from({ length: limit }, (_, at) => offset + at)),
  };
}

type Integers = Extract<SingleDefinition, { type: "integers" }>;

/** The first integer left out; without an end, as far as integers are exact. */
function integersEnd({ start, end }: Integers): number {
  return end ?? Number.MAX_SAFE_INTEGER + Math.min(start, 0);
}

/** Ranges of integers, the last one cut off at the end so that none is left out. */
function integerKeys(definition: Integers): Keys {
  const { start, size } = definition;
  const last = integersEnd(definition) - 1;
  const keyAt = (ordinal: number): string => {
    const from = start + ordinal * size;
    return size === 1 ? String(from) : `${from}-${Math.min(from + size - 1, last)}`;
  };
  return {
    keyAt,
    indexOf(key) {
      const from = /^(-?\d{1,16})(?:-(-?\d{1,16}))?$/.exec(key)?.[1];
      if (from === undefined) return null;
      const ordinal = (Number(from) - start) / size;
      return Number.isSafeInteger(ordinal) && keyAt(ordinal) === key ? ordinal : null;
    },
    slice(offset, limit) {
      const keys: string[] = [];
      for (let at = 0; at < limit; at++) keys.push(keyAt(offset + at));
      return keys;
    },
  };
}

/** The partitions that exist at `now`. */
export function keyspaceOf(
  definition: PartitionDefinition,
  dynamicKeys: DynamicKeys,
  now: Instant,
): Keyspace {
  const nowMs = epochMsOf(now);
  const dimensions = dimensionsOf(definition);
  const bound = dimensions.map((dimension) =>
    countPartitions(dimension.definition, dynamicKeys, nowMs),
  );
  const removed = dimensions.map((dimension) => removedNow(dimension.definition, dynamicKeys));
  return pinnedKeyspace(definition, dynamicKeys, bound, removed);
}

/**
 * The partitions that existed when `boundOf` and `removedIn` gave what was pinned, each with its
 * ordinal of then.
 */
export function pinnedKeyspace(
  definition: PartitionDefinition,
  dynamicKeys: DynamicKeys,
  bound: readonly number[],
  removed: readonly (readonly Interval[])[] | null,
): Keyspace {
  const dimensions = dimensionsOf(definition);
  assert(bound.length === dimensions.length, "a bound has one count for each dimension");
  const keyspaces = dimensions.map(({ name, definition: single }, at) => {
    const count = present(bound[at], "at is within");
    return { name, keyspace: singleKeyspace(single, dynamicKeys, count, removed?.[at]) };
  });
  if (definition.type === "multi") return multiKeyspace(keyspaces);
  return present(keyspaces[0], "one dimension has one keyspace").keyspace;
}

/** Characters that would break `dim=value,dim=value` or be lost on paper or on a command line. */
const UNSAFE = /[%,=\s\p{Cc}]/gu;

/** A value as it stands in the key of several dimensions: unsafe characters percent-encoded. */
export function encodeValue(value: string): string {
  return value.replace(UNSAFE, percentEncoded);
}

// encodeURIComponent leaves no character of UNSAFE as it is.
function percentEncoded(character: string): string {
  return encodeURIComponent(character);
}

/** The value that `encodeValue` wrote, or null when it would have written something else. */
export function decodeValue(text: string): string | null {
  if (!text.includes("%")) return encodeValue(text) === text ? text : null;
  // Only whole runs of escapes are decoded, so a bad one is found and not thrown.
  const value = text.replace(/(?:%[0-9A-F]{2})+/g, (escapes) => decodedOr(escapes, escapes));
  return encodeValue(value) === text ? value : null;
}

function decodedOr(escapes: string, otherwise: string): string {
  try {
    return decodeURIComponent(escapes);
  } catch {
    return otherwise;
  }
}

/** The key of several dimensions, whose names must be sorted. */
export function multiKeyOf(values: readonly { name: string; value: string }[]): string {
  return values.map(({ name, value }) => `${name}=${encodeValue(value)}`).join(",");
}

/** The values of exactly these dimensions in a key, in their order, or null. */
export function valuesOfMultiKey(key: string, names: readonly string[]): string[] | null {
  const parts = key.split(",");
  if (parts.length !== names.length) return null;
  const values: string[] = [];
  for (const [at, part] of parts.entries()) {
    const prefix = `${names[at]}=`;
    if (!part.startsWith(prefix)) return null;
    const value = decodeValue(part.slice(prefix.length));
    if (value === null || value === "") return null;
    values.push(value);
  }
  return values;
}

/**
 * The values by dimension in a key of two or more dimensions, or null when it is not such a key.
 */
export function decodeMultiKey(key: string): Record<string, string> | null {
  const names = key.split(",").map((part) => part.slice(0, Math.max(0, part.indexOf("="))));
  if (names.length < 2 || names.some((name, at) => name <= (names[at - 1] ?? ""))) return null;
  const values = valuesOfMultiKey(key, names);
  if (values === null) return null;
  return Object.fromEntries(names.map((name, at) => [name, values[at] ?? ""]));
}

/**
 * The ordinals of many keys of these dimensions. Keys that stand together have all but their last
 * value in common, and the last values come round again, so each is read and looked up once.
 */
export function multiOrdinals(
  dimensions: readonly Dimension[],
  keys: readonly string[],
): (number | null)[] {
  const last = present(dimensions.at(-1), "a key has a value");
  if (dimensions.length === 1) return digitsOf(last, keys);
  const heads = new Numbering();
  const tails = new Numbering();
  const places = keys.map((key) => {
    const cut = key.lastIndexOf(",");
    if (cut === -1) return null;
    return { head: heads.of(key.slice(0, cut)), tail: tails.of(key.slice(cut + 1)) };
  });
  const above = multiOrdinals(dimensions.slice(0, -1), heads.texts);
  const digits = digitsOf(last, tails.texts);
  return places.map((place) => {
    const head = place === null ? null : (above[place.head] ?? null);
    const digit = place === null ? null : (digits[place.tail] ?? null);
    return head === null || digit === null ? null : head * last.keyspace.count + digit;
  });
}

/** Texts numbered in the order they first come. */
class Numbering {
  readonly texts: string[] = [];
  readonly #numbers = new Map<string, number>();

  of(text: string): number {
    const before = this.#numbers.get(text);
    if (before !== undefined) return before;
    this.#numbers.set(text, this.texts.length);
    return this.texts.push(text) - 1;
  }
}

/** The ordinals in one dimension of values as they stand in a key: `region=us`. */
function digitsOf({ name, keyspace }: Dimension, parts: readonly string[]): (number | null)[] {
  const values = parts.map((part) => valuesOfMultiKey(part, [name])?.[0] ?? null);
  const known = values.filter((value) => value !== null);
  const ordinals = keyspace.indexesOf(known);
  let next = 0;
  return values.map((value) => (value === null ? null : (ordinals[next++] ?? null)));
}

/** The keys of every combination of the dimensions, which must be sorted by name. */
export function multiKeyspace(dimensions: readonly Dimension[]): Keyspace {
  const last = present(dimensions.at(-1), "there are two or more dimensions");
  const names = dimensions.map(({ name }) => name);
  const count = productOf(dimensions);
  const times = dimensions.filter(({ keyspace }) => keyspace.time !== null);

  function ordinalsAt(ordinal: number): number[] {
    assert(
      ordinal >= 0 && ordinal < count,
      () => `ordinal ${ordinal} is within ${count} partitions`,
    );
    const digits: number[] = [];
    let rest = ordinal;
    for (let at = dimensions.length - 1; at >= 0; at--) {
      const radix = present(dimensions[at], "at is within").keyspace.count;
      const above = Math.floor(rest / radix);
      digits[at] = rest - above * radix;
      rest = above;
    }
    return digits;
  }

  function indexOf(key: string): number | null {
    const values = valuesOfMultiKey(key, names);
    if (values === null) return null;
    let ordinal = 0;
    for (const [at, { keyspace }] of dimensions.entries()) {
      const digit = keyspace.indexOf(values[at] ?? "");
      if (digit === null) return null;
      ordinal = ordinal * keyspace.count + digit;
    }
    return ordinal;
  }

  /** All of the key but the last value: `day=2025-01-01,region=`. */
  function prefixAt(ordinal: number): string {
    const digits = ordinalsAt(ordinal);
    let text = "";
    for (let at = 0; at < dimensions.length - 1; at++) {
      const { name, keyspace } = present(dimensions[at], "at is within");
      text += `${name}=${encodeValue(keyspace.keyAt(digits[at] ?? 0))},`;
    }
    return `${text}${last.name}=`;
  }

  /** The keys of many combinations: each value of a dimension is made once. */
  function keysOf(combinations: readonly number[][]): string[] {
    const texts = dimensions.map(({ name, keyspace }, at) => {
      const ordinals = [...new Set(combinations.map((digits) => digits[at] ?? 0))];
      const values = keyspace.keysAt(ordinals);
      return new Map(
        ordinals.map((ordinal, place) => [ordinal, `${name}=${encodeValue(values[place] ?? "")}`]),
      );
    });
    return combinations.map((digits) =>
      texts.map((textOf, at) => textOf.get(digits[at] ?? 0) ?? "").join(","),
    );
  }

  return {
    count,
    dimensions,
    time: null,
    removed: [],
    keyAt(ordinal) {
      const value = last.keyspace.keyAt(ordinal % last.keyspace.count);
      return prefixAt(ordinal) + encodeValue(value);
    },
    keysAt: (ordinals) => keysOf(ordinals.map(ordinalsAt)),
    indexOf,
    indexesOf: (keys) => multiOrdinals(dimensions, keys),
    slice(offset, limit) {
      assert(offset >= 0, "an offset is a natural number");
      const until = Math.min(count, offset + limit);
      const keys: string[] = [];
      const radix = last.keyspace.count;
      // Rows shorter than the slice come round again and again, so their values are made once.
      const row = until - offset > radix ? last.keyspace.slice(0, radix).map(encodeValue) : null;
      for (let at = offset; at < until; ) {
        const from = at % radix;
        const size = Math.min(radix - from, until - at);
        const prefix = prefixAt(at);
        if (row === null) {
          for (const value of last.keyspace.slice(from, size))
            keys.push(prefix + encodeValue(value));
        } else {
          for (let next = from; next < from + size; next++) keys.push(prefix + (row[next] ?? ""));
        }
        at += size;
      }
      return keys;
    },
    valuesAt(ordinal) {
      const digits = ordinalsAt(ordinal);
      return Object.fromEntries(
        dimensions.map(({ name, keyspace }, at) => [name, keyspace.keyAt(digits[at] ?? 0)]),
      );
    },
    windowAt(ordinal) {
      const [only] = times;
      if (only === undefined || times.length > 1) return null;
      return only.keyspace.windowAt(ordinalsAt(ordinal)[dimensions.indexOf(only)] ?? 0);
    },
  };
}

function productOf(dimensions: readonly Dimension[]): number {
  const product = dimensions.reduce((sofar, { keyspace }) => sofar * keyspace.count, 1);
  if (Number.isSafeInteger(product)) return product;
  const sizes = dimensions.map(({ name, keyspace }) => `${name} ${keyspace.count}`).join(", ");
  throw new PawlError(
    "DEFINITION_INVALID",
    `The dimensions have more than 2^53 combinations (${sizes}); give the largest an end.`,
  );
}
