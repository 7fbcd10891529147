import { PawlError } from "../core/errors.ts";
import {
  RangeTooLarge,
  SourceLagging,
  SourceUnavailable,
  Throttled,
} from "../define/source-errors.ts";
import { DoNotRetry, RetryAfter } from "../define/task-errors.ts";
import { plainError, VerificationFailed } from "./plain-values.ts";

/**
 * What a failed request says: about its size, about the pace, that the source could not answer at
 * this time, by its own word or by what the network says, what the function decided itself, or
 * (`other`) maybe something about the blocks.
 */
export type SourceFailure =
  | { type: "too-large"; error: RangeTooLarge }
  | { type: "throttled"; error: Throttled }
  | { type: "lagging" | "unavailable" | "network" | "timeout" | "decided" | "other" };

const TIMEOUT_CODES = new Set([
  "ETIMEDOUT",
  "UND_ERR_BODY_TIMEOUT",
  "UND_ERR_CONNECT_TIMEOUT",
  "UND_ERR_HEADERS_TIMEOUT",
]);

const NETWORK_CODES = new Set([
  "EAI_AGAIN",
  "ECONNABORTED",
  "ECONNREFUSED",
  "ECONNRESET",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EPIPE",
  "UND_ERR_SOCKET",
]);

/** How many causes deep a wrapped error is looked for. */
const CAUSES_MAX = 5;

/** What is known from an error of a function that asked a source, however it is wrapped. */
export function sourceFailureOf(error: unknown): SourceFailure {
  let each: unknown = plainError(error);
  for (let depth = 0; depth < CAUSES_MAX && each instanceof Error; depth++) {
    const failure = plainFailureOf(each);
    if (failure !== null) return failure;
    each = each.cause;
  }
  return { type: "other" };
}

function plainFailureOf(error: Error): SourceFailure | null {
  if (error instanceof RangeTooLarge) return { type: "too-large", error };
  if (error instanceof Throttled) return { type: "throttled", error };
  if (error instanceof SourceLagging) return { type: "lagging" };
  if (error instanceof SourceUnavailable) return { type: "unavailable" };
  if (error instanceof DoNotRetry || error instanceof RetryAfter) return { type: "decided" };
  if (error instanceof VerificationFailed) return { type: "decided" };
  if (error instanceof PawlError) return error.retryable ? { type: "network" } : null;
  const code = "code" in error ? String(error.code) : "";
  if (error.name === "TimeoutError" || TIMEOUT_CODES.has(code)) return { type: "timeout" };
  if (error.name === "AbortError" || NETWORK_CODES.has(code)) return { type: "network" };
  return null;
}

/** The class under which a failure that a source explained is kept; null for any other. */
export function sourceClassOf(error: unknown): string | null {
  if (plainError(error) instanceof VerificationFailed) return "verification";
  const { type } = sourceFailureOf(error);
  switch (type) {
    case "too-large":
    case "throttled":
    case "lagging":
    case "unavailable":
      return type;
    default:
      return null;
  }
}
