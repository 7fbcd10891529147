import type { OperationName } from "../work/operations.ts";
import type { Handler } from "./http/call.ts";
import { BACKFILL_HANDLERS } from "./routes/backfills.ts";
import { CHANGE_HANDLERS, EVENT_HANDLERS } from "./routes/events.ts";
import { CHUNK_MAP_HANDLERS, CHUNK_HANDLERS } from "./routes/chunks.ts";
import { ASSET_HANDLERS, CONFLICT_HANDLERS, DEFINITION_HANDLERS } from "./routes/definitions.ts";
import { FAILURE_HANDLERS } from "./routes/failures.ts";
import { HEALTH_HANDLERS, SESSION_HANDLERS, TOKEN_HANDLERS } from "./routes/server.ts";
import { MOVE_MAP_HANDLERS } from "./routes/move-documents.ts";
import { MOVE_HANDLERS } from "./routes/moves.ts";
import { METADATA_HANDLERS } from "./partitions/metadata.ts";
import { OVERVIEW_HANDLERS } from "./overview/route.ts";
import {
  PARTITION_HANDLERS,
  PARTITION_MAP_HANDLERS,
  PARTITION_SUMMARY_HANDLERS,
} from "./routes/partitions.ts";
import { ROUTING_HANDLERS } from "./routes/routing.ts";
import { LOG_HANDLERS } from "./routes/run-logs.ts";
import { RUN_TIMELINE_HANDLERS } from "./routes/run-timeline.ts";
import { RUN_HANDLERS } from "./routes/runs.ts";
import { SCHEDULE_HANDLERS } from "./routes/schedules.ts";
import { SEGMENT_MAP_HANDLERS } from "./routes/segments.ts";
import { SENSOR_HANDLERS } from "./routes/sensors.ts";
import { SPLIT_HANDLERS } from "./routes/splits.ts";
import { SYNC_CHANGE_HANDLERS, SYNC_HANDLERS } from "./routes/syncs.ts";
import { WEBHOOK_HANDLERS } from "./routes/webhooks.ts";
import { WORK_HANDLERS } from "./routes/work.ts";
import { WORKER_HANDLERS } from "./routes/worker.ts";

/** Who carries out each operation; one without a handler does not compile. */
export const HANDLERS: { readonly [Name in OperationName]: Handler<Name> } = {
  ...ASSET_HANDLERS,
  ...BACKFILL_HANDLERS,
  ...CHANGE_HANDLERS,
  ...CHUNK_HANDLERS,
  ...CHUNK_MAP_HANDLERS,
  ...CONFLICT_HANDLERS,
  ...DEFINITION_HANDLERS,
  ...EVENT_HANDLERS,
  ...FAILURE_HANDLERS,
  ...HEALTH_HANDLERS,
  ...LOG_HANDLERS,
  ...METADATA_HANDLERS,
  ...MOVE_HANDLERS,
  ...MOVE_MAP_HANDLERS,
  ...OVERVIEW_HANDLERS,
  ...PARTITION_HANDLERS,
  ...PARTITION_MAP_HANDLERS,
  ...PARTITION_SUMMARY_HANDLERS,
  ...ROUTING_HANDLERS,
  ...RUN_HANDLERS,
  ...RUN_TIMELINE_HANDLERS,
  ...SCHEDULE_HANDLERS,
  ...SEGMENT_MAP_HANDLERS,
  ...SENSOR_HANDLERS,
  ...SESSION_HANDLERS,
  ...SPLIT_HANDLERS,
  ...SYNC_HANDLERS,
  ...SYNC_CHANGE_HANDLERS,
  ...TOKEN_HANDLERS,
  ...WEBHOOK_HANDLERS,
  ...WORK_HANDLERS,
  ...WORKER_HANDLERS,
};
