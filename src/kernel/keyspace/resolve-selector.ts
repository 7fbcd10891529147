import { assert, PawlError, present, unreachable } from "../errors.ts";
import { type Interval, intervalsOf } from "../intervals.ts";
import { suggestion } from "../message-text.ts";
import { globMatches, isGlob, type Pattern, type Selector } from "./selector.ts";
import { DAY_MS, dayNumberOf, daysInMonth, type ZoneClock, zoneClockOf } from "./civil-time.ts";
import { boundOf, type Keyspace, partitionInvalid } from "./keyspace.ts";
import { multiKeyOf, valuesOfMultiKey } from "./keyspace-of.ts";
import {
  dimensionsOf,
  isTimeDefinition,
  type PartitionDefinition,
  type SingleDefinition,
} from "./definition.ts";
import {
  type Selection,
  selectionOfIntervals,
  selectionOfProduct,
  selectionOfScattered,
} from "./selection.ts";

/** The most keys of one dimension that a glob may have to be compared with. */
export const GLOB_KEYS_MAX = 1_000_000;

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
  for (const axis of axes) refuseEndless(axis);
  return selectionOfProduct(axes.map(everything), boundOf(keyspace));
}

function refuseEndless({ definition }: Axis): void {
  if (definition.type !== "integers" || definition.end !== undefined) return;
  throw new PawlError(
    "SELECTION_TOO_LARGE",
    `All integers from ${definition.start} on cannot be selected; give a range with an end.`,
  );
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
  end: string | undefined,
): Selection {
  const ranges = rangesOf(definition, keyspace, start, end);
  return selectionOfProduct(
    ranges.map(({ interval }) => [interval]),
    boundOf(keyspace),
  );
}

/** What a range is in each dimension; without an end it goes to the last value of each. */
function rangesOf(
  definition: PartitionDefinition,
  keyspace: Keyspace,
  start: string,
  end: string | undefined,
): { axis: Axis; interval: Interval }[] {
  const axes = axesOf(definition, keyspace);
  const names = axes.map(({ name }) => name);
  const valuesIn = (key: string): readonly string[] => {
    const values = definition.type === "multi" ? valuesOfMultiKey(key, names) : [key];
    if (values === null) throw partitionInvalid(definition, keyspace, key);
    return values;
  };
  const starts = valuesIn(start);
  const ends = end === undefined ? null : valuesIn(end);
  return axes.map((axis, at) => {
    const from = starts[at] ?? "";
    const interval = ends === null ? restOf(axis, from) : rangeIn(axis, from, ends[at] ?? "");
    return { axis, interval };
  });
}

/**
 * The same selector with ranges from key to key: a range may name days of hourly partitions, or no end, and
 * what is recorded says which hours those were, and which was the last.
 */
export function withExactKeys(
  definition: PartitionDefinition,
  keyspace: Keyspace,
  selector: Selector,
): Selector {
  const isOpen = selector.type === "range" && selector.end === undefined;
  const hasTime = dimensionsOf(definition).some((each) => isTimeDefinition(each.definition));
  if (!isOpen && !hasTime) return selector;
  if (selector.type === "range") {
    const ranges = rangesOf(definition, keyspace, selector.start, selector.end);
    const keyOf = (end: 0 | 1): string => {
      const values = ranges.map(({ axis, interval }) => ({
        name: axis.name,
        value: axis.keyspace.keyAt(interval[end]),
      }));
      return definition.type === "multi" ? multiKeyOf(values) : (values[0]?.value ?? "");
    };
    return { ...selector, start: keyOf(0), end: keyOf(1) };
  }
  if (selector.type !== "filter") return selector;
  const dimensions: Record<string, Pattern> = { ...selector.dimensions };
  for (const axis of axesOf(definition, keyspace)) {
    const pattern = dimensions[axis.name];
    if (typeof pattern !== "object" || Array.isArray(pattern)) continue;
    const [from, to] = rangeIn(axis, pattern.start, pattern.end);
    dimensions[axis.name] = { start: axis.keyspace.keyAt(from), end: axis.keyspace.keyAt(to) };
  }
  return { ...selector, dimensions };
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
      `There is no dimension ${JSON.stringify(name)} to filter by${suggestion(name, names)}; ` +
        `use ${names.join(" or ")}.`,
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
  if (typeof pattern !== "string") return [rangeIn(axis, pattern.start, pattern.end)];
  if (!isGlob(pattern)) {
    const ordinal = ordinalIn(axis, pattern);
    return [[ordinal, ordinal]];
  }
  return pattern === "*" ? everything(axis) : globIn(axis, pattern);
}

/** How many keys the patterns of a selector are compared with, one by one. */
export function keysCompared(
  definition: PartitionDefinition,
  keyspace: Keyspace,
  selector: Selector,
): number {
  if (selector.type !== "filter") return 0;
  const globs = axesOf(definition, keyspace).filter(({ name }) => {
    const pattern = selector.dimensions[name];
    return typeof pattern === "string" && pattern !== "*" && isGlob(pattern);
  });
  return globs.reduce((sum, axis) => sum + axis.keyspace.count, 0);
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

function rangeIn(axis: Axis, start: string, end: string): Interval {
  const [from] = boundsIn(axis, start);
  const [, to] = boundsIn(axis, end);
  if (from <= to) return [from, to];
  // A day that the calendar leaves out has no partitions.
  if (start === end) throw partitionInvalid(axis.definition, axis.keyspace, start, axis.name);
  throw new PawlError(
    "INPUT_INVALID",
    `The range starts at ${start}, which comes after its end ${end}; give the earlier one first.`,
    { details: { start, end, dimension: axis.name } },
  );
}

function restOf(axis: Axis, start: string): Interval {
  const [from] = boundsIn(axis, start);
  refuseEndless(axis);
  return [from, axis.keyspace.count - 1];
}

/**
 * What a key of a range stands for. A stretch of the calendar that is no key itself stands for the
 * partitions there are that start in it: a day for its hours, a month for its days. When none
 * starts in it, it stands for the one that it lies in: a day for its month. One that a time zone leaves
 * out, and that lies in none, ends before it begins.
 */
function boundsIn(axis: Axis, value: string): Interval {
  const { name, definition, keyspace } = axis;
  const exact = keyspace.indexOf(value);
  if (exact !== null) return [exact, exact];
  if (isTimeDefinition(definition) && keyspace.time !== null) {
    const stretch = stretchOf(value, zoneClockOf(definition.time_zone));
    if (stretch !== null) {
      const { startMs, endMs } = stretch;
      const last = keyspace.time.ordinalAt(endMs - 1);
      const next = keyspace.time.ordinalAt(startMs - 1) + 1;
      const isLeftOut = startMs === endMs && keyspace.time.ordinalAt(startMs) !== last;
      const first = isLeftOut ? next : Math.min(next, last);
      if (last >= 0 && first < keyspace.count) {
        return [Math.max(first, 0), Math.min(last, keyspace.count - 1)];
      }
    }
  }
  throw partitionInvalid(definition, keyspace, value, name);
}

/** The year, month or day that a text such as `2025`, `2025-01` or `2025-01-31` names; or null. */
function stretchOf(text: string, clock: ZoneClock): { startMs: number; endMs: number } | null {
  const parts = /^(\d{4})(?:-(\d\d)(?:-(\d\d))?)?$/.exec(text);
  if (parts === null) return null;
  const [year, month, day] = [parts[1], parts[2] ?? "01", parts[3] ?? "01"].map(Number);
  assert(year !== undefined && month !== undefined && day !== undefined, "a part is a number");
  if (month < 1 || month > 12 || day < 1 || day > daysInMonth(year, month)) return null;
  const first = dayNumberOf(year, month, day);
  let next = first + 1;
  if (parts[2] === undefined) next = dayNumberOf(year + 1, 1, 1);
  else if (parts[3] === undefined) next = first + daysInMonth(year, month);
  return { startMs: clock.startMsOf(first * DAY_MS), endMs: clock.startMsOf(next * DAY_MS) };
}

function ordinalIn({ name, definition, keyspace }: Axis, value: string): number {
  const ordinal = keyspace.indexOf(value);
  if (ordinal === null) throw partitionInvalid(definition, keyspace, value, name);
  return ordinal;
}
