import { canonicalJson, type Json } from "../../kernel/canonical.ts";
import { PawlError } from "../../kernel/errors.ts";
import { type Commanded, type CommandTable, commandsAbout, type Expecting } from "../command.ts";
import { DECISION_EVENTS_MAX, type Decide } from "../decision.ts";
import { commandedEntity, knownEntity } from "../definition/find-entity.ts";
import { SENSOR_RULES } from "../definition/rules.ts";
import type { NewEvent } from "../events.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import type { Rows } from "../rows.ts";
import { livingSensor, sensorSpec } from "./evaluate.ts";
import { isLedgerWatch, parseLedgerCursor } from "./poll.ts";
import type { SensorRow, SensorState } from "./rows.ts";

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

/** Longest payload of a message, in characters of canonical JSON: the ledger keeps it for ever. */
export const PAYLOAD_LENGTH_MAX = 256_000;

/** A message as it reaches the server. */
export type IncomingMessage = {
  message_id: string;
  source: "webhook" | "pubsub" | "cloudevents";
  type: string | null;
  attributes: Record<string, string>;
  payload: Json;
  published_at: string | null;
  /** Of what all deliveries of one message have in common. */
  payload_digest: string;
};

/** What became of each message, in order. */
export type MessagesReceived = { sensor_id: string; results: ("received" | "duplicate")[] };

/**
 * Keeps messages for a push sensor, each once however often it is delivered. A paused sensor keeps
 * them too; they wait for it. Throws IDEMPOTENCY_KEY_REUSED for another message under a known id.
 */
export function receiveMessages(input: {
  sensor: string;
  messages: readonly IncomingMessage[];
}): Decide<MessagesReceived> {
  return (rows) => {
    const row = livingSensor(rows, input.sensor);
    refusePoll(row);
    refuseTooMany(input.messages);
    const { sensor_id } = row;
    rows.sensorMessages.need(input.messages.map(({ message_id }) => [sensor_id, message_id]));
    const events: NewEvent[] = [];
    const fresh = new Map<string, string>();
    const results = input.messages.map((message) => {
      const { message_id, payload_digest } = message;
      const known =
        fresh.get(message_id) ?? rows.sensorMessages.get(sensor_id, message_id)?.payload_digest;
      if (known === payload_digest) return "duplicate" as const;
      if (known !== undefined) throw reused(row, message_id);
      refuseTooLarge(message);
      fresh.set(message_id, payload_digest);
      events.push(messageReceived(sensor_id, message));
      return "received" as const;
    });
    return { events, result: { sensor_id, results } };
  };
}

function messageReceived(sensor_id: string, message: IncomingMessage): NewEvent {
  const { type, ...rest } = message;
  return {
    type: "SensorMessageReceived",
    idempotency_key: IDEMPOTENCY_KEYS.sensorMessage(sensor_id, message.message_id),
    data: { sensor_id, message_type: type, ...rest },
  };
}

function refusePoll({ name, mode }: SensorRow): void {
  if (mode === "push") return;
  throw new PawlError(
    "INPUT_INVALID",
    `Sensor ${name} polls by itself and takes no messages. Send them to a sensor whose mode is push.`,
    { details: { sensor: name, mode } },
  );
}

function refuseTooMany(messages: readonly IncomingMessage[]): void {
  if (messages.length <= DECISION_EVENTS_MAX) return;
  throw new PawlError(
    "SELECTION_TOO_LARGE",
    `${messages.length} messages at once are more than the ${DECISION_EVENTS_MAX} that may be. ` +
      "Send them in smaller parts.",
  );
}

function refuseTooLarge({ message_id, payload }: IncomingMessage): void {
  const { length } = canonicalJson(payload);
  if (length <= PAYLOAD_LENGTH_MAX) return;
  throw new PawlError(
    "SELECTION_TOO_LARGE",
    `The payload of message ${JSON.stringify(message_id)} is ${length} characters long; at most ` +
      `${PAYLOAD_LENGTH_MAX} are kept. Put the data somewhere and send where it is.`,
    { details: { message_id, length, length_max: PAYLOAD_LENGTH_MAX } },
  );
}

function reused({ name }: SensorRow, message_id: string): PawlError {
  return new PawlError(
    "IDEMPOTENCY_KEY_REUSED",
    `Sensor ${name} has received another message with the id ${JSON.stringify(message_id)}. Give ` +
      "each message an id of its own, and send the same message again only as it was.",
    { details: { sensor: name, message_id } },
  );
}
