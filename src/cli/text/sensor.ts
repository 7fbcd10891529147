import type {
  EvaluatedSensor,
  SensorDocument,
  SensorEvalDocument,
  SensorMessageDocument,
  SensorRunRequestDocument,
} from "../../work/sensor/api.ts";
import { formatDuration, relativeTime } from "../base/options.ts";
import { shortId } from "../base/api.ts";
import {
  type Column,
  errorText,
  labelsText,
  layoutFields,
  layoutPage,
  layoutTable,
  type Page,
  paintState,
  type Terminal,
} from "../base/terminal.ts";

/** A page of sensors. */
export function sensorsText(terminal: Terminal, page: Page<SensorDocument>): string {
  const now = terminal.now();
  return layoutPage(page, "There are no such sensors; `pawl sensor create` makes one.", [
    ["NAME", ({ name }) => name],
    ["STATE", ({ state }) => paintState(terminal, state)],
    ["WAITS FOR", watchText],
    ["ASKS FOR", targetText],
    ["POLLED", (sensor) => relativeTime(sensor.last_looked_at ?? sensor.last_message_at, now)],
    ["LAST", ({ last_evaluation_at }) => relativeTime(last_evaluation_at, now)],
    ["RUNS", ({ runs_requested }) => String(runs_requested), "right"],
    ["LAG", (sensor) => lagText(sensor) ?? "-", "right"],
    ["ID", ({ sensor_id }) => shortId(sensor_id)],
  ]);
}

function lagText({ lag_seconds }: SensorDocument): string | null {
  return lag_seconds === 0 ? null : formatDuration(lag_seconds * 1_000);
}

/** A sensor, how it is doing, and its last evaluations. */
export function sensorText(
  terminal: Terminal,
  sensor: SensorDocument,
  evals: readonly SensorEvalDocument[],
): string {
  const now = terminal.now();
  const isPush = sensor.mode === "push";
  const { messages_received: received, messages_pending: pending } = sensor;
  const fields = layoutFields([
    ["sensor", sensor.name],
    ["id", sensor.sensor_id],
    ["state", `${paintState(terminal, sensor.state)} (version ${sensor.state_version})`],
    ["reason", sensor.reason],
    ["error", errorText(sensor.error)],
    ["description", sensor.description ?? null],
    ["waits for", watchText(sensor)],
    ["triggers", targetText(sensor)],
    ["run key", sensor.target?.run_key ?? null],
    ["every", isPush ? null : formatDuration(sensor.min_interval_ms)],
    ["cursor", isPush ? null : (sensor.cursor ?? "the start")],
    ["secret", isPush ? (sensor.has_secret ? "there is one" : "none") : null],
    ["messages", isPush ? `${received} received, ${pending} pending` : null],
    ["worker", workerText(sensor)],
    ["polled", isPush ? null : looksText(sensor, now)],
    ["next", sensor.next_due_at === null ? null : relativeTime(sensor.next_due_at, now)],
    ["lag", lagText(sensor)],
    ["evaluations", `${sensor.evaluations}, which triggered ${runCount(sensor.runs_requested)}`],
    ["labels", labelsText(sensor.labels)],
    ["defined by", sensor.origin === "code" ? "code" : "the API"],
    ["created", relativeTime(sensor.created_at, now)],
  ]);
  if (evals.length === 0) return fields;
  return `${fields}\n\n${layoutTable(evals, evalColumns(terminal))}`;
}

function runCount(count: number): string {
  return count === 1 ? "1 run" : `${count} runs`;
}

function looksText({ last_looked_at, looks }: SensorDocument, now: number): string {
  if (last_looked_at === null) return "never";
  const vain = looks === 0 ? "" : `, found nothing new ${looks} times`;
  return relativeTime(last_looked_at, now) + vain;
}

/** A page of a sensor's evaluations. */
export function evalsText(terminal: Terminal, page: Page<SensorEvalDocument>): string {
  return layoutPage(page, "There are no such evaluations.", evalColumns(terminal));
}

function evalColumns(terminal: Terminal): Column<SensorEvalDocument>[] {
  return [
    ["EVALUATED", ({ evaluated_at }) => relativeTime(evaluated_at, terminal.now())],
    ["STATUS", ({ status }) => paintState(terminal, status)],
    ["BY", sourceText],
    [
      "CURSOR",
      ({ trigger_source, cursor_before, cursor_after }) =>
        trigger_source.type === "push"
          ? "-"
          : `${cursorText(cursor_before)} → ${cursorText(cursor_after)}`,
    ],
    ["RUNS", ({ run_requests }) => requestsText(run_requests)],
    ["NOTE", evalNote],
  ];
}

/** A page of a push sensor's messages. */
export function messagesText(terminal: Terminal, page: Page<SensorMessageDocument>): string {
  return layoutPage(page, "There are no such messages.", [
    ["MESSAGE", ({ message_id }) => message_id],
    ["STATE", ({ state }) => paintState(terminal, state)],
    ["SOURCE", ({ source }) => source],
    ["TYPE", ({ message_type }) => message_type ?? "-"],
    ["RECEIVED", ({ received_at }) => relativeTime(received_at, terminal.now())],
    ["PAYLOAD", payloadText],
  ]);
}

function payloadText({ payload, payload_length }: SensorMessageDocument): string {
  if (payload_length === null) return "-";
  const text = payload === null && payload_length > 4 ? `${payload_length} characters` : "";
  if (text !== "") return text;
  const shown = JSON.stringify(payload);
  return shown.length <= 60 ? shown : `${shown.slice(0, 59)}…`;
}

/** What came of an evaluation. */
export function evaluatedText(terminal: Terminal, made: EvaluatedSensor): string {
  const { cursor_before, cursor_after, run_requests, message } = made;
  const moved =
    cursor_before === cursor_after
      ? ""
      : `\ncursor  ${cursorText(cursor_before)} → ${cursorText(cursor_after)}`;
  if (run_requests.length === 0) return message + moved;
  const table = layoutTable(run_requests, [
    ["ASSETS", ({ asset_selection }) => asset_selection.join(", ")],
    ["PARTITIONS", ({ partition_selection }) => partitionsText(partition_selection)],
    ["OUTCOME", ({ outcome }) => paintState(terminal, outcome)],
    ["RUN", (request) => (made.dry_run ? "-" : requestsText([request]))],
    ["NOTE", (request) => evalNote({ error: null, run_requests: [request] })],
  ]);
  return `${message}${moved}\n\n${table}`;
}

function partitionsText(keys: readonly string[] | null): string {
  if (keys === null) return "-";
  return keys.length <= 2 ? keys.join(", ") : `${keys[0]}, … (${keys.length})`;
}

/** What a sensor waits for, in a few words. */
function watchText({ mode, watch }: SensorDocument): string {
  if (mode === "push") return "messages";
  switch (watch?.type) {
    case undefined:
      return "its function";
    case "files":
      return `files ${watch.folder}/${watch.recursive ? "**/" : ""}${watch.pattern}`;
    case "objects":
      return `objects ${watch.prefix}${watch.pattern}`;
    case "rows":
      return `rows of ${watch.table} by ${watch.watermark}`;
    case "materializations":
      return `materializations of ${watch.asset_key}`;
    case "run_failures":
      return watch.assets.length === 0
        ? "failures of runs"
        : `failures of runs of ${watch.assets.join(", ")}`;
  }
}

/** What a sensor asks for, in a few words. */
function targetText({ target }: SensorDocument): string {
  if (target === null) return "what its function decides";
  const { asset_selection, partition_key } = target;
  const assets = asset_selection.join(", ");
  return partition_key === null ? assets : `${assets} @ ${partition_key}`;
}

/** Who evaluates a sensor, and whether there is one; null when the server does it itself. */
function workerText({ needs_function, has_worker }: SensorDocument): string | null {
  if (has_worker) return needs_function ? "one with its function asks for work" : null;
  return needs_function
    ? "none with its function has asked for work lately"
    : "none has asked for work lately";
}

/** What made a sensor be evaluated. */
function sourceText({ trigger_source: source }: SensorEvalDocument): string {
  switch (source.type) {
    case "push":
      return `message ${source.message_id}`;
    case "poll":
      return "poll";
    case "manual":
      return `request ${source.request_id}`;
  }
}

/** A cursor that may be long, shortened for a table. */
function cursorText(cursor: string | null): string {
  if (cursor === null) return "the start";
  return cursor.length <= 24 ? cursor : `${cursor.slice(0, 23)}…`;
}

type Runs = readonly SensorRunRequestDocument[];

/** What became of runs that were asked for: `run_abcdefgh SUCCEEDED`, `2 created, 1 existing`. */
function requestsText(requests: Runs): string {
  const [first, second] = requests;
  if (first === undefined) return "-";
  if (second === undefined) {
    if (first.run_id === null || first.outcome === "refused") return first.outcome;
    const state = first.run_state === null ? first.outcome : first.run_state;
    return `${shortId(first.run_id)} ${state}`;
  }
  const counts = new Map<string, number>();
  for (const { outcome } of requests) counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
  return [...counts].map(([outcome, count]) => `${count} ${outcome}`).join(", ");
}

/** Why an evaluation failed, or why the first of its runs was refused. */
function evalNote({
  error,
  run_requests,
}: Pick<EvaluatedSensor, "error" | "run_requests">): string {
  const why = error ?? run_requests.find((request) => request.error !== null)?.error ?? null;
  return errorText(why) ?? "";
}
