import type { Instant } from "../kernel/instant.ts";
import { canonicalJson, type Json } from "../kernel/canonical.ts";
import { PawlError } from "../kernel/errors.ts";
import type { NewEvent } from "./events.ts";
import { z } from "zod";
import { isJson } from "../kernel/json-budget.ts";

/** Who caused an event: a principal and, when it used one, the id of its token (never the token). */
export type Actor = { principal: string; token_id: string | null };

/** Whose something is that an actor claimed: its token's, or without one its principal's. */
export function holderOf({ principal, token_id }: Actor): string {
  return token_id ?? principal;
}

/** Whoever uses a server that wants no tokens. */
export const LOCAL_ACTOR: Actor = Object.freeze({ principal: "local", token_id: null });

/**
 * An event as it stands in the ledger. `actor` and `data` are canonical JSON text: what was hashed
 * is kept byte for byte, and parsed by whoever reads it.
 */
export type RecordedEvent = {
  pos: number;
  v: number;
  event_id: string;
  type: string;
  /**
   * The pos at which the event's subject was created (a run, a backfill), 0 for the workspace
   * itself. Derived from type and data, so not hashed; idempotency keys are unique per subject.
   */
  subject_pos: number;
  idempotency_key: string;
  occurred_at: Instant;
  actor: string;
  correlation_id: string | null;
  data: string;
  prev_hash: string;
  hash: string;
};

/** The version of the envelope that this code writes. */
export const ENVELOPE_VERSION = 1;

/** What stands before the first event. */
export const GENESIS_HASH = "0".repeat(64);

/**
 * The text that an event's hash covers: the whole envelope but the hash, as canonical JSON. Built
 * directly in key order, as a general canonicaliser costs a seventh of the write path.
 */
export function hashedText(
  tenantId: string,
  workspaceId: string,
  event: Omit<RecordedEvent, "hash" | "subject_pos">,
): string {
  const correlation = event.correlation_id === null ? "null" : JSON.stringify(event.correlation_id);
  return (
    `{"actor":${event.actor},"correlation_id":${correlation},"data":${event.data}` +
    `,"event_id":"${event.event_id}","idempotency_key":${JSON.stringify(event.idempotency_key)}` +
    `,"occurred_at":"${event.occurred_at}","pos":${event.pos},"prev_hash":"${event.prev_hash}"` +
    `,"tenant_id":${JSON.stringify(tenantId)},"type":"${event.type}","v":${event.v}` +
    `,"workspace_id":${JSON.stringify(workspaceId)}}`
  );
}

/** Which events to read, in order of pos. */
export type EventFilter = {
  /** Only events after this position. */
  after: number;
  /** Only events up to this position. */
  through?: number;
  types?: readonly string[];
  /** Only events about these: the pos at which their subject was created. */
  subjects?: readonly number[];
  /** Only events with these idempotency keys; quick together with their subject. */
  keys?: readonly string[];
  limit: number;
  descending?: boolean;
};

/** Largest body of an event, in characters. */
const EVENT_DATA_MAX = 4_000_000;

/** The body of an event as it is recorded; throws SELECTION_TOO_LARGE when it is too long for that. */
export function eventBody({ type, data }: NewEvent): string {
  const body = canonicalJson(data);
  if (body.length <= EVENT_DATA_MAX) return body;
  throw new PawlError(
    "SELECTION_TOO_LARGE",
    `The event ${type} would be ${body.length} characters long; ` +
      `the most is ${EVENT_DATA_MAX}. Ask for less at once.`,
  );
}

/** A count or an index: an integer from 0. */
export const Count = z.int().nonnegative();

/** An instant as fixed-width UTC text. */
export const InstantText = z.string().regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);

/** A SHA-256 as lower-case hex. */
export const Sha256 = z.string().regex(/^[0-9a-f]{64}$/);

/** Any JSON value. Looked through in one pass: a schema for each value in it costs a hundred times that. */
export const JsonValue = z.unknown().refine((value) => isJson(value), {
  error: "must be a JSON value",
}) as unknown as z.ZodType<Json>;

/** First and last, both included. */
export const IntervalPair = z.tuple([Count, Count]);

/** Why something failed. */
export const FailureField = z.object({ class: z.string(), message: z.string() });

/** Most characters of the message of a failure, and of its class. */
const MESSAGE_LENGTH_MAX = 2_000;
const CLASS_LENGTH_MAX = 100;

/** The failure in so many characters at most: whoever reports it may say anything. */
export function boundedFailure(
  { class: name, message }: z.infer<typeof FailureField>,
  lengthMax = MESSAGE_LENGTH_MAX,
): z.infer<typeof FailureField> {
  const most = Math.min(lengthMax, MESSAGE_LENGTH_MAX);
  // Where many failures share the room for their messages, their classes are short as well.
  const classMost = Math.min(Math.max(most, 40), CLASS_LENGTH_MAX);
  return {
    class: name.slice(0, classMost).toWellFormed(),
    message: message.slice(0, most).toWellFormed(),
  };
}

/** Ordinals, and which assets of the selection they are for (all when absent). */
export const ChunkPartField = z.object({
  from: Count,
  to: Count,
  assets: z.array(Count).optional(),
});
