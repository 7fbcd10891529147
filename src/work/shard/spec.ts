import { z } from "zod";
import { PawlError } from "../../kernel/errors.ts";
import { suggestion } from "../../kernel/message-text.ts";
import { DurationMs, RetryPolicy } from "../definition/spec.ts";
import type { MovePlan, MoveSpec } from "../move/spec.ts";

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

/** Checks the shards of a workspace against each other. Throws DEFINITION_INVALID. */
export function validateShards(spec: ShardsSpec): void {
  refuseTwice(
    "shard",
    spec.shards.map(({ shard }) => shard),
  );
  refuseTwice(
    "table",
    spec.tables.map(({ table }) => table),
  );
}

function refuseTwice(what: string, names: readonly string[]): void {
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice === undefined) return;
  throw new PawlError("DEFINITION_INVALID", `The shards name the ${what} ${twice} twice.`, {
    details: { kind: "shards", name: "shards", [what]: twice },
  });
}

/** Checks a move that code defines against the shards there are. Throws DEFINITION_INVALID. */
export function validateMove(move: MoveSpec, shards: ShardsSpec | null): void {
  const fault = planFault(move, shards);
  if (fault === null) return;
  throw new PawlError("DEFINITION_INVALID", `The move ${move.name} ${fault}`, {
    details: { kind: "move", name: move.name },
  });
}

/** What is wrong with a plan, as the end of a sentence; null when nothing is. */
export function planFault(
  plan: Pick<MovePlan, "to" | "tables" | "from">,
  shards: ShardsSpec | null,
): string | null {
  if (shards === null)
    return "needs shards, and the workspace has none: define them with shards().";
  const names = shards.shards.map(({ shard }) => shard);
  for (const [side, topology] of Object.entries({ from: plan.from, to: plan.to })) {
    const unknown = shardsOf(topology).find((shard) => !names.includes(shard));
    if (unknown !== undefined) {
      return `names the shard ${JSON.stringify(unknown)} in its topology \`${side}\`, which is not defined${suggestion(unknown, names)}.`;
    }
    const fault = topologyFault(topology);
    if (fault !== null) return `has a topology \`${side}\` ${fault}`;
  }
  const known = shards.tables.map(({ table }) => table);
  const missing = (plan.tables ?? []).find((table) => !known.includes(table));
  if (missing === undefined) return null;
  return `names the table ${JSON.stringify(missing)}, which the shards do not have${suggestion(missing, known)}.`;
}

/** The shards that a topology names, each once. */
export function shardsOf(topology: Topology): string[] {
  switch (topology.by) {
    case "tenant":
      return [...new Set([...Object.values(topology.tenants), topology.default])];
    case "hash":
      return [...new Set(topology.buckets)];
    case "range":
      return [...new Set(topology.ranges.map(({ shard }) => shard))];
  }
}

function topologyFault(topology: Topology): string | null {
  if (topology.by !== "range") return null;
  const open = topology.ranges.findIndex(({ below }) => below === null);
  const last = topology.ranges.length - 1;
  if (open === last) return null;
  return open === -1
    ? "whose last range ends somewhere: leave its `below` null, so that every key has a shard."
    : `with a range that never ends at place ${open}: only the last may have no \`below\`.`;
}

/** What something is doing now, in words, and which commands make sense. */
export const NextField = z.strictObject({
  text: z.string(),
  commands: z.array(z.strictObject({ command: z.string(), effect: z.string() })),
});
export type NextField = z.infer<typeof NextField>;
