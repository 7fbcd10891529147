import { z } from "zod";
import { DurationMs, RetryPolicy } from "./spec.ts";

/** The name of a shard, as routing policies and topologies write it. */
export const ShardName = z.string().regex(/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$/, {
  error: "must be 1 to 100 letters, digits, _ . - and start with a letter, a digit or _",
});

/** Whose rows are moved together: the value of the column that a table is sharded by, as text. */
export const TenantName = z.string().min(1).max(500);

/** A tenant as somebody names it anew: reports count rows by tenant, and no document has this key. */
export const NamedTenant = TenantName.refine((name) => name !== "__proto__", {
  error: "must not be __proto__, which no document can have as a key: give the tenant another name",
});

/** What a shard is kept in; a shard over HTTP is an SQLite file on another machine. */
export const ShardEngine = z.enum(["sqlite", "postgres"]);
export type ShardEngine = z.infer<typeof ShardEngine>;

/** A table that is spread over shards, and the column that says where a row belongs. */
export const TablePolicy = z.strictObject({
  table: z.string().min(1).max(200),
  shard_by: z.string().min(1).max(200),
});
export type TablePolicy = z.infer<typeof TablePolicy>;

/** Most tables that shards have in common. */
export const TABLES_MAX = 500;
/** Most shards of a workspace: a worker asks for the work of every pair of them. */
export const SHARDS_MAX = 100;

/** The retry policy of work on shards: without end, as a shard that is away comes back. */
export const SHARD_RETRY: RetryPolicy = Object.freeze(
  RetryPolicy.parse({ max_attempts: null, delay_ms: 500, max_delay_ms: 30_000 }),
);

/** The name under which the shards of a workspace are published: there is one set of them. */
export const SHARDS_NAME = "shards";

/**
 * The shards of a workspace as published: their names and what they have in common. Where they are,
 * only workers and routers know.
 */
export const ShardsSpec = z.strictObject({
  kind: z.literal("shards"),
  name: z.literal(SHARDS_NAME),
  shards: z
    .array(z.strictObject({ shard: ShardName, engine: ShardEngine }))
    .min(1)
    .max(SHARDS_MAX),
  /** In the order in which they are copied: a table after those that its foreign keys name. */
  tables: z.array(TablePolicy).min(1).max(TABLES_MAX),
  retry: RetryPolicy.default(SHARD_RETRY),
  timeout_ms: DurationMs.min(1).default(30 * 24 * 3_600_000),
  stall_after_ms: DurationMs.min(1).nullable().default(300_000),
  code_version: z.string().min(1).max(200).nullable().default(null),
});
export type ShardsSpec = z.infer<typeof ShardsSpec>;

/** The name under which workers ask for work between two shards, or on one of them. */
export function shardWorkName(shard: string, other: string = shard): string {
  const [first, second] = shard < other ? [shard, other] : [other, shard];
  return first === second ? `shards:${first}` : `shards:${first}+${second}`;
}

/** The names of all work that somebody who knows these shards can do. */
export function shardWorkNames(shards: readonly string[]): string[] {
  return shards.flatMap((shard, index) =>
    shards.slice(index).map((other) => shardWorkName(shard, other)),
  );
}
