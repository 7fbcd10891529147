import type { EvaluationResult } from "../controllers/evaluate-sensor.ts";
import { livingSensor, sensorSpec } from "../controllers/sensor-spec.ts";
import type { EvaluatedSensor } from "../core/api/sensor-documents.ts";
import { canonicalJson } from "../core/canonical.ts";
import { PawlError } from "../core/errors.ts";
import type { SensorMessage } from "../core/probe-protocol.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { SensorRow } from "../core/rows/sensor-rows.ts";
import { manualOf } from "../engine/probe-value.ts";
import { evaluatorOf } from "../engine/sensor-view.ts";
import type { Call, Reply } from "./call.ts";
import { hasWorker, requestDocuments } from "./sensor-document.ts";

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
  { status, verdict, error, run_requests }: EvaluationResult,
  isDry: boolean,
): string {
  if (verdict === "lost" || verdict === "stale") {
    return `Sensor ${name} changed while it was evaluated, so nothing came of it.`;
  }
  if (status === "error") return `Sensor ${name} failed: ${error?.message ?? "no reason is known"}`;
  const count = run_requests.length;
  if (count === 0) return `Sensor ${name} found nothing new.`;
  const outcomes = [...new Set(run_requests.map(({ outcome }) => outcome))].map((outcome) => {
    const alike = run_requests.filter((request) => request.outcome === outcome).length;
    return `${alike} ${outcome}`;
  });
  const runs = count === 1 ? "1 run" : `${count} runs`;
  return `Sensor ${name} ${isDry ? "would ask" : "asked"} for ${runs}: ${outcomes.join(", ")}.`;
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
