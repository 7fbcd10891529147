import type { z } from "zod";
import { ASSET_OPERATIONS } from "./asset-operations.ts";
import { BACKFILL_OPERATIONS } from "./backfill-operations.ts";
import { EVENT_OPERATIONS } from "./event-operations.ts";
import { MOVE_OPERATIONS } from "./move-operations.ts";
import type { Operation } from "./operation.ts";
import { OVERVIEW_OPERATIONS } from "./overview-operations.ts";
import { ROUTING_OPERATIONS } from "./routing-operations.ts";
import { RUN_OPERATIONS } from "./run-operations.ts";
import { SCHEDULE_OPERATIONS } from "./schedule-operations.ts";
import { SENSOR_OPERATIONS } from "./sensor-operations.ts";
import { SERVER_OPERATIONS } from "./server-operations.ts";
import { SESSION_OPERATIONS } from "./session-operations.ts";
import { SPLIT_OPERATIONS } from "./split-operations.ts";
import { SYNC_CHANGE_OPERATIONS } from "./sync-change-operations.ts";
import { SYNC_OPERATIONS } from "./sync-operations.ts";
import { WEBHOOK_OPERATIONS } from "./webhook-operations.ts";
import { WORKER_OPERATIONS } from "./worker-operations.ts";

/** Everything that the HTTP API can do, by name. */
export const OPERATIONS = {
  ...ASSET_OPERATIONS,
  ...BACKFILL_OPERATIONS,
  ...RUN_OPERATIONS,
  ...SCHEDULE_OPERATIONS,
  ...SENSOR_OPERATIONS,
  ...SYNC_OPERATIONS,
  ...SYNC_CHANGE_OPERATIONS,
  ...ROUTING_OPERATIONS,
  ...SPLIT_OPERATIONS,
  ...MOVE_OPERATIONS,
  ...WEBHOOK_OPERATIONS,
  ...EVENT_OPERATIONS,
  ...OVERVIEW_OPERATIONS,
  ...SERVER_OPERATIONS,
  ...SESSION_OPERATIONS,
  ...WORKER_OPERATIONS,
} as const satisfies Record<string, Operation>;

/** The name of an operation. */
export type OperationName = keyof typeof OPERATIONS;

type Part<Name extends OperationName, Field extends "params" | "query" | "body"> =
  (typeof OPERATIONS)[Name] extends Record<Field, infer Schema extends z.ZodType> ? Schema : never;

/** One part of a request as a caller writes it; never where the operation has no such part. */
export type PartInput<
  Name extends OperationName,
  Field extends "params" | "query" | "body",
> = z.input<Part<Name, Field>>;

/** One part of a request as the server sees it, with defaults filled in. */
export type PartOutput<
  Name extends OperationName,
  Field extends "params" | "query" | "body",
> = z.output<Part<Name, Field>>;

/** What an operation answers. */
export type AnswerOf<Name extends OperationName> = z.output<(typeof OPERATIONS)[Name]["answer"]>;
