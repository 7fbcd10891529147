import { present } from "../core/assert.ts";
import type { SensorSpec } from "../core/automation-specs.ts";
import { PawlError } from "../core/errors.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { SensorRow } from "../core/rows/sensor-rows.ts";
import { entityNotFound, findEntity } from "./find-entity.ts";

/** The spec under which a sensor acts. */
export function sensorSpec(rows: Rows, row: SensorRow): SensorSpec {
  const { body } = present(rows.specs.get(row.spec_hash), `spec ${row.spec_hash} is kept`);
  if (body.kind === "sensor") return body;
  throw new PawlError("SENSOR_NOT_FOUND", `${row.spec_hash} is no sensor.`);
}

/** The sensor that an id or a name stands for; refuses an unknown one and a deleted one. */
export function livingSensor(rows: Rows, idOrName: string): SensorRow {
  const row = findEntity(rows, "sensor", idOrName);
  if (row === null || row.state === "DELETED") throw entityNotFound("sensor", idOrName);
  return row;
}
