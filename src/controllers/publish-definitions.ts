import { canonicalJson } from "../core/canonical.ts";
import { PawlError } from "../core/errors.ts";
import { nameOfSpec } from "../core/fold/fold-definitions.ts";
import { IDEMPOTENCY_KEYS } from "../core/keys.ts";
import type { DefinitionRow } from "../core/rows/definition-rows.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { Spec } from "../core/spec.ts";
import { validateSpecs } from "../core/validate-specs.ts";
import type { Decide } from "./decision.ts";

/** Most definitions in a workspace. */
const DEFINITIONS_MAX = 100_000;

/** What somebody publishes; with `prune`, what the same origin made before and is not here goes. */
export type PublishInput = { origin: "code" | "api"; specs: readonly Spec[]; prune: boolean };

/** What became of it. */
export type Published = { definition_version: number; changed: string[]; removed: string[] };

/** Publishes specs: records those that are new or different, and nothing when all are known. */
export function publishDefinitions(input: PublishInput): Decide<Published> {
  return (rows, { hash }) => {
    const current = allDefinitions(rows);
    const currentByName = new Map(current.map((row) => [`${row.kind}:${row.name}`, row]));
    const published = new Map(
      input.specs.map((spec) => [`${spec.kind}:${nameOfSpec(spec)}`, spec]),
    );
    refuseForeign(input, currentByName);
    const removed = current.filter(
      (row) =>
        input.prune && row.origin === input.origin && !published.has(`${row.kind}:${row.name}`),
    );
    const changed = [...published].flatMap(([name, body]) => {
      const spec_hash = hash.sha256(canonicalJson(body));
      return currentByName.get(name)?.spec_hash === spec_hash
        ? []
        : [{ spec_hash, name: nameOfSpec(body), body }];
    });
    validateSpecs(resulting(rows, current, removed, published));
    const version = rows.workspace.get("workspace")?.definition_version ?? 0;
    if (changed.length === 0 && removed.length === 0) {
      return { events: [], result: { definition_version: version, changed: [], removed: [] } };
    }
    const definition_version = version + 1;
    return {
      events: [
        {
          type: "DefinitionsPublished",
          idempotency_key: IDEMPOTENCY_KEYS.definitions(definition_version),
          data: {
            definition_version,
            origin: input.origin,
            specs: changed,
            removed: removed.map(({ kind, name }) => ({ kind, name })),
          },
        },
      ],
      result: {
        definition_version,
        changed: changed.map(({ name }) => name),
        removed: removed.map(({ name }) => name),
      },
    };
  };
}

/** All current definitions, by name. */
export function allDefinitions(rows: Rows): DefinitionRow[] {
  return rows.definitions.find([], [{ cell: "kind" }, { cell: "name" }], DEFINITIONS_MAX);
}

/** What one origin made, the other may not overwrite. */
function refuseForeign(input: PublishInput, current: ReadonlyMap<string, DefinitionRow>): void {
  for (const spec of input.specs) {
    const row = current.get(`${spec.kind}:${nameOfSpec(spec)}`);
    if (row === undefined || row.origin === input.origin) continue;
    throw new PawlError(
      "DEFINITION_INVALID",
      `The ${spec.kind} ${row.name} was made by ${row.origin === "api" ? "the API" : "code"}; ` +
        "give yours another name.",
      { details: { kind: spec.kind, name: row.name, origin: row.origin } },
    );
  }
}

/** The specs as they will stand afterwards, so that they can be checked as a whole. */
function resulting(
  rows: Rows,
  current: readonly DefinitionRow[],
  removed: readonly DefinitionRow[],
  published: ReadonlyMap<string, Spec>,
): Spec[] {
  const kept = current.filter(
    (row) => !removed.includes(row) && !published.has(`${row.kind}:${row.name}`),
  );
  rows.specs.need(kept.map(({ spec_hash }) => [spec_hash]));
  const bodies = kept.flatMap(({ spec_hash }) => rows.specs.get(spec_hash)?.body ?? []);
  return [...bodies, ...published.values()];
}
