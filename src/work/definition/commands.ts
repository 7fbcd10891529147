import { canonicalJson } from "../../kernel/canonical.ts";
import { PawlError } from "../../kernel/errors.ts";
import { dimensionsOf } from "../../kernel/keyspace/definition.ts";
import { currentAsset, dynamicKeysOf, needAssets } from "../asset/look-up.ts";
import { checkLegal, checkVersion, type Expecting } from "../command.ts";
import type { Decide } from "../decision.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import type { Rows } from "../rows.ts";
import type { SensorState } from "../sensor/rows.ts";
import { commandedEntity, entityNotFound, knownEntity } from "./find-entity.ts";
import { allDefinitions, publicationOf } from "./publish.ts";
import type { EntitySpec } from "./published-spec.ts";
import { ENTITY_RULES } from "./rules.ts";
import type { AssetSpec } from "./spec.ts";
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

/** Keys for the dynamic partitions of an asset, or of one of its dimensions. */
export type AddKeysInput = {
  asset_key: string;
  request_id: string;
  keys: readonly string[];
  dimension?: string | undefined;
};

/** What became of the keys. */
export type KeysAdded = { definition: string; added: number; existing: number; count: number };

/** Adds keys to a dynamic partition definition; those it has already are left alone. */
export function addPartitionKeys(input: AddKeysInput): Decide<KeysAdded> {
  return (rows, { principal }) => {
    const { spec } = currentAsset(rows, input.asset_key);
    const definition = dynamicName(spec, input.dimension);
    const known = dynamicKeysOf(rows);
    const distinct = [...new Set(input.keys)];
    const ordinals = known.indexesOf(definition, distinct);
    const fresh = distinct.filter((_, at) => ordinals[at] === null);
    const count = known.count(definition);
    const existing = distinct.length - fresh.length;
    if (fresh.length === 0)
      return { events: [], result: { definition, added: 0, existing, count } };
    return {
      events: [
        {
          type: "PartitionKeysAdded",
          idempotency_key: IDEMPOTENCY_KEYS.partitionKeys(definition, principal, input.request_id),
          data: { definition, request_id: input.request_id, first_ordinal: count, keys: fresh },
        },
      ],
      result: { definition, added: fresh.length, existing, count: count + fresh.length },
    };
  };
}

function dynamicName(spec: AssetSpec, dimension: string | undefined): string {
  const dynamic =
    spec.partitions === null
      ? []
      : dimensionsOf(spec.partitions).filter((each) => each.definition.type === "dynamic");
  const picked =
    dimension === undefined && dynamic.length === 1
      ? dynamic[0]
      : dynamic.find(({ name }) => name === dimension);
  if (picked?.definition.type === "dynamic") return picked.definition.name;
  const names = dynamic.map(({ name }) => name).join(", ");
  throw new PawlError(
    "INPUT_INVALID",
    dynamic.length === 0
      ? `${spec.asset_key} has no dynamic partitions, so no key can be added to it.`
      : `Say which dimension of ${spec.asset_key} the keys are for: ${names}.`,
    { details: { asset_key: spec.asset_key, dimension: dimension ?? null } },
  );
}
