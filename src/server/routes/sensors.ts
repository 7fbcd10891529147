import {
  pauseSensor,
  resetCursor,
  resumeSensor,
  type SensorChanged,
} from "../../controllers/change-sensor.ts";
import { checkEntity } from "../../controllers/find-entity.ts";
import { ORCHESTRATION_PATH } from "../../core/api/operation.ts";
import type { SensorSpec } from "../../core/automation-specs.ts";
import { PawlError } from "../../core/errors.ts";
import { SENSOR_EVALS, SENSOR_MESSAGES, SENSORS } from "../../core/rows/sensor-rows.ts";
import type { Condition } from "../../core/rows/table.ts";
import { evaluatorOf } from "../../engine/sensor-view.ts";
import { type Call, type Handler, readAt, type Reply, submitted } from "../call.ts";
import { createdEntity, deletedEntity, updatedEntity } from "../define-entity.ts";
import { evaluateByHand } from "../evaluate-by-hand.ts";
import { expectedVersion } from "../expected-version.ts";
import { knownEntityRow } from "../find-entity-row.ts";
import { listRows, withinTime } from "../list-rows.ts";
import { pushedMessages } from "../pushed-messages.ts";
import { evalDocuments, messageDocuments, sensorDocuments } from "../sensor-document.ts";
import { makeSecret } from "../signing-secrets.ts";

/** Refuses a sensor that would need code, which what the API makes has not. */
function withoutCode(spec: SensorSpec): SensorSpec {
  const { watch, target, mode } = spec;
  const fault =
    target === null
      ? "needs a target that says which run to ask for"
      : mode === "poll" && watch === null
        ? "needs a watch that says what to look at, or the mode push"
        : evaluatorOf(spec) !== "code"
          ? null
          : watch?.type === "rows"
            ? "needs database_env in its watch: the variable that holds the database's address"
            : `watches ${watch?.type}, which only code can list`;
  if (fault === null) return spec;
  throw new PawlError(
    "DEFINITION_INVALID",
    `The sensor ${spec.name} ${fault}. A sensor made by the API has no function; define one with ` +
      "sensor() in the project's code for that.",
    { details: { kind: "sensor", name: spec.name } },
  );
}

function listSensors(call: Call<"listSensors">): Promise<Reply> {
  const { status = ["ACTIVE", "PAUSED", "ERROR"], mode } = call.query;
  const where: Condition[] = [{ cell: "state", is: "in", values: status }];
  if (mode !== undefined) where.push({ cell: "mode", is: "=", value: mode });
  const list = { table: SENSORS, where, along: ["name", "sensor_id"] as const };
  return listRows(call, list, (rows, reader) => sensorDocuments(rows, reader, sourcesOf(call)));
}

function sourcesOf({ engine, server }: Pick<Call<"getSensor">, "engine" | "server">) {
  return { engine, store: server.store };
}

function getSensor(call: Call<"getSensor">): Promise<Reply> {
  return readAt(call, async (reader) => {
    const row = await knownEntityRow(reader, "sensor", call.params.sensor_id);
    const [answer] = await sensorDocuments([row], reader, sourcesOf(call));
    const { pos } = await reader.head();
    return { answer, pos };
  });
}

async function listEvals(call: Call<"listEvals">): Promise<Reply> {
  const { status } = call.query;
  const { sensor_id } = await readAt(call, (reader) =>
    knownEntityRow(reader, "sensor", call.params.sensor_id),
  );
  const where: Condition[] = [{ cell: "sensor_id", is: "=", value: sensor_id }];
  if (status !== undefined) where.push({ cell: "status", is: "in", values: status });
  where.push(...withinTime("evaluated_at", call.query));
  const list = { table: SENSOR_EVALS, where, along: ["pos"] as const, descending: true };
  return listRows(call, list, evalDocuments);
}

async function listMessages(call: Call<"listMessages">): Promise<Reply> {
  const { status } = call.query;
  const { sensor_id } = await readAt(call, (reader) =>
    knownEntityRow(reader, "sensor", call.params.sensor_id),
  );
  const where: Condition[] = [{ cell: "sensor_id", is: "=", value: sensor_id }];
  if (status !== undefined) where.push({ cell: "state", is: "in", values: status });
  where.push(...withinTime("received_at", call.query));
  const along = ["received_pos"] as const;
  return listRows(
    call,
    { table: SENSOR_MESSAGES, where, along, descending: true },
    messageDocuments,
  );
}

async function createSensorSecret(call: Call<"createSensorSecret">): Promise<Reply> {
  const { engine, server, params, body } = call;
  const { sensor_id, name, mode, state, state_version } = await engine.read((reader) =>
    knownEntityRow(reader, "sensor", params.sensor_id),
  );
  const row = { name, state, state_version };
  checkEntity("sensor", row, {}, "a new secret", ["ACTIVE", "PAUSED", "ERROR"]);
  if (mode !== "push") {
    throw new PawlError(
      "INPUT_INVALID",
      `Sensor ${name} looks by itself and takes no messages, so there is nothing to sign.`,
      { details: { sensor: name, mode } },
    );
  }
  const { ws } = engine.workspace;
  const owner = { ws, kind: "sensor", id: sensor_id } as const;
  const made = await makeSecret(server.store, owner, body.overlap_seconds);
  const push_path = `${ORCHESTRATION_PATH}/sensors/${sensor_id}/messages`;
  const message = `Sensor ${name} has a new secret. It is not shown again.`;
  return { answer: { message, sensor_id, name, push_path, ...made }, pos: null };
}

type Command = {
  params: { sensor_id: string };
  body: { expected_state_version?: number | undefined; reason?: string | undefined };
  header(name: string): string | undefined;
};

function commandOf(call: Command) {
  const { reason } = call.body;
  return { sensor: call.params.sensor_id, reason, ...expectedVersion(call) };
}

function nowIs(changed: SensorChanged) {
  return { message: `Sensor ${changed.name} is ${changed.state}.`, ...changed };
}

/** What can be done with sensors. */
export const SENSOR_HANDLERS: {
  createSensor: Handler<"createSensor">;
  listSensors: Handler<"listSensors">;
  getSensor: Handler<"getSensor">;
  updateSensor: Handler<"updateSensor">;
  deleteSensor: Handler<"deleteSensor">;
  listEvals: Handler<"listEvals">;
  evaluateSensor: Handler<"evaluateSensor">;
  listMessages: Handler<"listMessages">;
  pushMessages: Handler<"pushMessages">;
  pauseSensor: Handler<"pauseSensor">;
  resumeSensor: Handler<"resumeSensor">;
  resetCursor: Handler<"resetCursor">;
  createSensorSecret: Handler<"createSensorSecret">;
} = {
  createSensor: async (call) => {
    const { client_request_id: _, ...spec } = call.body;
    return createdEntity(call, withoutCode({ kind: "sensor", ...spec }));
  },
  listSensors,
  getSensor,
  updateSensor: (call) => {
    const { expected_state_version: _, name: given, ...spec } = call.body;
    const respec = (name: string) => withoutCode({ kind: "sensor", name, ...spec });
    return updatedEntity(call, "sensor", call.params.sensor_id, respec, given);
  },
  deleteSensor: (call) => deletedEntity(call, "sensor", call.params.sensor_id),
  listEvals,
  evaluateSensor: evaluateByHand,
  listMessages,
  pushMessages: pushedMessages,
  pauseSensor: (call) => submitted(call, pauseSensor(commandOf(call)), nowIs),
  resumeSensor: (call) => submitted(call, resumeSensor(commandOf(call)), nowIs),
  resetCursor: (call) =>
    submitted(call, resetCursor({ ...commandOf(call), cursor: call.body.cursor }), (changed) => ({
      ...changed,
      message:
        changed.cursor === null
          ? `Sensor ${changed.name} begins at the start again.`
          : `The cursor of sensor ${changed.name} was moved.`,
    })),
  createSensorSecret,
};
