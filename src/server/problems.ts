import { STATUS_CODES } from "node:http";
import { type Problem, PROBLEM_TYPE } from "../core/api/problem.ts";
import { PawlError } from "../core/errors.ts";
import { ERROR_STATUS } from "./error-status.ts";

/** Seconds after which a client that was turned away may come again. */
const RETRY_AFTER_SECONDS = 1;

/** What went wrong, for the one who asked; a mistake of ours shows nothing of the inside. */
export function problemOf(error: unknown, correlationId: string): Problem {
  const known =
    error instanceof PawlError && error.code !== "INTERNAL"
      ? error
      : new PawlError(
          "INTERNAL",
          `The server made a mistake. Its log has the reason under ${correlationId}.`,
        );
  const { status: ownStatus, errors, ...details } = known.details;
  const status = typeof ownStatus === "number" ? ownStatus : ERROR_STATUS[known.code];
  return {
    type: `urn:pawl:error:${known.code}`,
    title: STATUS_CODES[status] ?? known.code,
    status,
    code: known.code,
    detail: known.message,
    details,
    correlation_id: correlationId,
    ...(Array.isArray(errors) ? { errors } : {}),
  };
}

/** The answer that carries a problem. */
export function problemResponse(problem: Problem, headers: Record<string, string>): Response {
  const all: Record<string, string> = { ...headers, "content-type": PROBLEM_TYPE };
  if (problem.status === 401) all["www-authenticate"] = "Bearer";
  if (problem.status === 429 || problem.status === 503) {
    all["retry-after"] = String(RETRY_AFTER_SECONDS);
  }
  return new Response(JSON.stringify(problem), { status: problem.status, headers: all });
}
