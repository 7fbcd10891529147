import { type ErrorCode, PawlError } from "../../core/errors.ts";

/*
 * Apart from other failures, as routers need it too, which take whatever copy of pg an application
 * has and load none of their own.
 */

/** The SQLSTATEs that Pawl's own functions in a shard raise. Their detail is a JSON object. */
export const REFUSALS = {
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
