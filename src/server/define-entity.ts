import {
  createEntity,
  deleteEntity,
  type EntityPut,
  updateEntity,
} from "../controllers/put-entity.ts";
import { PawlError } from "../core/errors.ts";
import type { EntitySpec } from "../core/published-spec.ts";
import { type Call, type Reply, submitted } from "./call.ts";
import { expectedVersion } from "./expected-version.ts";

type Kind = EntitySpec["kind"];

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
  kind: Kind,
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
export function deletedEntity(call: About, kind: Kind, idOrName: string): Promise<Reply> {
  const change = { id: idOrName, ...expectedVersion(call) };
  return submitted(call, deleteEntity(kind, change), answerOf(kind, "was deleted"));
}

function answerOf(kind: Kind, happened: string, note = "") {
  return ({ id, ...rest }: EntityPut) => ({
    message: `${titleOf(kind)} ${rest.name} ${happened}.${note}`,
    [`${kind}_id`]: id,
    ...rest,
  });
}

/** The kind as a sentence begins. */
export function titleOf(kind: Kind): string {
  return `${kind.charAt(0).toUpperCase()}${kind.slice(1)}`;
}
