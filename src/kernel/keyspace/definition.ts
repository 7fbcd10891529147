import { z } from "zod";
import { canonicalJson } from "../canonical.ts";
import { daysInMonth, isTimeZone, WEEKDAYS } from "./civil-time.ts";
import { cronDays, keyFormatFault } from "./time-grid.ts";

/** The name under which the only dimension of a one-dimensional definition is addressed. */
export const ONE_DIMENSION = "partition";

/** One partition's key in one dimension: any well-formed text without control characters. */
export const PartitionKey = z
  .string()
  .min(1)
  .max(500)
  .refine((key) => !/[\p{Cc}\p{Surrogate}]/u.test(key), {
    error: "must be text without control characters",
  });

/** The name of one dimension of a multi-dimensional definition. */
export const DimensionName = z.string().regex(/^[A-Za-z_][A-Za-z0-9_-]{0,63}$/, {
  error: "must start with a letter or _ and hold at most 64 letters, digits, _ and -",
});

const TimeZoneName = z
  .string()
  .refine(isTimeZone, { error: "must be an IANA time zone such as Europe/Berlin" });

const LocalDay = z
  .string()
  .regex(/^\d{4}-\d{2}-\d{2}$/, { error: "must be a day such as 2025-01-31" })
  .refine(isRealDay, { error: "is not a day of the calendar" });

const LocalMonth = z
  .string()
  .regex(/^\d{4}-\d{2}(-\d{2})?$/, { error: "must be a month such as 2025-01" })
  .refine((text) => isRealDay(text.length === 7 ? `${text}-01` : text), {
    error: "is not a month or day of the calendar",
  });

const LocalMinute = z
  .string()
  .regex(/^\d{4}-\d{2}-\d{2}(T([01]\d|2[0-3]):[0-5]\d)?$/, {
    error: "must be a day or a local minute such as 2025-01-31T05:00",
  })
  .refine(isRealDay, { error: "is not a day of the calendar" });

const Minute = z
  .string()
  .regex(/^\d{4}-\d{2}-\d{2}(T([01]\d|2[0-3]):[0-5]\d(Z|[+-]\d{2}:\d{2})?)?$/, {
    error: "must be a day or a minute such as 2025-01-31T05:00 or 2025-01-31T05:00Z",
  })
  .refine(isRealDay, { error: "is not a day of the calendar" });

function isRealDay(text: string): boolean {
  const year = Number(text.slice(0, 4));
  const month = Number(text.slice(5, 7));
  const day = Number(text.slice(8, 10));
  return year >= 1 && month >= 1 && month <= 12 && day >= 1 && day <= daysInMonth(year, month);
}

const KeyFormat = z.string().min(2).max(100);
const zone = TimeZoneName.default("UTC");

/** One partition an hour; hours are counted as instants, so no clock change doubles a key. */
export const HourlyDefinition = z
  .strictObject({
    type: z.literal("hourly"),
    start: Minute,
    end: Minute.optional(),
    time_zone: zone,
    format: KeyFormat.optional(),
  })
  .superRefine((definition, context) => {
    const { format, start } = definition;
    if (format === undefined) return;
    const wholeHours = start.length === 10 || /T\d\d:00(Z|$)/.test(start);
    const minutes = wholeHours && !format.includes("mm") ? [] : ["mm"];
    const fault =
      definition.time_zone === "UTC"
        ? keyFormatFault(format, ["YYYY", "MM", "DD", "HH", ...minutes])
        : "is possible in UTC only: without an offset the doubled hour would have one key twice";
    if (fault !== null) context.addIssue({ code: "custom", path: ["format"], message: fault });
  });

/** One partition a calendar day of the time zone. */
export const DailyDefinition = z
  .strictObject({
    type: z.literal("daily"),
    start: LocalDay,
    end: LocalDay.optional(),
    time_zone: zone,
    format: KeyFormat.optional(),
  })
  .superRefine(checkFormat(["YYYY", "MM", "DD"]));

/** One partition a week, named by its first day; the first is the first to begin at `start`. */
export const WeeklyDefinition = z
  .strictObject({
    type: z.literal("weekly"),
    start: LocalDay,
    end: LocalDay.optional(),
    time_zone: zone,
    starts_on: z.enum(WEEKDAYS).default("monday"),
    format: KeyFormat.optional(),
  })
  .superRefine(checkFormat(["YYYY", "MM", "DD"]));

/** One partition a calendar month; the first is the first to begin at `start` or later. */
export const MonthlyDefinition = z
  .strictObject({
    type: z.literal("monthly"),
    start: LocalMonth,
    end: LocalMonth.optional(),
    time_zone: zone,
    format: KeyFormat.optional(),
  })
  .superRefine(checkFormat(["YYYY", "MM"]));

/** One partition from each wall-clock time that the expression names to the next. */
export const CronDefinition = z
  .strictObject({
    type: z.literal("cron"),
    expression: z.string().max(200),
    start: LocalMinute,
    end: LocalMinute.optional(),
    time_zone: zone,
  })
  .superRefine((definition, context) => {
    const days = cronDays(definition.expression);
    if (typeof days !== "string") return;
    context.addIssue({ code: "custom", path: ["expression"], message: days });
  });

/** A fixed list of keys, in the order given. */
export const StaticDefinition = z.strictObject({
  type: z.literal("static"),
  keys: z
    .array(PartitionKey)
    .min(1)
    .max(100_000)
    .refine((keys) => new Set(keys).size === keys.length, { error: "must not repeat a key" }),
});

/** Keys added at run time, in the order they were added. */
export const DynamicDefinition = z.strictObject({
  type: z.literal("dynamic"),
  name: z.string().regex(/^[A-Za-z0-9_][A-Za-z0-9_./-]{0,199}$/),
});

/** Ranges of `size` integers from `start` up to `end`, which is the first integer left out. */
export const IntegersDefinition = z
  .strictObject({
    type: z.literal("integers"),
    start: z.int(),
    end: z.int().optional(),
    size: z.int().min(1).default(1),
  })
  .refine(({ start, end }) => end === undefined || Number.isSafeInteger(end - start), {
    error: "must span fewer than 2^53 integers",
    path: ["end"],
  });

function checkFormat(needed: readonly string[]) {
  return (definition: { format?: string | undefined }, context: z.RefinementCtx): void => {
    if (definition.format === undefined) return;
    const fault = keyFormatFault(definition.format, needed);
    if (fault !== null) context.addIssue({ code: "custom", path: ["format"], message: fault });
  };
}

/** How an asset is cut in one dimension. */
export const SingleDefinition = z.discriminatedUnion("type", [
  HourlyDefinition,
  DailyDefinition,
  WeeklyDefinition,
  MonthlyDefinition,
  CronDefinition,
  StaticDefinition,
  DynamicDefinition,
  IntegersDefinition,
]);
export type SingleDefinition = z.infer<typeof SingleDefinition>;

/** Every combination of the keys of two or more dimensions. */
export const MultiDefinition = z.strictObject({
  type: z.literal("multi"),
  dimensions: z
    .record(DimensionName, SingleDefinition)
    .refine((dimensions) => Object.keys(dimensions).length >= 2, {
      error: "must name two or more dimensions",
    }),
});
export type MultiDefinition = z.infer<typeof MultiDefinition>;

/** How an asset is cut into partitions. */
export const PartitionDefinition = z.discriminatedUnion("type", [
  HourlyDefinition,
  DailyDefinition,
  WeeklyDefinition,
  MonthlyDefinition,
  CronDefinition,
  StaticDefinition,
  DynamicDefinition,
  IntegersDefinition,
  MultiDefinition,
]);
export type PartitionDefinition = z.infer<typeof PartitionDefinition>;

/** A definition whose partitions are stretches of time. */
export type TimeDefinition = Extract<SingleDefinition, { time_zone: string }>;

/** Whether the partitions are stretches of time. */
export function isTimeDefinition(definition: PartitionDefinition): definition is TimeDefinition {
  return "time_zone" in definition;
}

/** Whether two definitions are the same to the last field, so that ordinals mean the same. */
export function isSameDefinition(
  one: PartitionDefinition | null,
  other: PartitionDefinition | null,
): boolean {
  return one === other || canonicalJson(one) === canonicalJson(other);
}

/** The dimensions sorted by name (by code unit), or the only one under the name `partition`. */
export function dimensionsOf(
  definition: PartitionDefinition,
): { name: string; definition: SingleDefinition }[] {
  if (definition.type !== "multi") return [{ name: ONE_DIMENSION, definition }];
  return Object.entries(definition.dimensions)
    .map(([name, single]) => ({ name, definition: single }))
    .toSorted((one, other) => (one.name < other.name ? -1 : 1));
}

/**
 * Whether two definitions number the same keys in the same order and only start or end elsewhere,
 * so that their ordinals differ by one constant wherever they share a key.
 */
export function isSameGrid(one: SingleDefinition, other: SingleDefinition): boolean {
  if (one.type === "static" || other.type === "static") return isSameDefinition(one, other);
  return canonicalJson(unbounded(one)) === canonicalJson(unbounded(other));
}

function unbounded(definition: SingleDefinition): object {
  return { ...definition, start: undefined, end: undefined };
}
