import { PartitionDefinition, type SingleDefinition } from "../kernel/keyspace/definition.ts";
import { parseDefinition, refuseUnknownOptions } from "./parse-definition.ts";
import { PartitionMapping } from "../kernel/keyspace/mapping.ts";

/** Where partitions by time begin and end; without an end they grow with the clock. */
export type TimeOptions = {
  /** The first moment, in local time of the zone. */
  start: string;
  /** The first moment that no longer belongs to it. */
  end?: string;
  /** An IANA name; UTC when left out. */
  timeZone?: string;
};

/** Partitions by time whose keys may be written in a form of one's own. */
export type FormattedTimeOptions = TimeOptions & {
  /** How keys are written, with YYYY, MM, DD, HH and mm, for example `YYYYMMDD`. */
  format?: string;
};

const TIME_OPTIONS = ["start", "end", "timeZone"];
const FORMATTED_OPTIONS = [...TIME_OPTIONS, "format"];

/** One partition an hour, with keys like `2025-01-01T05:00Z`. */
export function hourly(options: FormattedTimeOptions): PartitionDefinition {
  return timed("hourly", options, FORMATTED_OPTIONS);
}

/** One partition a day, with keys like `2025-01-01`. */
export function daily(options: FormattedTimeOptions): PartitionDefinition {
  return timed("daily", options, FORMATTED_OPTIONS);
}

/** One partition a week, with the week's first day as the key; weeks start on Monday. */
export function weekly(
  options: FormattedTimeOptions & {
    startsOn?: Extract<SingleDefinition, { type: "weekly" }>["starts_on"];
  },
): PartitionDefinition {
  return timed("weekly", options, [...FORMATTED_OPTIONS, "startsOn"]);
}

/** One partition a month, with keys like `2025-01`. */
export function monthly(options: FormattedTimeOptions): PartitionDefinition {
  return timed("monthly", options, FORMATTED_OPTIONS);
}

/**
 * One partition from each time of a cron expression to the next, with keys like
 * `2025-01-01T05:00`.
 */
export function cron(expression: string, options: TimeOptions): PartitionDefinition {
  refuseUnknownOptions("cron()", options, TIME_OPTIONS);
  return built("cron()", {
    type: "cron",
    expression,
    start: options.start,
    end: options.end,
    time_zone: options.timeZone,
  });
}

/** A fixed list of partitions, in the order given. */
export function staticPartitions(keys: readonly string[]): PartitionDefinition {
  return built("staticPartitions()", { type: "static", keys: [...keys] });
}

/** Partitions that are added while Pawl runs, under a name that assets can share. */
export function dynamicPartitions(name: string): PartitionDefinition {
  return built("dynamicPartitions()", { type: "dynamic", name });
}

/** Every combination of two or more dimensions, with keys like `day=2025-01-01,region=eu`. */
export function multi(
  dimensions: Readonly<Record<string, PartitionDefinition>>,
): PartitionDefinition {
  return built("multi()", { type: "multi", dimensions: { ...dimensions } });
}

/** Ranges of integers; `end` is the first integer left out, `size` how many make a partition. */
export function integers(options: {
  start: number;
  end?: number;
  size?: number;
}): PartitionDefinition {
  refuseUnknownOptions("integers()", options, ["start", "end", "size"]);
  return built("integers()", { type: "integers", ...options });
}

function timed(
  type: "hourly" | "daily" | "weekly" | "monthly",
  options: FormattedTimeOptions & { startsOn?: string },
  known: readonly string[],
): PartitionDefinition {
  refuseUnknownOptions(`${type}()`, options, known);
  return built(`${type}()`, {
    type,
    start: options.start,
    end: options.end,
    time_zone: options.timeZone,
    format: options.format,
    ...(options.startsOn === undefined ? {} : { starts_on: options.startsOn }),
  });
}

function built(subject: string, definition: Record<string, unknown>): PartitionDefinition {
  const given = Object.entries(definition).filter(([, value]) => value !== undefined);
  return Object.freeze(parseDefinition(subject, PartitionDefinition, Object.fromEntries(given)));
}

/** Each partition is made from the upstream partition with the same key. */
export function identity(): PartitionMapping {
  return builtMapping("identity()", { type: "identity" });
}

/**
 * Each partition is made from the upstream partitions that overlap with it in time. The offsets
 * move the first and the last of them: `startOffset: -6` on days gives the last seven days.
 */
export function timeWindow(
  options: { startOffset?: number; endOffset?: number } = {},
): PartitionMapping {
  refuseUnknownOptions("timeWindow()", options, ["startOffset", "endOffset"]);
  return builtMapping("timeWindow()", {
    type: "time_window",
    start_offset: options.startOffset ?? 0,
    end_offset: options.endOffset ?? 0,
  });
}

/** Each partition is made from the upstream partition that many places on; −1 is the one before. */
export function offset(by: number): PartitionMapping {
  return builtMapping("offset()", { type: "offset", by });
}

/** Each partition is made from every upstream partition. */
export function allPartitions(): PartitionMapping {
  return builtMapping("allPartitions()", { type: "all" });
}

/** Each partition is made from the upstream partitions with the same value in one dimension. */
export function dimension(name: string): PartitionMapping {
  return builtMapping("dimension()", { type: "dimension", dimension: name });
}

/** Each partition is made from the upstream partitions listed under its key. */
export function table(map: Readonly<Record<string, readonly string[]>>): PartitionMapping {
  return builtMapping("table()", { type: "table", map: { ...map } });
}

function builtMapping(subject: string, mapping: Record<string, unknown>): PartitionMapping {
  return Object.freeze(parseDefinition(subject, PartitionMapping, mapping));
}
