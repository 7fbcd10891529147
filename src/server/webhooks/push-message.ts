import { type Json, canonicalJson } from "../../kernel/canonical.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { Instant } from "../../kernel/instant.ts";
import { cleanText, decodeBody, parseBody } from "../http/request-body.ts";
import { bodyValuesMax, DOCUMENT_BYTES_MAX } from "../../work/operation.ts";
import { z } from "zod";
import { parseInput } from "../http/input-problems.ts";

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

/** Whether a media type says that what it is about is JSON. */
export function isJsonType(contentType: string | null): boolean {
  return contentType !== null && /^[^;]*[/+]json\s*(?:;|$)/i.test(contentType);
}

/** The JSON value of bytes that must be JSON, within the limits that hold for every body. */
export function decodeJson(bytes: Uint8Array): Json {
  return parseJson(decodeBody(bytes));
}

/** The JSON value of bytes that must be text, and the text itself when it is no JSON. */
export function decodeJsonOrText(bytes: Uint8Array): Json {
  return parseJsonOrText(decodeBody(bytes));
}

/**
 * The value of bytes that may be anything: JSON, text, or `{ base64 }` for what a text cannot hold.
 * Without a media type they are JSON if they can be. No bytes are null.
 */
export function decodeData(bytes: Uint8Array, contentType: string | null): Json {
  if (bytes.byteLength === 0) return null;
  if (isJsonType(contentType)) return decodeJson(bytes);
  const text = textOf(bytes);
  // A NUL is good UTF-8, but not every database keeps it in a text.
  if (text === null || text.includes("\u0000")) {
    return { base64: Buffer.from(bytes).toString("base64") };
  }
  return contentType === null ? parseJsonOrText(text) : text;
}

/** The bytes of base64 in its one canonical form; `INPUT_INVALID` names the field otherwise. */
export function decodeBase64(text: string, field: string): Uint8Array {
  const bytes = Buffer.from(text, "base64");
  // Node skips what is no base64; writing the bytes again shows whether it skipped anything.
  if (bytes.toString("base64") === text) return bytes;
  throw new PawlError("INPUT_INVALID", `The field ${field} is not base64 with padding.`, {
    details: { field },
  });
}

function textOf(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

function parseJson(text: string): Json {
  const value = parseBody(text, false, bodyValuesMax(DOCUMENT_BYTES_MAX)) as Json;
  // Refuses numbers that would not come back as they were sent.
  canonicalJson(value);
  return value;
}

function parseJsonOrText(text: string): Json {
  try {
    return parseJson(text);
  } catch (error) {
    const isNoJson = error instanceof PawlError && error.cause instanceof SyntaxError;
    if (isNoJson) return cleanText(text, false);
    throw error;
  }
}

const BATCH_EVENTS_MAX = 100;

const REQUIRED = ["specversion", "id", "source", "type"] as const;
const OPTIONAL = ["dataschema", "subject", "time"] as const;

const Attribute = z.union([z.string(), z.boolean(), z.int(), z.null()], {
  error: "must be a text, an integer or a boolean",
});
const Event = z
  .object({
    specversion: z.string(),
    id: z.string(),
    source: z.string(),
    type: z.string(),
    data: z.unknown().optional(),
    data_base64: z.string().nullish(),
  })
  .catchall(Attribute);
const Batch = z.array(Event).max(BATCH_EVENTS_MAX);

/** The context attributes of an event by name, in their canonical texts. */
type Context = Readonly<Record<string, string>>;

/** Whether a JSON value has all that makes it a CloudEvent, or is a list of nothing else. */
export function isCloudEvents(value: Json): boolean {
  if (Array.isArray(value)) return value.length > 0 && value.every(isEvent);
  return isEvent(value);
}

function isEvent(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  const members = value as Record<string, unknown>;
  const isWhole = REQUIRED.every((name) => typeof members[name] === "string");
  return isWhole && String(members["specversion"]).startsWith("1.");
}

/** The message of an event that is wholly in a JSON document. */
export function structuredMessage(document: Json): PushMessage {
  return messageOf(parseInput(Event, "body", document));
}

/** The messages of a list of such events. */
export function batchMessages(document: Json): PushMessage[] {
  return parseInput(Batch, "body", document).map(messageOf);
}

function messageOf(event: z.output<typeof Event>): PushMessage {
  const { data, data_base64, ...members } = event;
  const texts = Object.entries(members).flatMap(([name, value]) =>
    value === null ? [] : [[name, String(value)] as const],
  );
  const context: Context = Object.fromEntries(texts);
  if (typeof data_base64 !== "string") return newMessage(context, (data ?? null) as Json);
  if (data !== undefined && data !== null) {
    throw new PawlError("INPUT_INVALID", "An event has data or data_base64, not both.");
  }
  const bytes = decodeBase64(data_base64, "data_base64");
  return newMessage(context, decodeData(bytes, context["datacontenttype"] ?? null));
}

/**
 * The message of an event whose attributes are `ce-` headers and whose data is the body, or null
 * when no such header is there. Without the names of all headers, extensions are not seen.
 */
export function binaryMessage(request: {
  headers: (name: string) => string | undefined;
  headerNames?: Iterable<string>;
  body: Uint8Array;
}): PushMessage | null {
  const { headers, headerNames = [], body } = request;
  if (REQUIRED.every((name) => headers(`ce-${name}`) === undefined)) return null;
  const context: Record<string, string> = {};
  for (const name of [...REQUIRED, ...OPTIONAL, ...attributesNamed(headerNames)]) {
    const value = headers(`ce-${name}`);
    if (value !== undefined && value !== "") context[name] = headerText(`ce-${name}`, value);
  }
  for (const name of REQUIRED) {
    if (context[name] !== undefined) continue;
    throw new PawlError(
      "INPUT_INVALID",
      `The header ce-${name} of the event is missing. Send ` +
        `${REQUIRED.map((each) => `ce-${each}`).join(", ")} with every event.`,
      { details: { header: `ce-${name}` } },
    );
  }
  const contentType = headers("content-type") ?? null;
  if (contentType !== null) context["datacontenttype"] = contentType;
  return newMessage(context, decodeData(body, contentType));
}

/** Names of attributes are letters and digits only, so other headers are not of the event. */
function attributesNamed(headerNames: Iterable<string>): string[] {
  return [...headerNames].flatMap((name) => /^ce-([a-z0-9]+)$/.exec(name.toLowerCase())?.[1] ?? []);
}

/** Undoes the quoting of older senders, then one round of percent-encoding. */
function headerText(name: string, value: string): string {
  const quoted = /^"((?:[^"\\]|\\.)*)"$/.exec(value)?.[1];
  const text = quoted === undefined ? value : quoted.replaceAll(/\\(.)/g, "$1");
  try {
    return text.replaceAll(/(?:%[0-9a-f]{2})+/gi, decodeURIComponent);
  } catch (error) {
    throw new PawlError(
      "INPUT_INVALID",
      `The header ${name} is percent-encoded, but what it encodes is not UTF-8: ${value}`,
      { details: { header: name }, cause: error },
    );
  }
}

/** The parts are unique only together, so both make the id of the message. */
function newMessage(context: Context, payload: Json): PushMessage {
  const { specversion = "", id = "", source = "", type = "", time = null, ...others } = context;
  if (!/^1\.\d+$/.test(specversion)) {
    throw new PawlError(
      "INPUT_INVALID",
      `The event has the specversion ${JSON.stringify(specversion)}; send CloudEvents 1.0.`,
      { details: { specversion } },
    );
  }
  checkSentId(id, "The id of the event");
  checkSentId(source, "The source of the event");
  const published_at = time === null ? null : instantFromText(time);
  if (time !== null && published_at === null) {
    throw new PawlError(
      "INPUT_INVALID",
      `The time of the event must be like 2026-01-31T08:00:00Z, not ${JSON.stringify(time)}.`,
      { details: { time } },
    );
  }
  return newPushMessage({
    message_id: JSON.stringify([source, id]),
    source: "cloudevents",
    type: type === "" ? null : type,
    attributes: { id, source, ...others },
    payload,
    published_at,
  });
}

/** A request that brings messages to a sensor. */
export type PushRequest = {
  headers: (name: string) => string | undefined;
  /** The names of all headers, for the extension attributes of CloudEvents in binary mode. */
  headerNames?: Iterable<string>;
  body: Uint8Array;
};

const PubsubEnvelope = z.object({
  message: z.object({
    data: z.string().nullish(),
    attributes: z.record(z.string(), z.string()).nullish(),
    messageId: z.string().optional(),
    message_id: z.string().optional(),
    publishTime: z.string().optional(),
    publish_time: z.string().optional(),
    orderingKey: z.string().nullish(),
  }),
});

/**
 * The messages that a request brings: CloudEvents, a body with a `Webhook-Id`, or a push of Google
 * Pub/Sub. Throws `INPUT_INVALID` when it is none of them or one that breaks its own rules.
 *
 * Only the body and the `Webhook-Id` of a webhook are signed, so those alone decide which id its
 * message has: a replay with other headers must not count as a new message.
 */
export function parsePushRequest(request: PushRequest): PushMessage[] {
  const { headers, body } = request;
  const contentType = headers("content-type") ?? null;
  const webhookId = headers("webhook-id");
  const media = /^application\/cloudevents(-batch)?([^;\s]*)/i.exec(contentType ?? "");
  if (media !== null) {
    const [whole, batch, format] = media;
    if (format?.toLowerCase() !== "+json") throw unknownFormat(whole);
    const document = decodeJson(body);
    return batch === undefined ? [structuredMessage(document)] : batchMessages(document);
  }
  if (webhookId !== undefined) return webhookMessages(webhookId, contentType, body);
  const event = binaryMessage(request);
  if (event !== null) return [event];
  return [pubsubMessage(pubsubDocument(contentType, body))];
}

function unknownFormat(contentType: string): PawlError {
  return new PawlError(
    "INPUT_INVALID",
    `Events as ${contentType} are not understood. ` +
      "Send application/cloudevents+json or application/cloudevents-batch+json.",
    { details: { content_type: contentType, status: 415 } },
  );
}

function webhookMessages(id: string, contentType: string | null, body: Uint8Array): PushMessage[] {
  checkSentId(id, "The header Webhook-Id");
  const payload = webhookPayload(contentType, body);
  if (isCloudEvents(payload)) {
    return Array.isArray(payload) ? batchMessages(payload) : [structuredMessage(payload)];
  }
  const timestamp = textMember(payload, "timestamp");
  return [
    newPushMessage({
      message_id: id,
      source: "webhook",
      type: textMember(payload, "type"),
      attributes: {},
      payload,
      published_at: timestamp === null ? null : instantFromText(timestamp),
    }),
  ];
}

function webhookPayload(contentType: string | null, body: Uint8Array): Json {
  if (body.byteLength === 0) return null;
  return isJsonType(contentType) ? decodeJson(body) : decodeJsonOrText(body);
}

/** Standard Webhooks recommends `type` and `timestamp` at the top, but asks for neither. */
function textMember(payload: Json, name: string): string | null {
  if (!isObject(payload)) return null;
  const value = payload[name];
  return typeof value === "string" ? value : null;
}

function isObject(value: Json | undefined): value is { readonly [key: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The body, if it can be meant as a push of Pub/Sub; else nothing has said what the request is. */
function pubsubDocument(contentType: string | null, body: Uint8Array): Json {
  const document = isJsonType(contentType) ? decodeJson(body) : decodeData(body, null);
  if (isObject(document) && isObject(document["message"])) return document;
  throw new PawlError(
    "INPUT_INVALID",
    "The message has no id. Send it with a Webhook-Id header, as a CloudEvent (with the headers " +
      "ce-specversion, ce-id, ce-source and ce-type, or as application/cloudevents+json), or as " +
      "a push of Google Pub/Sub with message.messageId in the body.",
    { details: { headers: ["webhook-id", "ce-id"], field: "message.messageId" } },
  );
}

function pubsubMessage(document: Json): PushMessage {
  const { message } = parseInput(PubsubEnvelope, "body", document);
  const { data, attributes, orderingKey } = message;
  const message_id = message.messageId ?? message.message_id;
  if (message_id === undefined) {
    throw new PawlError(
      "INPUT_INVALID",
      "The body has a message without messageId. Send it as Google Pub/Sub does, or give it an " +
        "id with a Webhook-Id header.",
      { details: { field: "message.messageId" } },
    );
  }
  checkSentId(message_id, "The field message.messageId");
  const published = message.publishTime ?? message.publish_time ?? null;
  const published_at = published === null ? null : instantFromText(published);
  if (published !== null && published_at === null) {
    throw new PawlError(
      "INPUT_INVALID",
      "The field message.publishTime must be like 2026-01-31T08:00:00Z, " +
        `not ${JSON.stringify(published)}.`,
      { details: { field: "message.publishTime" } },
    );
  }
  // An attribute of that name is the publisher's own and comes first.
  const ordering = orderingKey ? { orderingKey } : {};
  return newPushMessage({
    message_id,
    source: "pubsub",
    type: null,
    attributes: { ...ordering, ...attributes },
    payload: decodeData(decodeBase64(data ?? "", "message.data"), null),
    published_at,
  });
}
