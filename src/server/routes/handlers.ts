import type { OperationName } from "../../core/api/operations.ts";
import type { Handler } from "../call.ts";
import { ASSET_HANDLERS } from "./assets.ts";
import { BACKFILL_HANDLERS } from "./backfills.ts";
import { CHANGE_HANDLERS } from "./changes.ts";
import { CHUNK_MAP_HANDLERS } from "./chunk-map.ts";
import { CHUNK_HANDLERS } from "./chunks.ts";
import { CONFLICT_HANDLERS } from "./conflicts.ts";
import { DEFINITION_HANDLERS } from "./definitions.ts";
import { EVENT_HANDLERS } from "./events.ts";
import { FAILURE_HANDLERS } from "./failures.ts";
import { HEALTH_HANDLERS } from "./health.ts";
import { MOVE_MAP_HANDLERS } from "./move-map.ts";
import { MOVE_HANDLERS } from "./moves.ts";
import { OVERVIEW_HANDLERS } from "./overview.ts";
import { PARTITION_MAP_HANDLERS } from "./partition-map.ts";
import { PARTITION_SUMMARY_HANDLERS } from "./partition-summary.ts";
import { PARTITION_HANDLERS } from "./partitions.ts";
import { ROUTING_HANDLERS } from "./routing.ts";
import { RUN_TIMELINE_HANDLERS } from "./run-timeline.ts";
import { RUN_HANDLERS } from "./runs.ts";
import { SCHEDULE_HANDLERS } from "./schedules.ts";
import { SEGMENT_MAP_HANDLERS } from "./segment-map.ts";
import { SENSOR_HANDLERS } from "./sensors.ts";
import { SESSION_HANDLERS } from "./session.ts";
import { SPLIT_HANDLERS } from "./splits.ts";
import { SYNC_CHANGE_HANDLERS } from "./sync-changes.ts";
import { SYNC_HANDLERS } from "./syncs.ts";
import { TOKEN_HANDLERS } from "./tokens.ts";
import { WEBHOOK_HANDLERS } from "./webhooks.ts";
import { WORKER_HANDLERS } from "./worker.ts";

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
  ...WORKER_HANDLERS,
};
