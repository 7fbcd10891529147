import { canonicalJson } from "../core/canonical.ts";
import { PawlError } from "../core/errors.ts";
import type { ReportedResult } from "../core/protocol.ts";
import { DoNotRetry, RetryAfter, Skip } from "../define/task-errors.ts";
import { sourceClassOf, sourceFailureOf } from "./source-failure.ts";

/** How an attempt ended, before it is said of which task. */
export type TaskOutcome = Omit<ReportedResult, "run_pos" | "task_key" | "attempt">;

/** Why the worker itself ended an attempt. */
export type StopCause = {
  type: "lost" | "cancelled" | "timeout" | "stalled" | "stopped";
  message: string;
};

/** Longest delay that is reported: a year. */
const DELAY_MS_MAX = 31_536_000_000;
/** Kinds of errors whose name says nothing that the message does not. */
const PLAIN_NAMES: ReadonlySet<string> = new Set([
  "DoNotRetry",
  "Error",
  "PawlError",
  "RangeTooLarge",
  "RetryAfter",
  "Skip",
  "SourceLagging",
  "SourceUnavailable",
  "Throttled",
  "VerificationFailed",
]);
/** Longest message of an error that is reported. */
const MESSAGE_LENGTH_MAX = 2_000;
/** Most that may be kept about a materialization, as JSON text. */
const METADATA_LENGTH_MAX = 16_000;

/** Failures of the network or the operating system that usually pass. */
const TRANSIENT_CODES = new Set([
  "EAI_AGAIN",
  "ECONNREFUSED",
  "ECONNRESET",
  "EPIPE",
  "ETIMEDOUT",
  "UND_ERR_CONNECT_TIMEOUT",
  "UND_ERR_SOCKET",
]);

/** What to report of an attempt whose function threw. */
export function outcomeOfError(error: unknown): TaskOutcome {
  const message = messageOf(error);
  if (error instanceof Skip) {
    return { outcome: "SKIPPED", error: { class: "skipped", message } };
  }
  if (error instanceof DoNotRetry) {
    return { outcome: "FAILED", error: { class: "user", message }, final: true };
  }
  if (error instanceof RetryAfter) {
    const retry_after_ms = wholeMs(error.delayMs);
    return { outcome: "FAILED", error: { class: "transient", message }, retry_after_ms };
  }
  const failed = { outcome: "FAILED", error: { class: classOf(error), message } } as const;
  const said = sourceFailureOf(error);
  if (said.type !== "throttled" || said.error.retryAfterMs === null) return failed;
  return { ...failed, retry_after_ms: wholeMs(said.error.retryAfterMs) };
}

/** A delay as it is reported; nothing sensible is no delay. */
function wholeMs(ms: number): number {
  return Number.isFinite(ms) ? Math.min(DELAY_MS_MAX, Math.max(0, Math.ceil(ms))) : 0;
}

/** What to report of an attempt that the worker ended, or null: nobody waits for it any more. */
export function outcomeOfStop({ type, message }: StopCause): TaskOutcome | null {
  switch (type) {
    case "lost":
      return null;
    case "cancelled":
      return { outcome: "CANCELLED", error: { class: "cancelled", message } };
    case "timeout":
    case "stalled":
      return { outcome: "FAILED", error: { class: type, message } };
    case "stopped":
      return {
        outcome: "FAILED",
        error: { class: "transient", message },
        retry_after_ms: 0,
        released: true,
      };
  }
}

/** The sentence that is kept of an error: with its kind, its cause, and bounded. */
export function messageOf(error: unknown): string {
  let message: string;
  if (error instanceof Error) {
    const isPlain = PLAIN_NAMES.has(error.name);
    message = isPlain && error.message !== "" ? error.message : `${error.name}: ${error.message}`;
    if (error.cause instanceof Error) message += ` (cause: ${error.cause.message})`;
  } else {
    message =
      typeof error === "string" ? error : `Something was thrown that is no error: ${shown(error)}`;
  }
  return message.length > MESSAGE_LENGTH_MAX
    ? `${message.slice(0, MESSAGE_LENGTH_MAX - 1).toWellFormed()}…`
    : message.toWellFormed();
}

/** Why a task's metadata cannot be kept, or null when it can. */
export function metadataFault(metadata: unknown): string | null {
  try {
    const { length } = canonicalJson(metadata);
    if (length <= METADATA_LENGTH_MAX) return null;
    return `it is ${length} characters of JSON and at most ${METADATA_LENGTH_MAX} are kept`;
  } catch (error) {
    return messageOf(error);
  }
}

const INPUT_CODES: ReadonlySet<string> = new Set([
  "ASSET_NOT_FOUND",
  "PARTITION_INVALID",
  "SYNC_NOT_FOUND",
]);

function classOf(error: unknown): string {
  if (error instanceof PawlError) {
    if (INPUT_CODES.has(error.code)) return "input";
    return error.retryable ? "transient" : "user";
  }
  const explained = sourceClassOf(error);
  if (explained !== null) return explained;
  return isTransient(error) || (error instanceof Error && isTransient(error.cause))
    ? "transient"
    : "user";
}

function isTransient(error: unknown): boolean {
  if (!(error instanceof Error) || !("code" in error)) return false;
  return TRANSIENT_CODES.has(String(error.code));
}

function shown(value: unknown): string {
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return String(value);
  }
}
