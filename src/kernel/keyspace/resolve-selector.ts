import { assert, PawlError, present, unreachable } from "../errors.ts";
import { type Interval, intervalsOf } from "../intervals.ts";
import { globMatches, isGlob, type Pattern, type Selector } from "./selector.ts";
import { boundOf, type Keyspace, partitionInvalid } from "./keyspace.ts";
import { valuesOfMultiKey } from "./keyspace-of.ts";
import { dimensionsOf, type PartitionDefinition, type SingleDefinition } from "./definition.ts";
import {
  type Selection,
  selectionOfIntervals,
  selectionOfProduct,
  selectionOfScattered,
} from "./selection.ts";

/** The most keys of one dimension that a glob may have to be compared with. */
const GLOB_KEYS_MAX = 1_000_000;

const PAGE_SIZE = 10_000;

/** One dimension as needed to find values in it. */
type Axis = { name: string; definition: SingleDefinition; keyspace: Keyspace };

/**
 * The partitions that a selector means, worked out without listing them.
 *
 * A range over several dimensions is a range in each: `day=1,region=a` to `day=3,region=c` means
 * the days 1 to 3 of the regions a to c. Throws PARTITION_INVALID, INPUT_INVALID, SELECTION_EMPTY
 * and SELECTION_TOO_LARGE. Selectors of an earlier backfill's partitions, and of stale ones,
 * are resolved from the pages that were surveyed.
 */
export function resolveSelector(
  definition: PartitionDefinition,
  keyspace: Keyspace,
  selector: Selector,
): Selection {
  const selection = selectionOf(definition, keyspace, selector);
  if (selection.count > 0) return selection;
  throw new PawlError(
    "SELECTION_EMPTY",
    keyspace.count === 0
      ? "Nothing is selected, because the asset has no partitions yet."
      : `Nothing is selected: no partition matches ${JSON.stringify(selector)}.`,
    { details: { selector } },
  );
}

function selectionOf(
  definition: PartitionDefinition,
  keyspace: Keyspace,
  selector: Selector,
): Selection {
  switch (selector.type) {
    case "all":
      return selectAll(definition, keyspace);
    case "explicit":
      return selectKeys(definition, keyspace, selector.partition_keys);
    case "range":
      return selectRange(definition, keyspace, selector.start, selector.end);
    case "filter":
      return selectMatches(definition, keyspace, selector.dimensions);
    case "outcome":
    case "missing":
    case "stale":
      assert(false, "partitions that were surveyed are resolved from their pages");
      break;
    default:
      return unreachable(selector);
  }
}

function axesOf(definition: PartitionDefinition, keyspace: Keyspace): Axis[] {
  return dimensionsOf(definition).map((dimension, at) => ({
    ...dimension,
    keyspace: present(keyspace.dimensions[at], "both have the same dimensions").keyspace,
  }));
}

function everything({ keyspace }: Axis): Interval[] {
  return keyspace.count === 0 ? [] : [[0, keyspace.count - 1]];
}

function selectAll(definition: PartitionDefinition, keyspace: Keyspace): Selection {
  const axes = axesOf(definition, keyspace);
  for (const { definition: single } of axes) {
    if (single.type !== "integers" || single.end !== undefined) continue;
    throw new PawlError(
      "SELECTION_TOO_LARGE",
      `All integers from ${single.start} on cannot be selected; give a range with an end.`,
    );
  }
  return selectionOfProduct(axes.map(everything), boundOf(keyspace));
}

function selectKeys(
  definition: PartitionDefinition,
  keyspace: Keyspace,
  keys: readonly string[],
): Selection {
  const ordinals = keyspace.indexesOf(keys).map((ordinal, at) => {
    if (ordinal === null) throw partitionInvalid(definition, keyspace, keys[at] ?? "");
    return ordinal;
  });
  const intervals = intervalsOf(ordinals.toSorted((one, other) => one - other));
  return definition.type === "multi"
    ? selectionOfScattered(intervals)
    : selectionOfIntervals(intervals);
}

function selectRange(
  definition: PartitionDefinition,
  keyspace: Keyspace,
  start: string,
  end: string,
): Selection {
  const axes = axesOf(definition, keyspace);
  const names = axes.map(({ name }) => name);
  const [starts, ends] = [start, end].map((key) => {
    const values = definition.type === "multi" ? valuesOfMultiKey(key, names) : [key];
    if (values === null) throw partitionInvalid(definition, keyspace, key);
    return values;
  });
  const product = axes.map((axis, at) => rangeIn(axis, starts?.[at] ?? "", ends?.[at] ?? ""));
  return selectionOfProduct(product, boundOf(keyspace));
}

function selectMatches(
  definition: PartitionDefinition,
  keyspace: Keyspace,
  patterns: Readonly<Record<string, Pattern>>,
): Selection {
  const axes = axesOf(definition, keyspace);
  const names = axes.map((axis) => axis.name);
  for (const name of Object.keys(patterns)) {
    if (names.includes(name)) continue;
    throw new PawlError(
      "INPUT_INVALID",
      `There is no dimension ${JSON.stringify(name)} to filter by; use ${names.join(" or ")}.`,
      { details: { dimension: name } },
    );
  }
  const product = axes.map((axis) => {
    const pattern = patterns[axis.name];
    return pattern === undefined ? everything(axis) : matchesIn(axis, pattern);
  });
  return selectionOfProduct(product, boundOf(keyspace));
}

/** The ordinals of one dimension that a pattern means. */
function matchesIn(axis: Axis, pattern: Pattern): Interval[] {
  if (Array.isArray(pattern)) {
    const { name, definition, keyspace } = axis;
    const ordinals = keyspace.indexesOf(pattern).map((ordinal, at) => {
      if (ordinal !== null) return ordinal;
      throw partitionInvalid(definition, keyspace, pattern[at] ?? "", name);
    });
    return intervalsOf(ordinals.toSorted((one, other) => one - other));
  }
  if (typeof pattern !== "string") return rangeIn(axis, pattern.start, pattern.end);
  if (!isGlob(pattern)) {
    const ordinal = ordinalIn(axis, pattern);
    return [[ordinal, ordinal]];
  }
  return pattern === "*" ? everything(axis) : globIn(axis, pattern);
}

function globIn({ name, keyspace }: Axis, pattern: string): Interval[] {
  if (keyspace.count > GLOB_KEYS_MAX) {
    throw new PawlError(
      "SELECTION_TOO_LARGE",
      `The pattern ${JSON.stringify(pattern)} would have to be compared with ${keyspace.count} ` +
        `keys of ${name}, more than ${GLOB_KEYS_MAX}; give a range or a list instead.`,
      { details: { dimension: name, partition_count: keyspace.count } },
    );
  }
  const matches: number[] = [];
  for (let offset = 0; offset < keyspace.count; offset += PAGE_SIZE) {
    for (const [at, key] of keyspace.slice(offset, PAGE_SIZE).entries()) {
      if (globMatches(pattern, key)) matches.push(offset + at);
    }
  }
  return intervalsOf(matches);
}

function rangeIn(axis: Axis, start: string, end: string): Interval[] {
  const from = ordinalIn(axis, start);
  const to = ordinalIn(axis, end);
  if (from <= to) return [[from, to]];
  throw new PawlError(
    "INPUT_INVALID",
    `The range starts at ${start}, which comes after its end ${end}; give the earlier one first.`,
    { details: { start, end, dimension: axis.name } },
  );
}

function ordinalIn({ name, definition, keyspace }: Axis, value: string): number {
  const ordinal = keyspace.indexOf(value);
  if (ordinal === null) throw partitionInvalid(definition, keyspace, value, name);
  return ordinal;
}
