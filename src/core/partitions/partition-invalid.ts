import { unreachable } from "../assert.ts";
import { PawlError } from "../errors.ts";
import type { Keyspace } from "./keyspace.ts";
import {
  ONE_DIMENSION,
  type PartitionDefinition,
  type SingleDefinition,
} from "./partition-definition.ts";

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
