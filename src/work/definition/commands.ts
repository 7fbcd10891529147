import { canonicalJson } from "../../kernel/canonical.ts";
import { PawlError } from "../../kernel/errors.ts";
import { currentAsset, needAssets } from "../asset/look-up.ts";
import { checkLegal, checkVersion, type Expecting } from "../command.ts";
import type { Decide } from "../decision.ts";
import type { Rows } from "../rows.ts";
import type { SensorState } from "../sensor/rows.ts";
import { commandedEntity, entityNotFound, knownEntity } from "./find-entity.ts";
import { allDefinitions, publicationOf } from "./publish.ts";
import type { EntitySpec } from "./published-spec.ts";
import { ENTITY_RULES } from "./rules.ts";
import { type AssetCatalogue, namedAssets, validateEntity } from "./validate.ts";

/** Where something that acts by itself stands after it was made, changed or deleted. */
export type EntityPut = {
  id: string;
  name: string;
  state: string;
  state_version: number;
  definition_version: number;
};

type Kind = EntitySpec["kind"];

/** The name of the thing, as a sentence about it begins. */
function titleOf(kind: Kind, name: string): string {
  return `The ${kind} ${name}`;
}

/** Makes a schedule, a sensor or a webhook that no code defines. */
export function createEntity(spec: EntitySpec): Decide<EntityPut> {
  return (rows, context) => {
    const existing = rows.definitions.get(spec.kind, spec.name);
    if (existing !== null) {
      throw new PawlError(
        "NAME_TAKEN",
        `There is a ${spec.kind} ${spec.name} already, made by ` +
          `${existing.origin === "api" ? "the API" : "code"}. Change that one, or choose another name.`,
        { details: { kind: spec.kind, name: spec.name, id: existing.entity_id } },
      );
    }
    validateEntity(spec, catalogueFor(rows, spec));
    const spec_hash = context.hash.sha256(canonicalJson(spec));
    const changed = [{ spec, row: null, spec_hash }];
    const { events, result } = publicationOf(
      rows,
      { origin: "api", changed, removed: [] },
      context,
    );
    const published = events.find(({ type }) => type === "DefinitionsPublished");
    const entity =
      published?.type === "DefinitionsPublished" ? published.data.specs[0]?.entity : undefined;
    return {
      events,
      result: {
        id: entity?.id ?? "",
        name: spec.name,
        state: spec.enabled ? "ACTIVE" : "PAUSED",
        state_version: 1,
        definition_version: result.definition_version,
      },
    };
  };
}

/** A change of what the API made; the version, when given, must be the current one. */
export type EntityChange = Expecting & { id: string };

/** Gives what the API made another definition; its name and its past stay. */
export function updateEntity(
  kind: Kind,
  change: EntityChange,
  respec: (current: EntitySpec) => EntitySpec,
): Decide<EntityPut> {
  return (rows, context) => {
    const { row, definition, body } = changeable(rows, kind, change, "update");
    const spec = respec(body);
    validateEntity(spec, catalogueFor(rows, spec));
    const spec_hash = context.hash.sha256(canonicalJson(spec));
    const { name, id } = row;
    if (spec_hash === row.spec_hash) {
      const { state, state_version, definition_version } = row;
      return { events: [], result: { id, name, state, state_version, definition_version } };
    }
    const changed = [{ spec, row: definition, spec_hash }];
    const { events, result } = publicationOf(
      rows,
      { origin: "api", changed, removed: [] },
      context,
    );
    const switches = body.enabled !== spec.enabled;
    const state = switches ? (spec.enabled ? "ACTIVE" : "PAUSED") : row.state;
    const steps = kind !== "webhook" && switches && state !== row.state ? 2 : 1;
    const state_version = row.state_version + steps;
    return {
      events,
      result: { id, name, state, state_version, definition_version: result.definition_version },
    };
  };
}

/** Deletes what the API made; what it did stays in the ledger. */
export function deleteEntity(kind: Kind, change: EntityChange): Decide<EntityPut> {
  return (rows, context) => {
    const { row, definition } = changeable(rows, kind, change, "delete");
    const { events, result } = publicationOf(
      rows,
      { origin: "api", changed: [], removed: [definition] },
      context,
    );
    const { id, name } = row;
    const state_version = row.state_version + 1;
    const { definition_version } = result;
    return { events, result: { id, name, state: "DELETED", state_version, definition_version } };
  };
}

function changeable(
  rows: Rows,
  kind: Kind,
  change: EntityChange,
  command: keyof typeof ENTITY_RULES,
) {
  const found = knownEntity(rows, kind, change.id);
  const subject = commandedEntity<SensorState>(kind);
  checkVersion(subject, found, change);
  checkLegal(subject, ENTITY_RULES[command], found, found);
  const definition = rows.definitions.get(kind, found.name);
  const body = rows.specs.get(found.spec_hash)?.body;
  if (definition === null || body === undefined || body.kind !== kind) {
    throw entityNotFound(kind, change.id);
  }
  if (definition.origin === "code") {
    throw new PawlError(
      "DEFINITION_INVALID",
      `${titleOf(kind, found.name)} is defined by code; change it there and publish it with ` +
        "`pawl deploy`. Pausing and resuming work from here too.",
      { details: { kind, name: found.name } },
    );
  }
  const id =
    "schedule_id" in found
      ? found.schedule_id
      : "sensor_id" in found
        ? found.sensor_id
        : found.webhook_id;
  return { row: { ...found, id }, definition, body };
}

/** The assets that are defined now, of which those that the spec names are loaded at once. */
function catalogueFor(rows: Rows, spec: EntitySpec): AssetCatalogue {
  needAssets(rows, namedAssets(spec));
  return {
    get: (assetKey) =>
      rows.definitions.get("asset", assetKey) === null ? null : currentAsset(rows, assetKey).spec,
    names: () => allDefinitions(rows).flatMap(({ kind, name }) => (kind === "asset" ? [name] : [])),
  };
}
