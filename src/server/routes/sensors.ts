import {
  PAYLOAD_SHOWN_MAX,
  type SensorDocument,
  type SensorEvalDocument,
  type SensorMessageDocument,
  type SensorRunRequestDocument,
  type EvaluatedSensor,
} from "../../work/sensor/api.ts";
import type { SensorSpec } from "../../work/definition/spec.ts";
import { canonicalJson } from "../../kernel/canonical.ts";
import { addMs, type Instant, msBetween } from "../../kernel/instant.ts";
import { SPECS } from "../../work/definition/rows.ts";
import { type RunRow, RUNS } from "../../work/run/rows.ts";
import {
  SENSOR_MESSAGES,
  type SensorEvalRow,
  type SensorMessageRow,
  type SensorRow,
  type SensorRunRequest,
  SENSOR_EVALS,
  SENSORS,
} from "../../work/sensor/rows.ts";
import type { Engine } from "../../engine/engine.ts";
import {
  evaluatorOf,
  isLedgerWatch,
  manualOf,
  pollProbeId,
  sensorMemoryOf,
} from "../../work/sensor/poll.ts";
import type { Probe, Reader } from "../../store/store.ts";
import { liveSecrets, type SecretStore, makeSecret } from "../webhooks/signing.ts";
import { type EvaluationResult, livingSensor, sensorSpec } from "../../work/sensor/evaluate.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { SensorMessage } from "../../work/probe-protocol.ts";
import type { Rows } from "../../work/rows.ts";
import { type Call, commandRoutes, type Handlers, readAt, type Reply } from "../http/call.ts";
import {
  pauseSensor,
  resetCursor,
  resumeSensor,
  type SensorChanged,
} from "../../work/sensor/commands.ts";
import { checkLegal } from "../../work/command.ts";
import { commandedEntity } from "../../work/definition/find-entity.ts";
import { SENSOR_RULES } from "../../work/definition/rules.ts";
import { ORCHESTRATION_PATH } from "../../work/operation.ts";
import type { Condition } from "../../kernel/table.ts";
import { createdEntity, deletedEntity, updatedEntity, knownEntityRow } from "../entities.ts";
import { listRows, withinTime } from "../http/read-within.ts";
import { pushedMessages } from "../webhooks/admit-push.ts";

/** A worker that has not asked for so long is not there any more. */
const HEARD_MS = 120_000;

/** What documents of sensors are made with. */
export type SensorSources = { engine: Engine; store: SecretStore };

/** Sensors with their definitions, and how each is doing. */
export async function sensorDocuments(
  sensors: readonly SensorRow[],
  reader: Reader,
  sources: SensorSources,
): Promise<SensorDocument[]> {
  const now = await sources.store.now();
  const hashes = [...new Set(sensors.map(({ spec_hash }) => spec_hash))];
  const specs = await reader.load(
    SPECS,
    hashes.map((hash) => [hash]),
  );
  const specOf = new Map(specs.map(({ spec_hash, body }) => [spec_hash, body]));
  const probes = await reader.probes(sensors.map(({ sensor_id }) => pollProbeId(sensor_id)));
  const probeOf = new Map(probes.map((probe) => [probe.subject, probe]));
  const documents: SensorDocument[] = [];
  for (const row of sensors) {
    const spec = specOf.get(row.spec_hash);
    if (spec?.kind !== "sensor") continue;
    const probe = probeOf.get(row.sensor_id) ?? null;
    documents.push(await documentOf({ row, spec, probe, now }, reader, sources));
  }
  return documents;
}

type Known = { row: SensorRow; spec: SensorSpec; probe: Probe | null; now: Instant };

async function documentOf(
  known: Known,
  reader: Reader,
  { engine, store }: SensorSources,
): Promise<SensorDocument> {
  const { row, spec, probe, now } = known;
  const { kind: _kind, ...definition } = spec;
  const { ws } = engine.workspace;
  const owner = { ws, kind: "sensor", id: row.sensor_id } as const;
  const secrets = row.mode === "push" ? await liveSecrets(store, owner, now) : [];
  const memory = sensorMemoryOf(probe?.value ?? null);
  // What watches the ledger is due all the time, and looked at when there is something.
  const isPolled = row.mode === "poll" && isActing(row) && !isLedgerWatch(spec.watch);
  return {
    ...definition,
    ...row,
    last_looked_at: memory.looked_at,
    looks: memory.unchanged,
    next_due_at: isPolled && probe !== null ? readyAt(probe) : null,
    lag_seconds: (await lagMs(known, reader)) / 1_000,
    has_secret: secrets.length > 0,
    needs_function: evaluatorOf(spec) === "code",
    has_worker: hasWorker(engine, spec, now),
  };
}

function isActing({ state }: SensorRow): boolean {
  return state === "ACTIVE" || state === "ERROR";
}

function readyAt({ due_at, leased_until }: Probe): Instant {
  return leased_until !== null && leased_until > due_at ? leased_until : due_at;
}

/** How long what the sensor should do has been waiting. */
async function lagMs({ row, spec, probe, now }: Known, reader: Reader): Promise<number> {
  if (!isActing(row)) return 0;
  if (row.mode === "push") {
    const oldest = row.messages_pending === 0 ? null : await oldestPending(row, reader);
    return oldest === null ? 0 : Math.max(0, msBetween(oldest.received_at, now));
  }
  if (probe === null || isLedgerWatch(spec.watch)) return 0;
  return Math.max(0, msBetween(readyAt(probe), now));
}

async function oldestPending(row: SensorRow, reader: Reader): Promise<SensorMessageRow | null> {
  const [oldest] = await reader.find({
    table: SENSOR_MESSAGES,
    where: [
      { cell: "state", is: "=", value: "PENDING" },
      { cell: "sensor_id", is: "=", value: row.sensor_id },
    ],
    order: [{ cell: "received_pos" }],
    limit: 1,
  });
  return oldest ?? null;
}

/** Whether somebody who can evaluate a sensor has asked this server for work lately. */
export function hasWorker(engine: Engine, spec: SensorSpec, now: Instant): boolean {
  const since = addMs(now, -HEARD_MS);
  const isLate = (at: Instant | undefined): boolean => at === undefined || at < since;
  switch (evaluatorOf(spec)) {
    case "server":
      return true;
    case "code":
      return !isLate(engine.claimedSensors().get(spec.name));
    case "anyone": {
      const heard = [...engine.claimedSensors().values(), ...engine.claimedAssets().values()];
      return heard.some((at) => !isLate(at));
    }
  }
}

/** Evaluations with what became of the runs they asked for. */
export async function evalDocuments(
  evals: readonly SensorEvalRow[],
  reader: Reader,
): Promise<SensorEvalDocument[]> {
  const requests = await requestDocuments(
    evals.flatMap(({ run_requests }) => run_requests),
    reader,
  );
  let from = 0;
  return evals.map((row) => {
    const count = row.run_requests.length;
    const run_requests = requests.slice(from, from + count);
    from += count;
    return { ...row, run_requests };
  });
}

/** Requests for runs with where the runs stand. */
export async function requestDocuments(
  requests: readonly SensorRunRequest[],
  reader: Reader,
): Promise<SensorRunRequestDocument[]> {
  const ids = [...new Set(requests.flatMap(({ run_id }) => run_id ?? []))];
  const states = new Map<string, RunRow["state"]>();
  for (let from = 0; from < ids.length; from += RUNS_AT_ONCE) {
    const values = ids.slice(from, from + RUNS_AT_ONCE);
    const runs = await reader.find({
      table: RUNS,
      where: [{ cell: "run_id", is: "in", values }],
      order: [{ cell: "run_id" }],
      limit: values.length,
    });
    for (const { run_id, state } of runs) states.set(run_id, state);
  }
  return requests.map((request) => ({
    ...request,
    run_state: states.get(request.run_id ?? "") ?? null,
  }));
}

const RUNS_AT_ONCE = 1_000;

/** Messages as they are kept; long payloads are left out. */
export function messageDocuments(messages: readonly SensorMessageRow[]): SensorMessageDocument[] {
  return messages.map((row) => {
    const isKept = row.state !== "EVALUATED";
    const payload_length = isKept ? canonicalJson(row.payload).length : null;
    const isShown = payload_length !== null && payload_length <= PAYLOAD_SHOWN_MAX;
    return { ...row, payload: isShown ? row.payload : null, payload_length };
  });
}

type EvaluateCall = Call<"evaluateSensor">;

/** Has a sensor evaluated now, and waits for what comes of it. */
export async function evaluateByHand(call: EvaluateCall): Promise<Reply> {
  const { engine, body } = call;
  const request_id = call.idempotency?.key ?? call.correlationId;
  const { result } = await engine.evaluate((rows) => ({
    events: [],
    result: askedOf(rows, call, request_id),
  }));
  const { row, spec, message } = result;
  const { dry_run, timeout_ms } = body;
  const asked = { request_id, dry_run, message };
  const { probe_id } = await engine.requestEvaluation({ sensor: row.sensor_id, ...asked });
  await refuseOther(call, probe_id, asked);
  const awaited = await call.whileWaiting(() => engine.awaitEvaluation(probe_id, timeout_ms));
  if (awaited.state === "done") {
    const { evaluation } = awaited;
    return engine.read(async (reader) => {
      const { pos } = await reader.head();
      const run_requests = await requestDocuments(evaluation.run_requests, reader);
      const { eval_id, status, verdict, cursor_before, cursor_after, error } = evaluation;
      const answer: EvaluatedSensor = {
        message: sentenceOf(row, evaluation, dry_run),
        sensor_id: row.sensor_id,
        dry_run,
        verdict,
        eval_id,
        status,
        cursor_before,
        cursor_after,
        error,
        run_requests,
        keys_added: evaluation.keys_added ?? null,
        pos,
      };
      return { answer, pos };
    });
  }
  const now = await call.server.store.now();
  const missing = evaluatorOf(spec) !== "server" && !hasWorker(engine, spec, now);
  throw notYet(row, timeout_ms, missing ? (evaluatorOf(spec) === "code" ? "code" : "any") : null);
}

type Asked = { row: SensorRow; spec: ReturnType<typeof sensorSpec>; message: SensorMessage | null };

/** The sensor, and what it is to see. */
function askedOf(rows: Rows, { params, body }: EvaluateCall, requestId: string): Asked {
  const row = livingSensor(rows, params.sensor_id);
  const spec = sensorSpec(rows, row);
  const { payload, attributes, message_id } = body;
  if (row.mode === "poll") {
    const [field] = Object.entries({ payload, attributes, message_id }).flatMap(([name, value]) =>
      value === undefined ? [] : [name],
    );
    if (field === undefined) return { row, spec, message: null };
    throw new PawlError(
      "INPUT_INVALID",
      `Sensor ${row.name} looks by itself and sees no message, so it takes no ${field}.`,
      { details: { sensor: row.name, mode: row.mode, field } },
    );
  }
  if (message_id === undefined) {
    const sample: SensorMessage = {
      message_id: `sample:${requestId}`,
      source: "webhook",
      type: null,
      attributes: attributes ?? {},
      payload: payload ?? null,
      published_at: null,
    };
    return { row, spec, message: sample };
  }
  if (payload !== undefined || attributes !== undefined) {
    throw new PawlError(
      "INPUT_INVALID",
      "Expected either message_id or a sample of payload and attributes, got both.",
    );
  }
  return { row, spec, message: failedMessage(rows, row, message_id) };
}

function failedMessage(rows: Rows, row: SensorRow, messageId: string): SensorMessage {
  const found = rows.sensorMessages.get(row.sensor_id, messageId);
  if (found === null) {
    throw new PawlError(
      "INPUT_INVALID",
      `Sensor ${row.name} has no message ${JSON.stringify(messageId)}. ` +
        "`pawl sensor messages` lists those it has.",
      { details: { sensor: row.name, message_id: messageId } },
    );
  }
  if (found.state !== "FAILED") {
    throw new PawlError(
      "STATE_ILLEGAL",
      `Message ${JSON.stringify(messageId)} of sensor ${row.name} is ${found.state}; only one ` +
        "whose evaluation FAILED can be evaluated again.",
      { details: { sensor: row.name, message_id: messageId, state: found.state } },
    );
  }
  const { message_id, source, message_type: type, attributes, payload, published_at } = found;
  return { message_id, source, type, attributes: attributes ?? {}, payload, published_at };
}

/** Refuses a request under the name of another one. */
async function refuseOther(
  { engine }: EvaluateCall,
  probeId: string,
  asked: { request_id: string; dry_run: boolean; message: SensorMessage | null },
): Promise<void> {
  const [probe] = await engine.read((reader) => reader.probes([probeId]));
  const first = probe === undefined ? null : manualOf(probe.value)?.request;
  if (!first) return;
  const { request_id, dry_run, message } = first;
  if (canonicalJson({ request_id, dry_run, message }) === canonicalJson(asked)) return;
  throw new PawlError(
    "IDEMPOTENCY_KEY_REUSED",
    `The request ${JSON.stringify(request_id)} asked for another evaluation before. ` +
      "Give this one a name of its own.",
    { details: { request_id } },
  );
}

function sentenceOf(
  { name }: SensorRow,
  { status, verdict, error, run_requests, keys_added }: EvaluationResult,
  isDry: boolean,
): string {
  if (verdict === "lost" || verdict === "stale") {
    return `Sensor ${name} changed while it was evaluated, so the result was ignored.`;
  }
  if (status === "error") return `Sensor ${name} failed: ${error?.message ?? "no reason given"}`;
  const count = run_requests.length;
  const added = (keys_added ?? []).map(({ definition, keys }) => {
    return ` ${keys.length} ${keys.length === 1 ? "key" : "keys"} ${isDry ? "would be" : keys.length === 1 ? "was" : "were"} added to ${definition}.`;
  });
  if (count === 0 && added.length > 0) return `Sensor ${name} triggered no run.${added.join("")}`;
  if (count === 0) return `Sensor ${name} found nothing new.`;
  const outcomes = [...new Set(run_requests.map(({ outcome }) => outcome))].map((outcome) => {
    const alike = run_requests.filter((request) => request.outcome === outcome).length;
    return `${alike} ${outcome}`;
  });
  const runs = count === 1 ? "1 run" : `${count} runs`;
  return `Sensor ${name} ${isDry ? "would trigger" : "triggered"} ${runs}: ${outcomes.join(", ")}.${added.join("")}`;
}

function notYet({ name }: SensorRow, timeoutMs: number, missing: "code" | "any" | null): PawlError {
  const why = {
    code: `No worker with the function of sensor ${name} has asked for work lately: start one.`,
    any: "No worker has asked for work lately: start one.",
    none: "A worker is at it, or will be soon.",
  }[missing ?? "none"];
  return new PawlError(
    "NOT_YET",
    `Sensor ${name} was not evaluated within ${timeoutMs} ms. ${why} The same request id, asked ` +
      "again, tells what came of it.",
    { details: { sensor: name, timeout_ms: timeoutMs, has_worker: missing === null } },
  );
}

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
  const row = await engine.read((reader) => knownEntityRow(reader, "sensor", params.sensor_id));
  checkLegal(commandedEntity("sensor"), SENSOR_RULES.secret, row, row);
  const { sensor_id, name, mode } = row;
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

function nowIs(changed: SensorChanged) {
  return { message: `Sensor ${changed.name} is ${changed.state}.`, ...changed };
}

const command = commandRoutes(({ sensor_id }: { sensor_id: string }) => ({ sensor: sensor_id }));

/** What can be done with sensors. */
export const SENSOR_HANDLERS = {
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
  pauseSensor: command(pauseSensor, nowIs),
  resumeSensor: command(resumeSensor, nowIs),
  resetCursor: command(resetCursor, (changed) => ({
    ...changed,
    message:
      changed.cursor === null
        ? `Sensor ${changed.name} begins at the start again.`
        : `The cursor of sensor ${changed.name} was moved.`,
  })),
  createSensorSecret,
} satisfies Handlers;
