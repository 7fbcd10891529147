import type pg from "pg";
import { type ErrorCode, PawlError } from "../../kernel/errors.ts";

/*
 * Nothing of pg but types is imported here: routers enter through the copy of pg that an application
 * has, and load none of their own.
 */

/** The SQLSTATEs that Pawl's own functions in a shard raise. Their detail is a JSON object. */
const REFUSALS = {
  PW001: "COORDINATOR_STALE",
  PW002: "STREAM_MOVED",
  PW003: "EPOCH_STALE",
  PW004: "FENCE_CLOSED",
  PW005: "NOT_ENTERED",
  PW006: "VERIFICATION_FAILED",
  PW007: "FENCE_EXPIRED",
  PW008: "ROWS_CONFLICT",
  PW009: "STATE_ILLEGAL",
  PW010: "SCHEMA_CHANGED",
} as const satisfies Record<string, ErrorCode>;

/** What Pawl's functions in a shard refused, as the error to handle; null for any other error. */
export function asRefusal(error: unknown): PawlError | null {
  if (!(error instanceof Error) || !("code" in error)) return null;
  const refusals: Readonly<Record<string, ErrorCode>> = REFUSALS;
  const code = refusals[String(error.code)];
  if (code === undefined) return null;
  const details = "detail" in error ? parsedDetail(error.detail) : {};
  return new PawlError(code, error.message, { details, cause: error });
}

function parsedDetail(detail: unknown): Record<string, unknown> {
  if (typeof detail !== "string") return {};
  try {
    const parsed: unknown = JSON.parse(detail);
    return typeof parsed === "object" && parsed !== null ? { ...parsed } : {};
  } catch {
    return {};
  }
}

// Rows, not a value: applications read booleans in ways of their own.
const IS_INSTALLED = "select 1 where to_regprocedure('_pawl.enter(text,bigint)') is not null";
// Without a name: a pooler between may give the next transaction another connection.
const ENTER = "select _pawl.enter($1, $2)";
const ENTER_READ = "select _pawl.enter_read($1, $2)";

/**
 * Whether Pawl has tables in the database that a client is connected to. A yes stays and may be
 * remembered; a no may not: a tenant may be moved away from the next moment on, and reads that do
 * not ask would not see it. Asking costs as much as entering.
 */
export async function isInstalled(client: pg.ClientBase): Promise<boolean> {
  const { rows } = await client.query(IS_INSTALLED);
  return rows.length > 0;
}

/**
 * Enters a transaction that has begun, for writing to a tenant's rows until it ends; one round
 * trip. Where Pawl is installed only. What it throws, `asRefusal` reads; the transaction is then
 * to be rolled back, as after any error. 40001 means to begin again.
 */
export async function enterWrite(
  client: pg.ClientBase,
  tenant: string,
  epoch: number,
): Promise<void> {
  await client.query(ENTER, [tenant, epoch]);
}

/** Enters a transaction for reading; it must be REPEATABLE READ, so that data and fence are of one snapshot. */
export async function enterRead(
  client: pg.ClientBase,
  tenant: string,
  epoch: number,
): Promise<void> {
  await client.query(ENTER_READ, [tenant, epoch]);
}

/**
 * What `enterWrite` or `enterRead` runs, as a text that can go with the `begin` in one round trip.
 * `escape` is the client's `escapeLiteral`.
 */
export function enterText(
  access: "write" | "read",
  tenant: string,
  epoch: number,
  escape: (text: string) => string,
): string {
  const text = access === "write" ? ENTER : ENTER_READ;
  return text.replaceAll(/\$[12]/g, (place) => escape(place === "$1" ? tenant : String(epoch)));
}
