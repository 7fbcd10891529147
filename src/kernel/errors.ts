/**
 * Everything that can go wrong in operation, and whether trying again may help. `docs/errors.md`
 * explains each code to an operator; a repository test keeps the two in step.
 */
export const ERRORS = {
  ASSET_NOT_FOUND: { retryable: false },
  BACKFILL_NOT_FOUND: { retryable: false },
  BACKFILL_OVERLAPS: { retryable: false },
  CHUNK_NOT_FOUND: { retryable: false },
  COMMIT_UNKNOWN: { retryable: false },
  CONFIG_INVALID: { retryable: false },
  COORDINATOR_STALE: { retryable: false },
  DATA_DIRECTORY_UNWRITABLE: { retryable: false },
  DDL_NOT_ALLOWED: { retryable: false },
  DEFINITION_INVALID: { retryable: false },
  EPOCH_STALE: { retryable: true },
  EVENT_NOT_FOUND: { retryable: false },
  FENCE_BUSY: { retryable: true },
  FENCE_CLOSED: { retryable: true },
  FENCE_EXPIRED: { retryable: true },
  FORBIDDEN: { retryable: false },
  HEAD_IMPLAUSIBLE: { retryable: true },
  IDEMPOTENCY_KEY_MISSING: { retryable: false },
  IDEMPOTENCY_KEY_REUSED: { retryable: false },
  INPUT_INVALID: { retryable: false },
  INTERNAL: { retryable: true },
  LEASE_LOST: { retryable: false },
  LEDGER_CORRUPT: { retryable: false },
  LEDGER_NEWER: { retryable: false },
  METHOD_NOT_ALLOWED: { retryable: false },
  MOVE_NOT_FOUND: { retryable: false },
  NAME_TAKEN: { retryable: false },
  NOT_ENTERED: { retryable: false },
  NOT_YET: { retryable: true },
  OVERLOADED: { retryable: true },
  PARTITION_INVALID: { retryable: false },
  PLAN_CHANGED: { retryable: false },
  PORT_IN_USE: { retryable: false },
  QUOTA_EXCEEDED: { retryable: false },
  ROUTE_NOT_FOUND: { retryable: false },
  ROWS_CONFLICT: { retryable: false },
  RUN_KEY_CONFLICT: { retryable: false },
  RUN_NOT_FOUND: { retryable: false },
  SCHEDULE_NOT_FOUND: { retryable: false },
  SCHEMA_CHANGED: { retryable: false },
  SEGMENT_NOT_FOUND: { retryable: false },
  SELECTION_EMPTY: { retryable: false },
  SELECTION_TOO_LARGE: { retryable: false },
  SENSOR_NOT_FOUND: { retryable: false },
  SERVER_UNREACHABLE: { retryable: true },
  SHARD_BUSY: { retryable: true },
  SHARD_NOT_FOUND: { retryable: false },
  SHARD_UNREACHABLE: { retryable: true },
  SPLIT_NOT_FOUND: { retryable: false },
  SPLIT_OVERLAPS: { retryable: false },
  STATE_ILLEGAL: { retryable: false },
  STATE_VERSION_MISMATCH: { retryable: false },
  STORE_CORRUPT: { retryable: false },
  STORE_LOCKED: { retryable: true },
  STORE_UNAVAILABLE: { retryable: true },
  STREAM_MOVED: { retryable: false },
  SYNC_NOT_FOUND: { retryable: false },
  TABLE_UNFIT: { retryable: false },
  TASK_NOT_FOUND: { retryable: false },
  TOKEN_NOT_FOUND: { retryable: false },
  TOKEN_REQUIRED: { retryable: false },
  UNAUTHORIZED: { retryable: false },
  VERIFICATION_FAILED: { retryable: false },
  WEBHOOK_FAILED: { retryable: true },
  WEBHOOK_NOT_FOUND: { retryable: false },
  WEBHOOK_REFUSED: { retryable: false },
  WORK_FAILED: { retryable: false },
  WORK_NOT_FOUND: { retryable: false },
} as const satisfies Record<string, { retryable: boolean }>;

/** The stable name of a failure; match on this, never on the message. */
export type ErrorCode = keyof typeof ERRORS;

/**
 * A failure of operation: expected to happen some day, and for the caller to handle.
 *
 * `message` is a sentence for a person, with the values that matter in it. `details` holds the same
 * values for a machine. Match on `code`, never on `message`.
 */
export class PawlError extends Error {
  override readonly name = "PawlError";
  readonly code: ErrorCode;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(
    code: ErrorCode,
    message: string,
    options: { details?: Record<string, unknown>; cause?: unknown } = {},
  ) {
    super(message, { cause: options.cause });
    this.code = code;
    this.details = options.details ?? {};
  }

  get retryable(): boolean {
    return ERRORS[this.code].retryable;
  }
}

/** A belief of the programmer that turned out false: a bug in Pawl, never bad input. */
export class AssertionFailure extends Error {
  override readonly name = "AssertionFailure";
}

/** What the programmer believes; made when it fails where it would be made for every row. */
type Belief = string | (() => string);

/**
 * Checks what the programmer believes. A failure is a bug in this program, never a bad input and
 * never a busy database, so nothing may catch it to carry on.
 */
export function assert(condition: boolean, belief: Belief): asserts condition {
  if (!condition) throw new AssertionFailure(textOf(belief));
}

function textOf(belief: Belief): string {
  return typeof belief === "string" ? belief : belief();
}

/** Marks a branch that the types say cannot be reached. */
export function unreachable(value: never): never {
  throw new AssertionFailure(`unreachable: ${JSON.stringify(value)}`);
}

/** The value, which the programmer knows to be there. */
export function present<Value>(value: Value | null | undefined, belief: Belief): Value {
  if (value === null || value === undefined) throw new AssertionFailure(textOf(belief));
  return value;
}
