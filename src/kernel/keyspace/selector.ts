import { z } from "zod";
import { DimensionName } from "./definition.ts";

/** Why a partition is stale, in the order in which reasons are looked for: the first counts. */
export const StaleReason = z.enum([
  "NEVER_MATERIALIZED",
  "CODE_CHANGED",
  "UPSTREAM_CHANGED",
  "FRESHNESS_POLICY",
]);
export type StaleReason = z.infer<typeof StaleReason>;

const Some = z.int().nonnegative();

/** How many partitions are stale for which reason. */
export const StaleReasons = z.strictObject({
  NEVER_MATERIALIZED: Some,
  CODE_CHANGED: Some,
  UPSTREAM_CHANGED: Some,
  FRESHNESS_POLICY: Some,
}) satisfies z.ZodType<Record<StaleReason, number>>;
export type StaleReasons = z.infer<typeof StaleReasons>;

/** Nothing is stale. */
export const NO_STALE_REASONS: StaleReasons = {
  NEVER_MATERIALIZED: 0,
  CODE_CHANGED: 0,
  UPSTREAM_CHANGED: 0,
  FRESHNESS_POLICY: 0,
};

/** The counts of both together. */
export function addStaleReasons(one: StaleReasons, other: StaleReasons): StaleReasons {
  const sum = { ...one };
  for (const reason of StaleReason.options) sum[reason] += other[reason];
  return sum;
}

/** The most keys an explicit selector may name. */
export const EXPLICIT_KEYS_MAX = 10_000;

/** The most stale partitions that one selector may stand for. */
export const STALE_LIMIT_MAX = 1_000_000;

/** How many stale partitions a selector stands for when it does not say. */
export const STALE_LIMIT = 10_000;

const AnyKey = z.string().min(1).max(2_000);

/**
 * What a filter says about one dimension: a text (with `*` for any characters and `?` for one), a
 * list of exact values, or an inclusive range of values.
 */
export const Pattern = z.union([
  AnyKey,
  z.array(AnyKey).min(1).max(EXPLICIT_KEYS_MAX),
  z.strictObject({ start: AnyKey, end: AnyKey }),
]);
export type Pattern = z.infer<typeof Pattern>;

/**
 * What is taken of a selection: what was never made, what failed when it was last tried, either, or
 * what is stale. What a task works on is left out.
 */
export const Only = z.enum(["missing", "failed", "missing_or_failed", "stale"]);
export type Only = z.infer<typeof Only>;

/** `as_of` is when it was looked for: it stands in what was created, and is not asked for. */
const narrowed = {
  only: Only.exactOptional(),
  as_of: z.string().min(1).max(30).exactOptional(),
};

/**
 * All keys from `start` to `end`, both included; in several dimensions, a range in each. Without an
 * `end` it goes to the last partition there is; what is recorded names that one.
 */
export const RangeSelector = z.strictObject({
  type: z.literal("range"),
  start: AnyKey,
  end: AnyKey.exactOptional(),
  ...narrowed,
});

/** Exactly these keys, in whatever order and however often they are named. */
export const ExplicitSelector = z.strictObject({
  type: z.literal("explicit"),
  partition_keys: z.array(AnyKey).min(1).max(EXPLICIT_KEYS_MAX),
  ...narrowed,
});

/** What matches in every named dimension; the only dimension of one is called `partition`. */
export const FilterSelector = z.strictObject({
  type: z.literal("filter"),
  dimensions: z
    .record(DimensionName, Pattern)
    .refine((dimensions) => Object.keys(dimensions).length > 0, {
      error: "must name at least one dimension",
    }),
  ...narrowed,
});

/** Every partition there is. */
export const AllSelector = z.strictObject({ type: z.literal("all"), ...narrowed });

/** What ended with one of the outcomes in an earlier backfill. */
export const OutcomeSelector = z.strictObject({
  type: z.literal("outcome"),
  backfill_id: z.string().min(1).max(100),
  outcomes: z
    .array(z.enum(["FAILED", "CANCELLED", "SKIPPED", "SUCCEEDED"]))
    .min(1)
    .max(4),
});

/** What an earlier backfill targeted and is not materialized. */
export const MissingSelector = z.strictObject({
  type: z.literal("missing"),
  backfill_id: z.string().min(1).max(100),
});

/**
 * What is stale and that no task works on, up to a number of pairs of asset and partition. `as_of` is
 * when it was looked for: it stands in what was created, and is not asked for.
 */
export const StaleSelector = z.strictObject({
  type: z.literal("stale"),
  /** Only what is stale for one of these; for any reason when left out. */
  reasons: z.array(StaleReason).min(1).max(4).exactOptional(),
  limit: z.int().min(1).max(STALE_LIMIT_MAX).default(STALE_LIMIT),
  as_of: z.string().min(1).max(30).exactOptional(),
});
export type StaleSelector = z.infer<typeof StaleSelector>;

/** Which partitions of a definition are meant. */
export const Selector = z.discriminatedUnion("type", [
  RangeSelector,
  ExplicitSelector,
  FilterSelector,
  AllSelector,
  OutcomeSelector,
  MissingSelector,
  StaleSelector,
]);
export type Selector = z.infer<typeof Selector>;

/** Only some of what the selector says, and when that was looked for; undefined where it takes all. */
export function onlyOf(selector: Selector): Only | undefined {
  return "only" in selector ? selector.only : undefined;
}

/** When it was looked which partitions a selector means, where it is such a one. */
export function asOfOf(selector: Selector): string | undefined {
  return "as_of" in selector ? selector.as_of : undefined;
}

/** The selector of only a part of what it selects; one that is about such a part stays as it is. */
export function selectorOfOnly(selector: Selector, only: Only): Selector {
  switch (selector.type) {
    case "outcome":
    case "missing":
    case "stale":
      return selector;
    default:
      return { ...selector, only };
  }
}

/** The selector with the time at which its partitions were looked for, where they have to be. */
export function selectorAsOf(selector: Selector, as_of: string): Selector {
  return selector.type === "outcome" || selector.type === "missing"
    ? selector
    : { ...selector, as_of };
}

/** The selector without what narrows it down, and without when that was looked for. */
export function wholeSelector(selector: Selector): Selector {
  if (!("only" in selector) && !("as_of" in selector)) return selector;
  const { only: _, as_of: __, ...rest } = { only: undefined, ...selector };
  return rest;
}

/** Whether the text of a pattern has a `*` or `?` that stands for other characters. */
export function isGlob(pattern: string): boolean {
  return pattern.includes("*") || pattern.includes("?");
}

/**
 * Whether the whole text matches: `*` stands for any characters, `?` for one. Never takes longer
 * than pattern × text, however many stars there are.
 */
export function globMatches(pattern: string, text: string): boolean {
  let atPattern = 0;
  let atText = 0;
  let star = -1;
  let resumeText = 0;
  while (atText < text.length) {
    const wanted = pattern[atPattern];
    if (wanted === "*") {
      star = atPattern++;
      resumeText = atText;
    } else if (wanted !== undefined && (wanted === "?" || wanted === text[atText])) {
      atPattern++;
      atText++;
    } else if (star >= 0) {
      // Only the last star can still give way: what the earlier ones took is as short as can be.
      atPattern = star + 1;
      atText = ++resumeText;
    } else {
      return false;
    }
  }
  while (pattern[atPattern] === "*") atPattern++;
  return atPattern === pattern.length;
}
