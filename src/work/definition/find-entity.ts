import { PawlError } from "../../kernel/errors.ts";
import type { Rows } from "../rows.ts";
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

/** The refusal of what is not there. */
export function entityNotFound(kind: keyof EntityRows, idOrName: string): PawlError {
  return new PawlError(
    NOT_FOUND[kind],
    `There is no ${kind} ${JSON.stringify(idOrName)}. \`pawl ${kind} list\` shows those there are.`,
    { details: { [kind]: idOrName } },
  );
}

/** Refuses a version that is not the current one, and a state in which the action makes no sense. */
export function checkEntity<State extends string>(
  kind: keyof EntityRows,
  row: { name: string; state: State; state_version: number },
  command: { expected_state_version?: number | undefined },
  action: string,
  legal: readonly State[],
): void {
  const expected = command.expected_state_version;
  const name = `${kind.charAt(0).toUpperCase()}${kind.slice(1)} ${row.name}`;
  const { state, state_version } = row;
  if (expected !== undefined && expected !== state_version) {
    throw new PawlError(
      "STATE_VERSION_MISMATCH",
      `${name} is at state version ${state_version} (${state}), not ${expected}. ` +
        "Look at it again, then decide.",
      { details: { expected_state_version: expected, state_version, state } },
    );
  }
  if (legal.includes(state)) return;
  throw new PawlError(
    "STATE_ILLEGAL",
    `${name} is ${state}; ${action} is possible only while it is ${legal.join(" or ")}.`,
    { details: { state, state_version, legal } },
  );
}
