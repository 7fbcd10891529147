import type { Instant } from "../../kernel/instant.ts";
import type { Interval } from "../../kernel/intervals.ts";
import type { Spec } from "./published-spec.ts";
import { int, json, type RowIn, defineTable, text, textOf } from "../../kernel/table.ts";

/** The table of the workspace's own row. */
export const WORKSPACE = defineTable("workspace_state", ["id"], {
  id: textOf<"workspace">(),
  definition_version: int,
  row_version: int,
});

/** What the workspace as a whole remembers. There is one, with the id `workspace`. */
export type WorkspaceRow = RowIn<typeof WORKSPACE>;

/** The table of current definitions. */
export const DEFINITIONS = defineTable("definitions", ["kind", "name"], {
  kind: textOf<Spec["kind"]>(),
  name: text,
  spec_hash: text,
  origin: textOf<"code" | "api">(),
  definition_version: int,
  published_at: textOf<Instant>(),
  code_version: textOf<string | null>(),
  /** When this code version was first published: what staleness counts from. */
  code_version_at: textOf<Instant | null>(),
  /** The id of what acts by itself; null for assets and pools. */
  entity_id: textOf<string | null>(),
  row_version: int,
});

/** The current spec of a named thing: an asset, a pool, a schedule, a sensor, a webhook. */
export type DefinitionRow = RowIn<typeof DEFINITIONS>;

/** The table of spec bodies. */
export const SPECS = defineTable("specs", ["spec_hash"], {
  spec_hash: text,
  kind: textOf<Spec["kind"]>(),
  name: text,
  body: json<Spec>(),
});

/** A spec's body under the hash of its canonical text; never changed, so it can be pinned. */
export type SpecRow = RowIn<typeof SPECS>;

/** The table of dynamic partition definitions. */
export const DYNAMIC_DEFINITIONS = defineTable("dynamic_definitions", ["definition"], {
  definition: text,
  /** How many keys were ever added. */
  key_count: int,
  /** The numbers of those that are removed now; null for none. */
  removed: json<Interval[] | null>(),
  row_version: int,
});

/** How many keys a dynamic partition definition was given, and which of them are removed. */
export type DynamicDefinitionRow = RowIn<typeof DYNAMIC_DEFINITIONS>;

/** The table of dynamic partition keys. */
export const DYNAMIC_KEYS = defineTable("dynamic_keys", ["definition", "ordinal"], {
  definition: text,
  ordinal: int,
  partition_key: text,
  added_at: textOf<Instant>(),
});

/** One key of a dynamic partition definition, under the ordinal it got when it was added. */
export type DynamicKeyRow = RowIn<typeof DYNAMIC_KEYS>;
