import type { ErrorCode, PawlError } from "../../kernel/errors.ts";
import { notFound, type Subject } from "../command.ts";
import type { Rows } from "../rows.ts";
import type { DefinitionRow } from "./rows.ts";
import type { ScheduleRow } from "../schedule/rows.ts";
import type { SensorRow, WebhookRow } from "../sensor/rows.ts";

/** The row of what acts by itself, by its kind. */
export type EntityRows = { schedule: ScheduleRow; sensor: SensorRow; webhook: WebhookRow };

/** What was ever under an id, or else is defined under a name; null when there is none. */
export function findEntity<Kind extends keyof EntityRows>(
  rows: Rows,
  kind: Kind,
  idOrName: string,
): EntityRows[Kind] | null {
  const tables = { schedule: rows.schedules, sensor: rows.sensors, webhook: rows.webhooks };
  const find = (id: string) => tables[kind].get(id) as EntityRows[Kind] | null;
  // A name may look like the id of another, and must not stand in its place.
  const found = find(idOrName);
  if (found !== null) return found;
  const id = rows.definitions.get(kind, idOrName)?.entity_id ?? null;
  return id === null ? null : find(id);
}

/** The same, but refuses what is not there. */
export function knownEntity<Kind extends keyof EntityRows>(
  rows: Rows,
  kind: Kind,
  idOrName: string,
): EntityRows[Kind] {
  const row = findEntity(rows, kind, idOrName);
  if (row !== null) return row;
  throw entityNotFound(kind, idOrName);
}

const NOT_FOUND = {
  schedule: "SCHEDULE_NOT_FOUND",
  sensor: "SENSOR_NOT_FOUND",
  webhook: "WEBHOOK_NOT_FOUND",
} as const;

/** Which definition a refusal of a name is about, and the detail that has the name. */
export const REFUSED_NAMES: Partial<
  Record<ErrorCode, { kind: DefinitionRow["kind"]; field: string }>
> = {
  ASSET_NOT_FOUND: { kind: "asset", field: "asset_key" },
  MOVE_NOT_FOUND: { kind: "move", field: "move" },
  SCHEDULE_NOT_FOUND: { kind: "schedule", field: "schedule" },
  SENSOR_NOT_FOUND: { kind: "sensor", field: "sensor" },
  SYNC_NOT_FOUND: { kind: "sync", field: "sync" },
  WEBHOOK_NOT_FOUND: { kind: "webhook", field: "webhook" },
};

/** The refusal of what is not there. */
export function entityNotFound(kind: keyof EntityRows, idOrName: string): PawlError {
  return notFound(NOT_FOUND[kind], kind, idOrName);
}

/** What acts by itself, as refusals of commands about it speak of it. */
export function commandedEntity<State extends string>(
  kind: keyof EntityRows,
): Subject<{ name: string; state: State; state_version: number }, State> {
  return {
    title: ({ name }) => `${kind.charAt(0).toUpperCase()}${kind.slice(1)} ${name}`,
    stateOf: ({ state }) => state,
    details: ({ state, state_version }) => ({ state, state_version }),
  };
}
