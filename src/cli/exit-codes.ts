import type { ErrorCode } from "../core/errors.ts";

/**
 * The exit code of the command line for every error code; 0 is success. Adding a code without one
 * does not compile.
 *
 * 1 work failed, 2 wrong usage or input, 3 not found, 4 conflict, 5 server or store out of reach,
 * 6 not allowed, 7 corrupt, 70 a bug.
 */
export const EXIT_CODES = {
  ASSET_NOT_FOUND: 3,
  BACKFILL_NOT_FOUND: 3,
  BACKFILL_OVERLAPS: 4,
  CHUNK_NOT_FOUND: 3,
  CONFIG_INVALID: 2,
  DATA_DIRECTORY_UNWRITABLE: 5,
  DEFINITION_INVALID: 2,
  EVENT_NOT_FOUND: 3,
  FORBIDDEN: 6,
  IDEMPOTENCY_KEY_MISSING: 2,
  IDEMPOTENCY_KEY_REUSED: 4,
  INPUT_INVALID: 2,
  INTERNAL: 70,
  LEASE_LOST: 4,
  LEDGER_CORRUPT: 7,
  LEDGER_NEWER: 5,
  METHOD_NOT_ALLOWED: 2,
  NAME_TAKEN: 4,
  NOT_YET: 4,
  OVERLOADED: 5,
  PARTITION_INVALID: 2,
  PLAN_CHANGED: 4,
  PORT_IN_USE: 4,
  ROUTE_NOT_FOUND: 3,
  RUN_NOT_FOUND: 3,
  SCHEDULE_NOT_FOUND: 3,
  SELECTION_EMPTY: 2,
  SELECTION_TOO_LARGE: 2,
  SENSOR_NOT_FOUND: 3,
  SERVER_UNREACHABLE: 5,
  STATE_ILLEGAL: 4,
  STATE_VERSION_MISMATCH: 4,
  STORE_CORRUPT: 7,
  STORE_LOCKED: 5,
  STORE_UNAVAILABLE: 5,
  TOKEN_NOT_FOUND: 3,
  TOKEN_REQUIRED: 6,
  UNAUTHORIZED: 6,
  WEBHOOK_FAILED: 5,
  WEBHOOK_NOT_FOUND: 3,
  WEBHOOK_REFUSED: 2,
  WORK_FAILED: 1,
} as const satisfies Record<ErrorCode, number>;
