import { z } from "zod";
import { suggestion } from "../message-text.ts";
import {
  DimensionName,
  dimensionsOf,
  isSameDefinition,
  isSameGrid,
  isTimeDefinition,
  type PartitionDefinition,
} from "./definition.ts";
import { unreachable } from "../errors.ts";

const TABLE_ROWS_MAX = 10_000;

/** Which upstream partitions a downstream partition is made from. */
export const PartitionMapping = z.discriminatedUnion("type", [
  /** The upstream partition with the same key. */
  z.strictObject({ type: z.literal("identity") }),
  /** The upstream partitions that overlap in time, the first and last moved by the offsets. */
  z
    .strictObject({
      type: z.literal("time_window"),
      start_offset: z.int().default(0),
      end_offset: z.int().default(0),
    })
    .refine(({ start_offset, end_offset }) => start_offset <= end_offset, {
      error: "must not be greater than end_offset",
      path: ["start_offset"],
    }),
  /**
   * The upstream partition `by` places after the one with the same key; before it when negative.
   */
  z.strictObject({ type: z.literal("offset"), by: z.int() }),
  /** Every upstream partition. */
  z.strictObject({ type: z.literal("all") }),
  /** The upstream partitions with the same value in this one dimension. */
  z.strictObject({ type: z.literal("dimension"), dimension: DimensionName }),
  /** The upstream keys listed for each downstream key. */
  z.strictObject({
    type: z.literal("table"),
    map: z
      .record(z.string().min(1), z.array(z.string().min(1)).max(TABLE_ROWS_MAX))
      .refine((map) => Object.keys(map).length <= TABLE_ROWS_MAX, {
        error: `must have at most ${TABLE_ROWS_MAX} rows`,
      }),
  }),
]);
export type PartitionMapping = z.infer<typeof PartitionMapping>;

type MaybePartitioned = PartitionDefinition | null;

/**
 * Why the mapping cannot lead from the downstream to the upstream definition, as a sentence, or
 * null; a definition is null for an asset without partitions.
 */
export function mappingFault(
  mapping: PartitionMapping,
  downstream: MaybePartitioned,
  upstream: MaybePartitioned,
): string | null {
  if (mapping.type === "all") return null;
  if (downstream === null || upstream === null) {
    if (mapping.type === "identity" && downstream === upstream) return null;
    return (
      `The mapping ${mapping.type} needs partitions on both sides; use "all" where one side has ` +
      "none."
    );
  }
  switch (mapping.type) {
    case "identity":
      return identityFault(downstream, upstream);
    case "time_window":
      if (isTimeDefinition(downstream) && isTimeDefinition(upstream)) return null;
      return (
        "The mapping time_window needs hourly, daily, weekly, monthly or cron partitions on both " +
        `sides, not ${downstream.type} and ${upstream.type}.`
      );
    case "offset":
      return offsetFault(downstream, upstream);
    case "dimension":
      return dimensionFault(mapping.dimension, downstream, upstream);
    case "table":
      return null;
    default:
      return unreachable(mapping);
  }
}

/**
 * Whether each downstream partition is made from exactly the upstream partition with its ordinal,
 * so that both can be part of one backfill.
 */
export function isOneToOne(
  mapping: PartitionMapping,
  downstream: MaybePartitioned,
  upstream: MaybePartitioned,
): boolean {
  if (!isSameDefinition(downstream, upstream)) return false;
  switch (mapping.type) {
    case "identity":
      return true;
    case "time_window":
      return mapping.start_offset === 0 && mapping.end_offset === 0;
    case "offset":
      return mapping.by === 0;
    case "dimension":
      return downstream !== null && downstream.type !== "multi";
    case "all":
      return downstream === null;
    case "table":
      return false;
    default:
      return unreachable(mapping);
  }
}

/** Whether the mapping leads to nothing but earlier partitions, where both sides are the same asset. */
export function isEarlier(mapping: PartitionMapping): boolean {
  if (mapping.type === "offset") return mapping.by < 0;
  return mapping.type === "time_window" && mapping.end_offset < 0;
}

/** The mapping meant when none is given, or null when a person has to say. */
export function defaultMapping(
  downstream: MaybePartitioned,
  upstream: MaybePartitioned,
): PartitionMapping | null {
  if (isSameDefinition(downstream, upstream)) return { type: "identity" };
  if (downstream === null || upstream === null) return { type: "all" };
  if (isTimeDefinition(downstream) && isTimeDefinition(upstream)) {
    return { type: "time_window", start_offset: 0, end_offset: 0 };
  }
  if (identityFault(downstream, upstream) === null) return { type: "identity" };
  if ((downstream.type === "multi") === (upstream.type === "multi")) return null;
  const [several, one] =
    downstream.type === "multi" ? [downstream, upstream] : [upstream, downstream];
  const fitting = dimensionsOf(several).filter(
    ({ definition }) => one.type !== "multi" && isSameGrid(definition, one),
  );
  const [only] = fitting;
  return only !== undefined && fitting.length === 1
    ? { type: "dimension", dimension: only.name }
    : null;
}

function identityFault(
  downstream: PartitionDefinition,
  upstream: PartitionDefinition,
): string | null {
  const down = dimensionsOf(downstream);
  const up = dimensionsOf(upstream);
  const alike =
    down.length === up.length &&
    down.every(({ name, definition }, at) => {
      const other = up[at];
      if (other === undefined || other.name !== name) return false;
      if (definition.type === "static") return other.definition.type === "static";
      return isSameGrid(definition, other.definition);
    });
  if (alike) return null;
  return (
    "The mapping identity needs definitions with the same kind of keys on both sides, not " +
    `${nameOf(downstream)} and ${nameOf(upstream)}.`
  );
}

function offsetFault(
  downstream: PartitionDefinition,
  upstream: PartitionDefinition,
): string | null {
  if (downstream.type === "multi" || upstream.type === "multi") {
    return "The mapping offset needs one dimension on both sides.";
  }
  if (isSameDefinition(downstream, upstream)) return null;
  if (isTimeDefinition(downstream) && isSameGrid(downstream, upstream)) return null;
  return (
    `The mapping offset needs the same definition on both sides, not ${nameOf(downstream)} and ` +
    `${nameOf(upstream)}.`
  );
}

function dimensionFault(
  dimension: string,
  downstream: PartitionDefinition,
  upstream: PartitionDefinition,
): string | null {
  if (downstream.type !== "multi" && upstream.type !== "multi") {
    return `The mapping dimension ${dimension} needs several dimensions on at least one side.`;
  }
  for (const definition of [downstream, upstream]) {
    if (definition.type !== "multi" || dimension in definition.dimensions) continue;
    const hint = suggestion(dimension, Object.keys(definition.dimensions));
    return `There is no dimension ${dimension} in ${nameOf(definition)}${hint}.`;
  }
  return null;
}

function nameOf(definition: PartitionDefinition): string {
  if (definition.type !== "multi") return definition.type;
  const parts = dimensionsOf(definition).map(
    ({ name, definition: { type } }) => `${name}: ${type}`,
  );
  return `multi (${parts.join(", ")})`;
}
