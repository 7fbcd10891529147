import type { Instant } from "../instant.ts";

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
