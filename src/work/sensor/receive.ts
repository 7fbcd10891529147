import { canonicalJson, type Json } from "../../kernel/canonical.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { NewEvent } from "../events.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import type { SensorRow } from "./rows.ts";
import { type Decide, DECISION_EVENTS_MAX } from "../decision.ts";
import { livingSensor } from "./evaluate.ts";

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
    `Sensor ${name} looks by itself and takes no messages. Send them to a sensor whose mode is push.`,
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
