import type { z } from "zod";
import { ASSET_OPERATIONS } from "./asset/api.ts";
import { METADATA_OPERATIONS } from "./asset/metadata-api.ts";
import { REPORT_OPERATIONS } from "./asset/report-api.ts";
import { BACKFILL_OPERATIONS } from "./backfill/api.ts";
import {
  EVENT_OPERATIONS,
  OVERVIEW_OPERATIONS,
  SERVER_OPERATIONS,
  SESSION_OPERATIONS,
} from "./server-api.ts";
import { MOVE_OPERATIONS } from "./move/api.ts";
import type { Operation } from "./operation.ts";
import { ROUTING_OPERATIONS } from "./routing/api.ts";
import { RUN_OPERATIONS } from "./run/api.ts";
import { SCHEDULE_OPERATIONS } from "./schedule/api.ts";
import { SENSOR_OPERATIONS } from "./sensor/api.ts";
import { SPLIT_OPERATIONS } from "./split/api.ts";
import { SYNC_CHANGE_OPERATIONS, SYNC_OPERATIONS } from "./sync/api.ts";
import { WEBHOOK_OPERATIONS } from "./webhook/api.ts";
import { WORK_OPERATIONS } from "./work-api.ts";
import { WORKER_OPERATIONS } from "./worker-api.ts";

/** Everything that the HTTP API can do, by name. */
export const OPERATIONS = {
  ...ASSET_OPERATIONS,
  ...METADATA_OPERATIONS,
  ...REPORT_OPERATIONS,
  ...BACKFILL_OPERATIONS,
  ...RUN_OPERATIONS,
  ...SCHEDULE_OPERATIONS,
  ...SENSOR_OPERATIONS,
  ...SYNC_OPERATIONS,
  ...SYNC_CHANGE_OPERATIONS,
  ...ROUTING_OPERATIONS,
  ...SPLIT_OPERATIONS,
  ...MOVE_OPERATIONS,
  ...WORK_OPERATIONS,
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
