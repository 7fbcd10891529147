import type { Table } from "../kernel/table.ts";
import {
  createEntity,
  deleteEntity,
  type EntityPut,
  updateEntity,
} from "../work/definition/commands.ts";
import { PawlError } from "../kernel/errors.ts";
import type { EntitySpec } from "../work/definition/published-spec.ts";
import { type Call, expectedVersion, type Reply, submitted } from "./http/call.ts";
import { entityNotFound, type EntityRows } from "../work/definition/find-entity.ts";
import { DEFINITIONS } from "../work/definition/rows.ts";
import { SCHEDULES } from "../work/schedule/rows.ts";
import { SENSORS, WEBHOOKS } from "../work/sensor/rows.ts";
import type { Reader } from "../store/store.ts";

type EntityKind = EntitySpec["kind"];

type Submitting = Pick<
  Call<"createBackfill">,
  "server" | "engine" | "caller" | "correlationId" | "idempotency"
>;

/** A request about one thing that acts by itself, which may say the version it is for. */
type About = Submitting & Parameters<typeof expectedVersion>[0];

/** Makes a schedule, a sensor or a webhook. */
export function createdEntity(call: Submitting, spec: EntitySpec, note = ""): Promise<Reply> {
  return submitted(call, createEntity(spec), answerOf(spec.kind, "was created", note));
}

/** Gives what the API made another definition; a name, when given, must be its own. */
export function updatedEntity(
  call: About,
  kind: EntityKind,
  idOrName: string,
  spec: (name: string) => EntitySpec,
  name: string | undefined,
  note = "",
): Promise<Reply> {
  const respec = (current: EntitySpec): EntitySpec => {
    if (name === undefined || name === current.name) return spec(current.name);
    throw new PawlError(
      "DEFINITION_INVALID",
      `The ${kind} ${current.name} keeps its name, so it cannot become ${name}. ` +
        "Make a new one and delete this one.",
      { details: { kind, name: current.name, new_name: name } },
    );
  };
  const change = { id: idOrName, ...expectedVersion(call) };
  return submitted(call, updateEntity(kind, change, respec), answerOf(kind, "was changed", note));
}

/** Deletes what the API made. */
export function deletedEntity(call: About, kind: EntityKind, idOrName: string): Promise<Reply> {
  const change = { id: idOrName, ...expectedVersion(call) };
  return submitted(call, deleteEntity(kind, change), answerOf(kind, "was deleted"));
}

function answerOf(kind: EntityKind, happened: string, note = "") {
  return ({ id, ...rest }: EntityPut) => ({
    message: `${titleOf(kind)} ${rest.name} ${happened}.${note}`,
    [`${kind}_id`]: id,
    ...rest,
  });
}

/** The kind as a sentence begins. */
export function titleOf(kind: EntityKind): string {
  return `${kind.charAt(0).toUpperCase()}${kind.slice(1)}`;
}

const TABLES: { readonly [Kind in keyof EntityRows]: Table<EntityRows[Kind]> } = {
  schedule: SCHEDULES,
  sensor: SENSORS,
  webhook: WEBHOOKS,
};

/** What was ever under an id, or else is defined under a name; null when there is none. */
export async function findEntityRow<Kind extends keyof EntityRows>(
  reader: Reader,
  kind: Kind,
  idOrName: string,
): Promise<EntityRows[Kind] | null> {
  const find = async (id: string) => {
    const [row] = await reader.load<EntityRows[Kind]>(TABLES[kind], [[id]]);
    return row ?? null;
  };
  const found = await find(idOrName);
  if (found !== null) return found;
  const [named] = await reader.load(DEFINITIONS, [[kind, idOrName]]);
  const id = named?.entity_id ?? null;
  return id === null ? null : find(id);
}

/** The same, but refuses what is not there. */
export async function knownEntityRow<Kind extends keyof EntityRows>(
  reader: Reader,
  kind: Kind,
  idOrName: string,
): Promise<EntityRows[Kind]> {
  const row = await findEntityRow(reader, kind, idOrName);
  if (row === null) throw entityNotFound(kind, idOrName);
  return row;
}
