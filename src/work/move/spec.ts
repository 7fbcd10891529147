import { z } from "zod";
import { AssetKey, DurationMs } from "../definition/spec.ts";
import { Topology } from "../shard/spec.ts";

/** How a table is cut into segments. */
export const MoveStrategy = z.discriminatedUnion("type", [
  /** Equal width of an integer key; so many segments a table. */
  z.strictObject({ type: z.literal("uniform"), segments: z.int().min(1).max(10_000).default(16) }),
  /** Equal numbers of rows. */
  z.strictObject({
    type: z.literal("cardinality"),
    rows: z.int().min(1).max(100_000_000).default(100_000),
  }),
  /** As `cardinality`, and a segment that takes longer than this is split where it has got to. */
  z.strictObject({
    type: z.literal("adaptive"),
    rows: z.int().min(1).max(100_000_000).default(100_000),
    target_ms: DurationMs.min(100).default(30_000),
  }),
]);
export type MoveStrategy = z.infer<typeof MoveStrategy>;

/** What is moved from where to where, and how hard. */
export const MovePlan = z.strictObject({
  from: Topology,
  to: Topology,
  /** All tables of the shards when absent. */
  tables: z.array(z.string().min(1).max(200)).min(1).max(500).optional(),
  strategy: MoveStrategy.default({ type: "cardinality", rows: 100_000 }),
  segment_concurrency: z.int().min(1).max(64).default(4),
  /** Most rows in a second, by all workers together; null for no limit. */
  rows_per_second: z.int().min(1).nullable().default(null),
  /** Copying waits while a replica of the target is further behind than this; null not to look. */
  replication_lag_ms: DurationMs.min(1).nullable().default(null),
  /** Failures after which a segment is poisoned. */
  segment_attempts: z.int().min(1).max(1_000).default(5),
  /** Failures of all segments together after which the move pauses; null for no limit. */
  retry_budget: z.int().min(1).nullable().default(null),
  /** Leave the rows on the shards that they came from. */
  keep_source: z.boolean().default(false),
});
export type MovePlan = z.infer<typeof MovePlan>;

/** A move as published: a plan with a name. */
export const MoveSpec = z.strictObject({
  kind: z.literal("move"),
  name: AssetKey,
  description: z.string().max(2_000).optional(),
  ...MovePlan.shape,
});
export type MoveSpec = z.infer<typeof MoveSpec>;
