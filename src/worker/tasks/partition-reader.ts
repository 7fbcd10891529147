import { PawlError, present } from "../../kernel/errors.ts";
import type { DynamicKeys, Keyspace, TimeWindow } from "../../kernel/keyspace/keyspace.ts";
import {
  dimensionsOf,
  isTimeDefinition,
  type PartitionDefinition,
  type SingleDefinition,
} from "../../kernel/keyspace/definition.ts";
import {
  countPartitions,
  singleKeyspace,
  valuesOfMultiKey,
} from "../../kernel/keyspace/keyspace-of.ts";

/** What a partition's key says, by the definition that the worker's code has. */
export interface PartitionReader {
  /** The value in each dimension; `PARTITION_INVALID` when the definition has no such key. */
  valuesOf(key: string): Record<string, string>;
  /** The stretch of time of the key, or null when the definition is not by time. */
  windowOf(key: string): TimeWindow | null;
}

type ReadDimension = { name: string; keyspace: Keyspace | null };

/** Keys of dynamic definitions are known to the server only; the worker takes them as they come. */
const NO_KEYS: DynamicKeys = { count: () => 0, keyAt: () => "", indexOf: () => null };

/** The reader of a definition's keys; a key of the future is as good as one of the past. */
export function partitionReaderOf(
  assetKey: string,
  definition: PartitionDefinition,
): PartitionReader {
  const dimensions = dimensionsOf(definition).map(({ name, definition: single }) => ({
    name,
    keyspace: keyspaceWithoutNow(single),
  }));
  const names = dimensions.map(({ name }) => name);
  const timed = dimensions.filter(({ keyspace }) => keyspace !== null && keyspace.time !== null);

  function read(key: string): string[] {
    const values = definition.type === "multi" ? valuesOfMultiKey(key, names) : [key];
    if (values === null || !values.every((value, at) => holds(dimensions[at], value))) {
      throw new PawlError(
        "PARTITION_INVALID",
        `The worker's code has no partition ${JSON.stringify(key)} of ${assetKey}: ` +
          "its definition has changed since this work was planned, or the worker runs other code.",
        { details: { asset_key: assetKey, partition_key: key } },
      );
    }
    return values;
  }

  return {
    valuesOf(key) {
      const values = read(key);
      return Object.fromEntries(names.map((name, at) => [name, values[at] ?? ""]));
    },
    windowOf(key) {
      const [only] = timed;
      if (only === undefined || timed.length > 1) return null;
      const value = read(key)[dimensions.indexOf(only)] ?? "";
      const keyspace = present(only.keyspace, "a dimension by time has a keyspace");
      return keyspace.windowAt(present(keyspace.indexOf(value), "the key was read"));
    },
  };
}

function keyspaceWithoutNow(definition: SingleDefinition): Keyspace | null {
  if (definition.type === "dynamic") return null;
  const isOpen = isTimeDefinition(definition) && definition.end === undefined;
  const count = isOpen ? Number.MAX_SAFE_INTEGER : countPartitions(definition, NO_KEYS, 0);
  return singleKeyspace(definition, NO_KEYS, count);
}

function holds(dimension: ReadDimension | undefined, value: string): boolean {
  if (dimension === undefined) return false;
  return dimension.keyspace === null || dimension.keyspace.indexOf(value) !== null;
}
