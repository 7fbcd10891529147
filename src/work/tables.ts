import { BACKFILLS, CHUNKS, REQUEST_KEYS, SURVEY_PAGES } from "./backfill/rows.ts";
import {
  DEFINITIONS,
  DYNAMIC_DEFINITIONS,
  DYNAMIC_KEYS,
  SPECS,
  WORKSPACE,
} from "./definition/rows.ts";
import { MOVE_SEGMENTS, MOVES } from "./move/rows.ts";
import { AWAITED_ASSETS, WAITING_TASKS } from "./requires/rows.ts";
import {
  ASSET_STATUS,
  PARTITION_BLOCKS,
  PARTITION_METADATA,
  POOLS,
  RUN_ASSETS,
  RUN_KEY_CONFLICTS,
  RUN_KEYS,
  RUNS,
  TASK_BLOCKS,
  TASK_RETRIES,
} from "./run/rows.ts";
import { ROUTES, ROUTING, ROUTING_VERSIONS } from "./routing/rows.ts";
import { SCHEDULE_TICKS, SCHEDULES } from "./schedule/rows.ts";
import { SENSOR_EVALS, SENSOR_MESSAGES, SENSORS, WEBHOOKS } from "./sensor/rows.ts";
import { SPLIT_TENANTS, SPLITS } from "./split/rows.ts";
import { SEGMENTS, SYNC_SOURCES, SYNCS } from "./sync/rows.ts";

/** The tables of Pawl's own kinds of work, and of all that is not one. */
const OWN_TABLES = {
  workspace: WORKSPACE,
  definitions: DEFINITIONS,
  specs: SPECS,
  dynamicDefinitions: DYNAMIC_DEFINITIONS,
  dynamicKeys: DYNAMIC_KEYS,
  requestKeys: REQUEST_KEYS,
  backfills: BACKFILLS,
  chunks: CHUNKS,
  surveyPages: SURVEY_PAGES,
  runs: RUNS,
  runKeys: RUN_KEYS,
  runKeyConflicts: RUN_KEY_CONFLICTS,
  runAssets: RUN_ASSETS,
  taskBlocks: TASK_BLOCKS,
  taskRetries: TASK_RETRIES,
  waitingTasks: WAITING_TASKS,
  awaitedAssets: AWAITED_ASSETS,
  pools: POOLS,
  partitionBlocks: PARTITION_BLOCKS,
  partitionMetadata: PARTITION_METADATA,
  assetStatus: ASSET_STATUS,
  schedules: SCHEDULES,
  scheduleTicks: SCHEDULE_TICKS,
  sensors: SENSORS,
  sensorMessages: SENSOR_MESSAGES,
  sensorEvals: SENSOR_EVALS,
  webhooks: WEBHOOKS,
  syncs: SYNCS,
  segments: SEGMENTS,
  syncSources: SYNC_SOURCES,
  routing: ROUTING,
  routes: ROUTES,
  routingVersions: ROUTING_VERSIONS,
  splits: SPLITS,
  splitTenants: SPLIT_TENANTS,
  moves: MOVES,
  moveSegments: MOVE_SEGMENTS,
} as const;

/** Tables that kinds of work bring with them: each declares its own here, and has them in its parts. */
export interface KindTables {}

/** Every table that the fold writes, by the name it has in code. */
export const TABLES = { ...OWN_TABLES } as Joined<typeof OWN_TABLES & KindTables>;

type Joined<Parts> = { [Name in keyof Parts]: Parts[Name] };

/** The name of a table in code. */
export type TableName = keyof typeof TABLES;
