import type { z } from "zod";
import { type FieldProblem, type Problem, PROBLEM_TYPE } from "../../work/operation.ts";
import { PawlError, type ErrorCode } from "../../kernel/errors.ts";
import { checkValue } from "../../kernel/json-budget.ts";
import { nearMiss } from "../../kernel/message-text.ts";
import { STATUS_CODES } from "node:http";

type Issue = z.core.$ZodIssue;

/** Most field problems that one answer lists. */
const PROBLEMS_MAX = 20;

/** Most characters of a value or a name that an answer shows. */
const SHOWN_LENGTH = 80;

/** Parses a part of a request; `INPUT_INVALID` with every field that is wrong. */
export function parseInput<Schema extends z.ZodType>(
  schema: Schema,
  place: "path" | "query" | "body",
  input: unknown,
): z.output<Schema> {
  const parsed = checkValue(schema, input);
  if (parsed.success) return parsed.data;
  const known = "shape" in schema ? Object.keys(schema.shape as object) : [];
  const errors = parsed.issues
    .slice(0, PROBLEMS_MAX)
    .flatMap((issue) => problemsOf(issue, place, input, known))
    .slice(0, PROBLEMS_MAX);
  const detail = errors.map(({ field, message }) => `${field} ${message}`).join("; ");
  throw new PawlError("INPUT_INVALID", `The request is not valid: ${detail}.`, {
    details: { errors },
  });
}

function problemsOf(
  issue: Issue,
  place: string,
  input: unknown,
  known: readonly string[],
): FieldProblem[] {
  const field = [place, ...issue.path.map((key) => shortened(String(key)))].join(".");
  if (issue.code === "unrecognized_keys") {
    return issue.keys.slice(0, PROBLEMS_MAX).map((key) => {
      const meant = issue.path.length === 0 ? nearMiss(key, known) : null;
      const hint = meant === null ? "" : ` (did you mean ${meant}?)`;
      return { field: `${field}.${shortened(key)}`, message: `is not a known field${hint}` };
    });
  }
  if (issue.code === "invalid_union" && issue.discriminator === undefined) {
    const nearest = issue.errors.toSorted((one, other) => one.length - other.length)[0];
    const inner = nearest?.filter(({ path }) => path.length > 0) ?? [];
    const nested = inner.map((each) => ({ ...each, path: [...issue.path, ...each.path] }));
    if (nested.length > 0) {
      return nested.slice(0, PROBLEMS_MAX).flatMap((each) => problemsOf(each, place, input, []));
    }
  }
  if (issue.code === "invalid_key") {
    const rule = issue.issues.map(({ message }) => message).find(isPredicate);
    return [{ field, message: `is a name that ${rule ?? "is not possible there"}` }];
  }
  const value = valueAt(input, issue.path);
  if (value === undefined && !isPredicate(issue.message)) {
    return [{ field, message: "is missing" }];
  }
  const got = value === undefined ? "" : `, not ${shown(value)}${hintOf(issue, value)}`;
  return [{ field, message: `${ruleOf(issue)}${got}` }];
}

/** Which of the words that are possible was probably meant. */
function hintOf(issue: Issue, value: unknown): string {
  if (typeof value !== "string" || issue.code !== "invalid_value") return "";
  const words = issue.values.filter((each) => typeof each === "string");
  const meant = nearMiss(value, words);
  return meant === null ? "" : ` (did you mean ${meant}?)`;
}

/** Messages of our own schemas continue a sentence that begins with the field. */
function isPredicate(message: string): boolean {
  return /^(must|is|may|has|cannot)\b/.test(message);
}

function ruleOf(issue: Issue): string {
  if (isPredicate(issue.message)) return issue.message;
  switch (issue.code) {
    case "invalid_type":
      return `must be ${named(issue.expected)}`;
    case "too_big":
      return `must ${sizeOf(issue.origin, "at most", issue.maximum)}`;
    case "too_small":
      return `must ${sizeOf(issue.origin, "at least", issue.minimum)}`;
    case "invalid_value":
      return `must be ${issue.values.map((value) => JSON.stringify(value)).join(" or ")}`;
    case "invalid_format":
      return `must be a valid ${issue.format}`;
    case "invalid_union":
      return "options" in issue && issue.options !== undefined
        ? `must be ${issue.options.map((option) => JSON.stringify(option)).join(" or ")}`
        : "must have one of the forms that the API reference shows";
    default:
      return `is not valid (${issue.message})`;
  }
}

function named(expected: string): string {
  if (expected === "int") return "an integer";
  return /^[aeiou]/.test(expected) ? `an ${expected}` : `a ${expected}`;
}

function sizeOf(origin: string, bound: string, size: number | bigint): string {
  if (origin === "string") return `have ${bound} ${size} characters`;
  if (origin === "array" || origin === "set") return `have ${bound} ${size} items`;
  return `be ${bound} ${size}`;
}

/** The value that a path leads to; of a text that stands for a list, its part there. */
function valueAt(input: unknown, path: readonly PropertyKey[]): unknown {
  let value = input;
  for (const key of path) {
    if (typeof value === "string") return typeof key === "number" ? value.split(",")[key] : value;
    if (typeof value !== "object" || value === null) return undefined;
    value = (value as Record<PropertyKey, unknown>)[key];
  }
  return value;
}

function shown(value: unknown): string {
  return shortened(beginningOf(value));
}

/** A value as JSON, of long lists and objects only the beginning: nobody reads the rest. */
function beginningOf(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.slice(0, 2 * SHOWN_LENGTH));
  if (typeof value !== "object" || value === null) return String(value);
  const isList = Array.isArray(value);
  let text = isList ? "[" : "{";
  let comma = "";
  for (const key in value) {
    if (text.length > SHOWN_LENGTH) return text;
    const name = isList ? "" : `${JSON.stringify(shortened(key))}:`;
    text += comma + name + beginningOf((value as Record<string, unknown>)[key]);
    comma = ",";
  }
  return text + (isList ? "]" : "}");
}

function shortened(text: string): string {
  return text.length > SHOWN_LENGTH ? `${text.slice(0, SHOWN_LENGTH)}…` : text;
}

/** The HTTP status of every error code. Adding a code without a status does not compile. */
export const ERROR_STATUS = {
  ASSET_NOT_FOUND: 404,
  BACKFILL_NOT_FOUND: 404,
  BACKFILL_OVERLAPS: 409,
  CHUNK_NOT_FOUND: 404,
  COMMIT_UNKNOWN: 503,
  CONFIG_INVALID: 400,
  COORDINATOR_STALE: 409,
  DATA_DIRECTORY_UNWRITABLE: 503,
  DDL_NOT_ALLOWED: 403,
  DEFINITION_INVALID: 400,
  EPOCH_STALE: 409,
  EVENT_NOT_FOUND: 404,
  FENCE_BUSY: 409,
  FENCE_CLOSED: 409,
  FENCE_EXPIRED: 409,
  FORBIDDEN: 403,
  HEAD_IMPLAUSIBLE: 409,
  IDEMPOTENCY_KEY_MISSING: 400,
  IDEMPOTENCY_KEY_REUSED: 422,
  INPUT_INVALID: 400,
  INTERNAL: 500,
  LEASE_LOST: 409,
  LEDGER_CORRUPT: 503,
  LEDGER_NEWER: 503,
  METHOD_NOT_ALLOWED: 405,
  MOVE_NOT_FOUND: 404,
  NAME_TAKEN: 409,
  NOT_ENTERED: 409,
  NOT_YET: 409,
  OVERLOADED: 429,
  PARTITION_INVALID: 400,
  PLAN_CHANGED: 409,
  PORT_IN_USE: 409,
  QUOTA_EXCEEDED: 413,
  ROUTE_NOT_FOUND: 404,
  ROWS_CONFLICT: 409,
  RUN_KEY_CONFLICT: 409,
  RUN_NOT_FOUND: 404,
  SCHEDULE_NOT_FOUND: 404,
  SCHEMA_CHANGED: 409,
  SEGMENT_NOT_FOUND: 404,
  SELECTION_EMPTY: 400,
  SELECTION_TOO_LARGE: 413,
  SENSOR_NOT_FOUND: 404,
  SERVER_UNREACHABLE: 503,
  SHARD_BUSY: 503,
  SHARD_NOT_FOUND: 404,
  SHARD_UNREACHABLE: 503,
  SPLIT_NOT_FOUND: 404,
  SPLIT_OVERLAPS: 409,
  STATE_ILLEGAL: 409,
  STATE_VERSION_MISMATCH: 412,
  STORE_CORRUPT: 503,
  STORE_LOCKED: 503,
  STORE_UNAVAILABLE: 503,
  STREAM_MOVED: 409,
  SYNC_NOT_FOUND: 404,
  TABLE_UNFIT: 409,
  TASK_NOT_FOUND: 404,
  TOKEN_NOT_FOUND: 404,
  TOKEN_REQUIRED: 401,
  UNAUTHORIZED: 401,
  VERIFICATION_FAILED: 409,
  WEBHOOK_FAILED: 424,
  WEBHOOK_NOT_FOUND: 404,
  WEBHOOK_REFUSED: 422,
  WORK_FAILED: 409,
  WORK_NOT_FOUND: 404,
} as const satisfies Record<ErrorCode, number>;

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
