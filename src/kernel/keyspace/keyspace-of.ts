import { assert, present } from "../assert.ts";
import { instantOf, epochMsOf, type Instant } from "../instant.ts";
import type { DynamicKeys, Keyspace, TimeAxis } from "./keyspace.ts";
import {
  isTimeDefinition,
  ONE_DIMENSION,
  type SingleDefinition,
  dimensionsOf,
  type PartitionDefinition,
} from "./definition.ts";
import { type TimeGrid, timeGridOf } from "./time-grid.ts";
import { multiKeyspace } from "./multi-keyspace.ts";

type Keys = Pick<Keyspace, "keyAt" | "indexOf" | "slice"> &
  Partial<Pick<Keyspace, "keysAt" | "indexesOf">>;

/** The first `count` partitions of a definition in one dimension. */
export function singleKeyspace(
  definition: SingleDefinition,
  dynamicKeys: DynamicKeys,
  count: number,
): Keyspace {
  if (isTimeDefinition(definition)) {
    const grid = timeGridOf(definition);
    return oneDimension(count, grid, grid);
  }
  switch (definition.type) {
    case "static":
      return oneDimension(count, staticKeys(definition.keys), null);
    case "dynamic":
      return oneDimension(count, keysAdded(definition.name, dynamicKeys), null);
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
      return dynamicKeys.count(definition.name);
    default:
      return Math.max(0, Math.ceil((integersEnd(definition) - definition.start) / definition.size));
  }
}

/** Bounds keys to the first `count` and adds what every keyspace of one dimension has. */
function oneDimension(count: number, keys: Keys, time: TimeAxis | null): Keyspace {
  assert(Number.isSafeInteger(count) && count >= 0, "a count is a natural number");
  const check = (ordinal: number): void =>
    assert(ordinal >= 0 && ordinal < count, `ordinal ${ordinal} is within ${count} partitions`);
  const keyAt = (ordinal: number): string => {
    check(ordinal);
    return keys.keyAt(ordinal);
  };
  const within = (ordinal: number | null): number | null =>
    ordinal !== null && ordinal >= 0 && ordinal < count ? ordinal : null;
  const keyspace: Keyspace = {
    count,
    time,
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

function keysAdded(name: string, dynamicKeys: DynamicKeys): Keys {
  const indexOf = (key: string): number | null => dynamicKeys.indexOf(name, key);
  const keyAt = (ordinal: number): string => dynamicKeys.keyAt(name, ordinal);
  const keysAt = (ordinals: readonly number[]): string[] => {
    if (ordinals.length > 0) dynamicKeys.prefetch?.(name, ordinals);
    return ordinals.map(keyAt);
  };
  return {
    keyAt,
    keysAt,
    indexOf,
    indexesOf: (keys) => dynamicKeys.indexesOf?.(name, keys) ?? keys.map(indexOf),
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
  const bound = dimensionsOf(definition).map((dimension) =>
    countPartitions(dimension.definition, dynamicKeys, nowMs),
  );
  return pinnedKeyspace(definition, dynamicKeys, bound);
}

/** The partitions that existed when `boundOf` gave the bound, each with its ordinal of then. */
export function pinnedKeyspace(
  definition: PartitionDefinition,
  dynamicKeys: DynamicKeys,
  bound: readonly number[],
): Keyspace {
  const dimensions = dimensionsOf(definition);
  assert(bound.length === dimensions.length, "a bound has one count for each dimension");
  const keyspaces = dimensions.map(({ name, definition: single }, at) => ({
    name,
    keyspace: singleKeyspace(single, dynamicKeys, present(bound[at], "at is within")),
  }));
  if (definition.type === "multi") return multiKeyspace(keyspaces);
  return present(keyspaces[0], "one dimension has one keyspace").keyspace;
}
