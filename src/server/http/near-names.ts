import type { Engine } from "../../engine/engine.ts";
import { type ErrorCode, PawlError } from "../../kernel/errors.ts";
import { nearMiss } from "../../kernel/message-text.ts";
import { DEFINITIONS, type DefinitionRow } from "../../work/definition/rows.ts";
import type { Caller } from "./authenticate.ts";

/** Most names that are looked through. */
const NAMES_MAX = 1_000;

/** Refusals of names, the kind of definition that is named, and the detail that has the name. */
const NAMED: Partial<Record<ErrorCode, { kind: DefinitionRow["kind"]; field: string }>> = {
  ASSET_NOT_FOUND: { kind: "asset", field: "asset_key" },
  MOVE_NOT_FOUND: { kind: "move", field: "move" },
  SCHEDULE_NOT_FOUND: { kind: "schedule", field: "schedule" },
  SENSOR_NOT_FOUND: { kind: "sensor", field: "sensor" },
  SYNC_NOT_FOUND: { kind: "sync", field: "sync" },
  WEBHOOK_NOT_FOUND: { kind: "webhook", field: "webhook" },
};

/**
 * The refusal of a name that there is not, with the one of the caller's own workspace that was
 * probably meant; any other error as it is, and so for callers that may not read names.
 */
export async function withNearName(
  engine: Engine,
  { verbs }: Caller,
  error: unknown,
): Promise<unknown> {
  if (!(error instanceof PawlError) || !verbs.includes("read")) return error;
  const { kind, field } = NAMED[error.code] ?? {};
  const name = error.details[field ?? ""];
  if (kind === undefined || typeof name !== "string") return error;
  const meant = nearMiss(name, await namesOf(engine, kind));
  if (meant === null) return error;
  const { code, message, details, cause } = error;
  const first = `${JSON.stringify(name)}. `;
  // As a function: a name may hold what a replacement takes for a pattern.
  const told = message.replace(first, () => `${first}Did you mean ${meant}? `);
  return new PawlError(code, told, { cause, details: { ...details, meant } });
}

async function namesOf(engine: Engine, kind: DefinitionRow["kind"]): Promise<string[]> {
  try {
    const where = [{ cell: "kind", is: "=", value: kind }] as const;
    const named = await engine.read((reader) =>
      reader.find({ table: DEFINITIONS, where, order: [{ cell: "name" }], limit: NAMES_MAX }),
    );
    return named.map((row) => row.name);
  } catch {
    // The refusal is what counts; a store that cannot be read tells of itself.
    return [];
  }
}
