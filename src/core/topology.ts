import { z } from "zod";
import { ShardName, TenantName } from "./shard-spec.ts";

/** Most buckets of a hashed topology. */
export const BUCKETS_MAX = 65_536;

/**
 * Where rows belong, by the value of the column that their table is sharded by: by tenant, by hash
 * (`bucketOf`), or by range of the column's own order.
 */
export const Topology = z.discriminatedUnion("by", [
  z.strictObject({
    by: z.literal("tenant"),
    tenants: z.record(TenantName, ShardName),
    /** Where everybody else is. */
    default: ShardName,
  }),
  z.strictObject({
    by: z.literal("hash"),
    /** The shard of each bucket: bucket i of as many as there are entries. */
    buckets: z.array(ShardName).min(1).max(BUCKETS_MAX),
  }),
  z.strictObject({
    by: z.literal("range"),
    /** In order: each holds what is below its bound and not below that of the one before. */
    ranges: z
      .array(z.strictObject({ below: z.string().min(1).max(500).nullable(), shard: ShardName }))
      .min(1)
      .max(10_000),
  }),
]);
export type Topology = z.infer<typeof Topology>;

/**
 * A test of the column that a table is sharded by. Values are texts, compared as the column's type;
 * a NULL passes none. `hash` takes the first 32 bits of the SHA-256 of the value's text, as an
 * unsigned number, modulo `modulus`.
 */
export const ScopeTest = z.discriminatedUnion("is", [
  z.strictObject({ is: z.literal("in"), values: z.array(z.string()) }),
  z.strictObject({
    is: z.literal("between"),
    /** The least value; null for no least. */
    from: z.string().nullable(),
    below: z.string().nullable(),
  }),
  z.strictObject({
    is: z.literal("hash"),
    modulus: z.int().min(1).max(BUCKETS_MAX),
    buckets: z.array(z.int().nonnegative()),
  }),
]);
export type ScopeTest = z.infer<typeof ScopeTest>;

/**
 * Which rows of a table are meant: those for which every part holds. A part holds when one of its
 * tests does, or, negated, when none does (a NULL then counts as in).
 */
export const Scope = z.array(
  z.strictObject({ any: z.array(ScopeTest), negate: z.boolean().default(false) }),
);
export type Scope = z.infer<typeof Scope>;

/** The rows of these tenants. */
export function tenantScope(tenants: readonly string[]): Scope {
  return [{ any: [{ is: "in", values: [...tenants] }], negate: false }];
}
