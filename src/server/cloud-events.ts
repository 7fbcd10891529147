import { z } from "zod";
import type { Json } from "../core/canonical.ts";
import { PawlError } from "../core/errors.ts";
import { parseInput } from "./input-problems.ts";
import {
  checkSentId,
  instantFromText,
  newPushMessage,
  type PushMessage,
} from "./new-push-message.ts";
import { decodeBase64, decodeData } from "./push-payload.ts";

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
