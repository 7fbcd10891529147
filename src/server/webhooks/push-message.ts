import { z } from "zod";
import type { Json } from "../../kernel/canonical.ts";
import { PawlError } from "../../kernel/errors.ts";
import {
  batchMessages,
  binaryMessage,
  isCloudEvents,
  structuredMessage,
  checkSentId,
  instantFromText,
  newPushMessage,
  type PushMessage,
  decodeBase64,
  decodeData,
  decodeJson,
  decodeJsonOrText,
  isJsonType,
} from "./cloud-events.ts";
import { parseInput } from "../http/input-problems.ts";

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
