import { assert, present } from "../../kernel/errors.ts";
import type { SensorSpec, WebhookSpec } from "../definition/spec.ts";
import type { EventData } from "../events.ts";
import type { Rows } from "../rows.ts";
import type { SensorRow } from "./rows.ts";
import { entitySubject } from "../keys.ts";
import type { Folding, Recorded, Touch } from "../fold.ts";

type Entry = EventData<"DefinitionsPublished">["specs"][number];
type Published = Recorded<"DefinitionsPublished">;

/** Makes or changes the sensor that a publish is about; its cursor stays. */
export function publishSensor(
  rows: Rows,
  { spec_hash, entity }: Entry,
  spec: SensorSpec,
  { data, pos, occurred_at }: Published,
): void {
  const { id } = present(entity ?? null, "a sensor has an id");
  const before = rows.sensors.get(id);
  assert(before?.state !== "DELETED", `${spec.name} is not deleted when it is published`);
  const { origin, definition_version } = data;
  const published = { spec_hash, origin, definition_version, mode: spec.mode, row_version: pos };
  if (before !== null) {
    rows.sensors.put({ ...before, ...published, state_version: before.state_version + 1 });
    return;
  }
  rows.sensors.put({
    ...published,
    sensor_id: id,
    name: spec.name,
    state: spec.enabled ? "ACTIVE" : "PAUSED",
    state_version: 1,
    reason: null,
    cursor: null,
    last_evaluation_at: null,
    last_eval_id: null,
    last_message_at: null,
    error: null,
    evaluations: 0,
    runs_requested: 0,
    messages_received: 0,
    messages_pending: 0,
    created_at: occurred_at,
    created_pos: pos,
  });
}

/** Makes or changes the webhook that a publish is about. */
export function publishWebhook(
  rows: Rows,
  { spec_hash, entity }: Entry,
  spec: WebhookSpec,
  { data, pos, occurred_at }: Published,
): void {
  const { id } = present(entity ?? null, "a webhook has an id");
  const before = rows.webhooks.get(id);
  assert(before?.state !== "DELETED", `${spec.name} is not deleted when it is published`);
  const { origin, definition_version } = data;
  rows.webhooks.put({
    webhook_id: id,
    name: spec.name,
    spec_hash,
    origin,
    definition_version,
    state: spec.enabled ? "ACTIVE" : "PAUSED",
    state_version: (before?.state_version ?? 0) + 1,
    created_at: before?.created_at ?? occurred_at,
    created_pos: before?.created_pos ?? pos,
    row_version: pos,
  });
}

/** Ends the sensor that a publish removes; what it did stays. */
export function removeSensor(rows: Rows, id: string, pos: number): void {
  const row = sensorOf(rows, id);
  assert(row.state !== "DELETED", `${row.name} is deleted once`);
  const state_version = row.state_version + 1;
  rows.sensors.put({ ...row, state: "DELETED", state_version, row_version: pos });
}

/** Ends the webhook that a publish removes. */
export function removeWebhook(rows: Rows, id: string, pos: number): void {
  const row = present(rows.webhooks.get(id), `webhook ${id} exists`);
  assert(row.state !== "DELETED", `${row.name} is deleted once`);
  const state_version = row.state_version + 1;
  rows.webhooks.put({ ...row, state: "DELETED", state_version, row_version: pos });
}

function sensorOf(rows: Rows, id: string): SensorRow {
  return present(rows.sensors.get(id), `sensor ${id} exists`);
}

function touches({ sensor_id }: { sensor_id: string }): Touch[] {
  return [["sensors", [sensor_id]]];
}

function subject({ sensor_id }: { sensor_id: string }): number {
  return entitySubject(sensor_id);
}

const sensorMessageReceived: Folding<"SensorMessageReceived"> = {
  subject,
  touches: ({ sensor_id, message_id }) => [
    ["sensors", [sensor_id]],
    ["sensorMessages", [sensor_id, message_id]],
  ],
  apply(rows, { data, pos, occurred_at }) {
    const row = sensorOf(rows, data.sensor_id);
    assert(
      rows.sensorMessages.get(data.sensor_id, data.message_id) === null,
      `message ${data.message_id} is received once`,
    );
    rows.sensorMessages.put({
      ...data,
      received_at: occurred_at,
      received_pos: pos,
      state: "PENDING",
      eval_id: null,
    });
    rows.sensors.put({
      ...row,
      last_message_at: occurred_at,
      messages_received: row.messages_received + 1,
      messages_pending: row.messages_pending + 1,
      row_version: pos,
    });
  },
};

/** The state after an evaluation that counted; a paused sensor stays so. */
function stateAfter(row: SensorRow, failed: boolean): SensorRow["state"] {
  if (row.state === "PAUSED" || row.state === "DELETED") return row.state;
  return failed ? "ERROR" : "ACTIVE";
}

const sensorEvaluated: Folding<"SensorEvaluated"> = {
  subject,
  touches: ({ sensor_id, trigger_source }) => [
    ["sensors", [sensor_id]],
    ...(trigger_source.type === "push"
      ? [["sensorMessages", [sensor_id, trigger_source.message_id]] as const]
      : []),
  ],
  apply(rows, { data, pos, occurred_at }) {
    const row = sensorOf(rows, data.sensor_id);
    const { sensor_id, eval_id, trigger_source, cursor_before, cursor_after } = data;
    const { status, error, run_requests } = data;
    rows.sensorEvals.insert({
      sensor_id,
      pos,
      eval_id,
      trigger_source,
      cursor_before,
      // Those of the first version said null, which is the start.
      cursor_after: status === "skipped_stale_cursor" ? cursor_before : cursor_after,
      status,
      error,
      run_requests,
      evaluated_at: occurred_at,
    });
    const isStale = status === "skipped_stale_cursor";
    const requested = run_requests.filter(({ outcome }) => outcome === "created").length;
    const evaluated: SensorRow = {
      ...row,
      last_evaluation_at: occurred_at,
      last_eval_id: eval_id,
      evaluations: row.evaluations + 1,
      runs_requested: row.runs_requested + requested,
      state: isStale ? row.state : stateAfter(row, status === "error"),
      error: isStale ? row.error : error,
      row_version: pos,
    };
    if (trigger_source.type === "push") settleMessage(rows, data, trigger_source.message_id);
    if (data.state_version === null) {
      const pending = trigger_source.type === "push" ? 1 : 0;
      rows.sensors.put({ ...evaluated, messages_pending: row.messages_pending - pending });
      return;
    }
    assert(data.expected_state_version === row.state_version, "an evaluation read what it changes");
    assert(data.state_version === row.state_version + 1, "state versions grow by one");
    assert(cursor_before === row.cursor, "a cursor moves from where it was");
    const { state_version } = data;
    rows.sensors.put({ ...evaluated, cursor: cursor_after, state_version });
  },
};

function settleMessage(rows: Rows, data: EventData<"SensorEvaluated">, messageId: string): void {
  const message = present(
    rows.sensorMessages.get(data.sensor_id, messageId),
    `message ${messageId} was received`,
  );
  assert(message.state === "PENDING", `message ${messageId} is evaluated once`);
  const isFailed = data.status === "error";
  rows.sensorMessages.put({
    ...message,
    // What failed is kept, so that it can be evaluated again by hand.
    ...(isFailed ? {} : { attributes: null, payload: null }),
    state: isFailed ? "FAILED" : "EVALUATED",
    eval_id: data.eval_id,
  });
}

function changed(rows: Rows, data: { sensor_id: string; state_version: number }): SensorRow {
  const row = sensorOf(rows, data.sensor_id);
  assert(data.state_version === row.state_version + 1, "state versions grow by one");
  return { ...row, state_version: data.state_version };
}

const sensorPaused: Folding<"SensorPaused"> = {
  subject,
  touches,
  apply(rows, { data, pos }) {
    const row = changed(rows, data);
    assert(row.state === "ACTIVE" || row.state === "ERROR", `${row.name} acts when it is paused`);
    rows.sensors.put({ ...row, state: "PAUSED", reason: data.reason, row_version: pos });
  },
};

const sensorResumed: Folding<"SensorResumed"> = {
  subject,
  touches,
  apply(rows, { data, pos }) {
    const row = changed(rows, data);
    assert(row.state === "PAUSED", `${row.name} is paused when it is resumed`);
    rows.sensors.put({ ...row, state: "ACTIVE", reason: null, error: null, row_version: pos });
  },
};

const sensorCursorReset: Folding<"SensorCursorReset"> = {
  subject,
  touches,
  apply(rows, { data, pos }) {
    const row = changed(rows, data);
    assert(data.cursor_before === row.cursor, "a cursor moves from where it was");
    rows.sensors.put({ ...row, cursor: data.cursor, row_version: pos });
  },
};

/** The foldings of sensors. */
export const SENSOR_FOLDS = {
  SensorMessageReceived: sensorMessageReceived,
  SensorEvaluated: sensorEvaluated,
  SensorPaused: sensorPaused,
  SensorResumed: sensorResumed,
  SensorCursorReset: sensorCursorReset,
};
