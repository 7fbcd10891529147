import { z } from "zod";
import { DimensionName } from "./partition-definition.ts";

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
