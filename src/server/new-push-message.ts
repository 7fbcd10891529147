import type { Json } from "../core/canonical.ts";
import { PawlError } from "../core/errors.ts";
import type { Instant } from "../core/instant.ts";
import { cleanText } from "./request-body.ts";

/** Most characters of an id that a sender chose. */
const SENT_ID_LENGTH_MAX = 200;
/** Most characters of a message's id, which may be made of several parts. */
const MESSAGE_ID_LENGTH_MAX = 500;

const CONTROL_CHARACTER = /\p{Cc}/u;

/** Attributes that say something about one delivery and not about the message. */
const DELIVERY_ATTRIBUTES = new Set([
  "googclient_deliveryattempt",
  "knativearrivaltime",
  "traceparent",
  "tracestate",
]);

/** A message for a sensor, whatever it came in. */
export type PushMessage = {
  message_id: string;
  source: "webhook" | "pubsub" | "cloudevents";
  type: string | null;
  attributes: Record<string, string>;
  payload: Json;
  published_at: Instant | null;
  /** What all deliveries of one message have in common. */
  digest_input: Json;
};

/** Makes a message of its parts; `INPUT_INVALID` for ids and attributes that cannot be kept. */
export function newPushMessage(parts: Omit<PushMessage, "digest_input">): PushMessage {
  const { message_id, type, attributes, payload } = parts;
  if (message_id.length > MESSAGE_ID_LENGTH_MAX) {
    throw unfit("The id of the message", message_id, `at most ${MESSAGE_ID_LENGTH_MAX} characters`);
  }
  for (const text of [type ?? "", ...Object.entries(attributes).flat()]) cleanText(text, false);
  const lasting = Object.entries(attributes).filter(([name]) => !DELIVERY_ATTRIBUTES.has(name));
  return {
    ...parts,
    digest_input: { type, attributes: Object.fromEntries(lasting), payload },
  };
}

/** Refuses an id that is empty, longer than 200 characters or has control characters. */
export function checkSentId(id: string, field: string): void {
  if (id === "") throw unfit(field, id, "at least one character");
  if (id.length > SENT_ID_LENGTH_MAX) {
    throw unfit(field, id, `at most ${SENT_ID_LENGTH_MAX} characters`);
  }
  if (CONTROL_CHARACTER.test(id)) throw unfit(field, id, "no control characters");
}

function unfit(field: string, id: string, rule: string): PawlError {
  const shown = JSON.stringify(id.length > 80 ? `${id.slice(0, 80)}…` : id);
  return new PawlError("INPUT_INVALID", `${field} must have ${rule}, not ${shown}.`, {
    details: { field, length: id.length },
  });
}

/** The instant of an RFC 3339 time, or null when the text is none that can be kept. */
export function instantFromText(text: string): Instant | null {
  const isTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/i.test(text);
  const epochMs = isTime ? Date.parse(text.toUpperCase()) : Number.NaN;
  if (Number.isNaN(epochMs)) return null;
  const instant = new Date(epochMs).toISOString();
  // An offset may lead out of the years that have four digits, whose texts sort by time.
  return /^\d{4}-/.test(instant) ? instant : null;
}
