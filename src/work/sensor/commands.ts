import { PawlError } from "../../kernel/errors.ts";
import type { NewEvent } from "../events.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import { isLedgerWatch, parseLedgerCursor } from "./ledger-watch.ts";
import type { Rows } from "../rows.ts";
import type { SensorRow, SensorState } from "./rows.ts";
import type { Decide } from "../decision.ts";
import { checkEntity, knownEntity } from "../definition/find-entity.ts";
import { sensorSpec } from "./evaluate.ts";

/** A command about one sensor, by id or name; the version, when given, must be the current one. */
export type SensorCommand = {
  sensor: string;
  expected_state_version?: number | undefined;
  reason?: string | undefined;
};

/** Where the sensor is after a command. */
export type SensorChanged = {
  sensor_id: string;
  name: string;
  state: SensorState;
  state_version: number;
  cursor: string | null;
};

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

/** Stops the sensor: nothing is asked for from here on. Messages that come are kept. */
export function pauseSensor(command: SensorCommand): Decide<SensorChanged> {
  return (rows) => {
    const row = knownEntity(rows, "sensor", command.sensor);
    checkEntity("sensor", row, command, "pause", ["ACTIVE", "ERROR"]);
    const reason = command.reason ?? null;
    return changed(row, { state: "PAUSED" }, (changing) => ({
      type: "SensorPaused",
      data: { ...changing, reason },
    }));
  };
}

/** Lets the sensor act again, from the cursor and the messages it had. */
export function resumeSensor(command: SensorCommand): Decide<SensorChanged> {
  return (rows) => {
    const row = knownEntity(rows, "sensor", command.sensor);
    checkEntity("sensor", row, command, "resume", ["PAUSED"]);
    return changed(row, { state: "ACTIVE" }, (data) => ({ type: "SensorResumed", data }));
  };
}

/** Moves the cursor: null for the start, or any earlier value. An evaluation under way is void then. */
export function resetCursor(
  command: SensorCommand & { cursor: string | null },
): Decide<SensorChanged> {
  return (rows) => {
    const row = knownEntity(rows, "sensor", command.sensor);
    checkEntity("sensor", row, command, "moving the cursor", ["ACTIVE", "ERROR", "PAUSED"]);
    const { cursor } = command;
    refuseUnfit(rows, row, cursor);
    const reason = command.reason ?? null;
    return changed(row, { cursor }, (changing) => ({
      type: "SensorCursorReset",
      data: { ...changing, cursor_before: row.cursor, cursor, reason },
    }));
  };
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
