import type { Instant } from "../../kernel/instant.ts";
import type { Spec } from "./published-spec.ts";
import type { Table } from "../../kernel/table.ts";

/** What the workspace as a whole remembers. There is one, with the id `workspace`. */
export type WorkspaceRow = {
  id: "workspace";
  definition_version: number;
  row_version: number;
};

/** The table of the workspace's own row. */
export const WORKSPACE: Table<WorkspaceRow> = {
  name: "workspace_state",
  key: ["id"],
  cells: { id: "text", definition_version: "int", row_version: "int" },
};

/** The current spec of a named thing: an asset, a pool, a schedule, a sensor, a webhook. */
export type DefinitionRow = {
  kind: Spec["kind"];
  name: string;
  spec_hash: string;
  origin: "code" | "api";
  definition_version: number;
  published_at: Instant;
  code_version: string | null;
  /** When this code version was first published: what staleness counts from. */
  code_version_at: Instant | null;
  /** The id of what acts by itself; null for assets and pools. */
  entity_id: string | null;
  row_version: number;
};

/** The table of current definitions. */
export const DEFINITIONS: Table<DefinitionRow> = {
  name: "definitions",
  key: ["kind", "name"],
  cells: {
    kind: "text",
    name: "text",
    spec_hash: "text",
    origin: "text",
    definition_version: "int",
    published_at: "text",
    code_version: "text",
    code_version_at: "text",
    entity_id: "text",
    row_version: "int",
  },
};

/** A spec's body under the hash of its canonical text; never changed, so it can be pinned. */
export type SpecRow = { spec_hash: string; kind: Spec["kind"]; name: string; body: Spec };

/** The table of spec bodies. */
export const SPECS: Table<SpecRow> = {
  name: "specs",
  key: ["spec_hash"],
  cells: { spec_hash: "text", kind: "text", name: "text", body: "json" },
};

/** How many keys a dynamic partition definition has. */
export type DynamicDefinitionRow = { definition: string; key_count: number; row_version: number };

/** The table of dynamic partition definitions. */
export const DYNAMIC_DEFINITIONS: Table<DynamicDefinitionRow> = {
  name: "dynamic_definitions",
  key: ["definition"],
  cells: { definition: "text", key_count: "int", row_version: "int" },
};

/** One key of a dynamic partition definition, under the ordinal it got when it was added. */
export type DynamicKeyRow = {
  definition: string;
  ordinal: number;
  partition_key: string;
  added_at: Instant;
};

/** The table of dynamic partition keys. */
export const DYNAMIC_KEYS: Table<DynamicKeyRow> = {
  name: "dynamic_keys",
  key: ["definition", "ordinal"],
  cells: { definition: "text", ordinal: "int", partition_key: "text", added_at: "text" },
};
