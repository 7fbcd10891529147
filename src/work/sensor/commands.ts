import { PawlError } from "../../kernel/errors.ts";
import type { NewEvent } from "../events.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import { isLedgerWatch, parseLedgerCursor } from "./poll.ts";
import type { Rows } from "../rows.ts";
import type { SensorRow, SensorState } from "./rows.ts";
import { type Commanded, commandsAbout, type CommandTable, type Expecting } from "../command.ts";
import { commandedEntity, knownEntity } from "../definition/find-entity.ts";
import { SENSOR_RULES } from "../definition/rules.ts";
import { sensorSpec } from "./evaluate.ts";

/** A command about one sensor, by id or name; the version, when given, must be the current one. */
export type SensorCommand = Expecting & { sensor: string; reason?: string | undefined };

/** Where the sensor is after a command. */
export type SensorChanged = {
  sensor_id: string;
  name: string;
  state: SensorState;
  state_version: number;
  cursor: string | null;
};

const SENSOR: Commanded<SensorRow, SensorState, SensorRow, { sensor: string }> = {
  ...commandedEntity<SensorState>("sensor"),
  known: (rows, { sensor }) => knownEntity(rows, "sensor", sensor),
  factsOf: (row) => row,
};

const command = commandsAbout(SENSOR);

type Changing = { sensor_id: string; state_version: number };

function changed(
  row: SensorRow,
  now: Partial<SensorChanged>,
  eventOf: (changing: Changing) => Pick<NewEvent, "type" | "data">,
): { events: NewEvent[]; result: SensorChanged } {
  const { sensor_id, name, state, cursor } = row;
  const state_version = row.state_version + 1;
  const idempotency_key = IDEMPOTENCY_KEYS.entityState("sensor", sensor_id, state_version);
  const event = { idempotency_key, ...eventOf({ sensor_id, state_version }) } as NewEvent;
  return { events: [event], result: { sensor_id, name, state, state_version, cursor, ...now } };
}

function refuseUnfit(rows: Rows, row: SensorRow, cursor: string | null): void {
  if (row.mode === "push") {
    throw new PawlError(
      "INPUT_INVALID",
      `Sensor ${row.name} is pushed to and has no cursor; there is nothing to move.`,
      { details: { sensor: row.name, mode: row.mode } },
    );
  }
  if (cursor === null || !isLedgerWatch(sensorSpec(rows, row).watch)) return;
  if (parseLedgerCursor(cursor) !== null) return;
  throw new PawlError(
    "INPUT_INVALID",
    `Sensor ${row.name} watches the ledger, so its cursor is a position there such as "120", not ` +
      `${JSON.stringify(cursor)}.`,
    { details: { sensor: row.name, cursor } },
  );
}

/** Everything that can be asked of a sensor, but for its definition and its secret. */
export const SENSOR_COMMANDS = {
  pause: command(SENSOR_RULES.pause, (row, said: SensorCommand) =>
    changed(row, { state: "PAUSED" }, (changing) => ({
      type: "SensorPaused",
      data: { ...changing, reason: said.reason ?? null },
    })),
  ),
  resume: command<SensorCommand, SensorChanged>(SENSOR_RULES.resume, (row) =>
    changed(row, { state: "ACTIVE" }, (data) => ({ type: "SensorResumed", data })),
  ),
  /** Null for the start, or any earlier value. */
  "reset-cursor": command(
    SENSOR_RULES["reset-cursor"],
    (row, said: SensorCommand & { cursor: string | null }, rows) => {
      const { cursor, reason = null } = said;
      refuseUnfit(rows, row, cursor);
      return changed(row, { cursor }, (changing) => ({
        type: "SensorCursorReset",
        data: { ...changing, cursor_before: row.cursor, cursor, reason },
      }));
    },
  ),
} satisfies CommandTable<SensorRow, SensorState>;

export const pauseSensor = SENSOR_COMMANDS.pause.decide;
export const resumeSensor = SENSOR_COMMANDS.resume.decide;
export const resetCursor = SENSOR_COMMANDS["reset-cursor"].decide;
