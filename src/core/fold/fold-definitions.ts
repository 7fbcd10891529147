import { assert } from "../assert.ts";
import type { Spec } from "../spec.ts";
import type { Folding } from "./fold.ts";

/** What a spec is called within its kind. */
export function nameOfSpec(spec: Spec): string {
  return spec.kind === "asset" ? spec.asset_key : spec.pool;
}

const definitionsPublished: Folding<"DefinitionsPublished"> = {
  subject: () => 0,
  touches: ({ specs, removed }) => [
    ["workspace", ["workspace"]],
    ...specs.flatMap(({ spec_hash, name, body }) => [
      ["specs", [spec_hash]] as const,
      ["definitions", [body.kind, name]] as const,
    ]),
    ...removed.map(({ kind, name }) => ["definitions", [kind, name]] as const),
  ],
  apply(rows, { data, pos, occurred_at }) {
    const version = rows.workspace.get("workspace")?.definition_version ?? 0;
    assert(data.definition_version === version + 1, "definition versions grow by one");
    rows.workspace.put({
      id: "workspace",
      definition_version: data.definition_version,
      row_version: pos,
    });
    for (const { spec_hash, name, body } of data.specs) {
      if (rows.specs.get(spec_hash) === null) {
        rows.specs.put({ spec_hash, kind: body.kind, name, body });
      }
      const before = rows.definitions.get(body.kind, name);
      const code_version = body.kind === "asset" ? body.code_version : null;
      const sameCode = before !== null && before.code_version === code_version;
      rows.definitions.put({
        kind: body.kind,
        name,
        spec_hash,
        origin: data.origin,
        definition_version: data.definition_version,
        published_at: occurred_at,
        code_version,
        code_version_at: sameCode ? before.code_version_at : occurred_at,
        row_version: pos,
      });
    }
    for (const { kind, name } of data.removed) {
      assert(rows.definitions.get(kind, name) !== null, "only what is defined can be removed");
      rows.definitions.delete(kind, name);
    }
  },
};

const partitionKeysAdded: Folding<"PartitionKeysAdded"> = {
  subject: () => 0,
  touches: ({ definition }) => [["dynamicDefinitions", [definition]]],
  apply(rows, { data, pos, occurred_at }) {
    const { definition, keys, first_ordinal } = data;
    const count = rows.dynamicDefinitions.get(definition)?.key_count ?? 0;
    assert(first_ordinal === count, "dynamic keys get the next ordinals");
    for (const [offset, partition_key] of keys.entries()) {
      const ordinal = first_ordinal + offset;
      rows.dynamicKeys.insert({ definition, ordinal, partition_key, added_at: occurred_at });
    }
    rows.dynamicDefinitions.put({ definition, key_count: count + keys.length, row_version: pos });
  },
};

/** The foldings of definitions. */
export const DEFINITION_FOLDS = {
  DefinitionsPublished: definitionsPublished,
  PartitionKeysAdded: partitionKeysAdded,
};
