import { assert, present } from "../assert.ts";
import { epochMsOf, type Instant } from "../instant.ts";
import type { DynamicKeys, Keyspace } from "./keyspace.ts";
import { multiKeyspace } from "./multi-keyspace.ts";
import { dimensionsOf, type PartitionDefinition } from "./partition-definition.ts";
import { countPartitions, singleKeyspace } from "./single-keyspace.ts";

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
