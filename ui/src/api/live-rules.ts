import type { OperationName } from "../../../src/work/operations.ts";

const WORK = /^(?:Backfill|Run|Task|Keys)/;
const RUNS = /^(?:Run|Task)/;
const PARTITIONS = /^(?:Task|Partition|Definitions|RunRequested)/;
const SCHEDULES = /^(?:Schedule|Definitions|Run|BackfillStateChanged)/;
const SENSORS = /^(?:Sensor|Definitions|Run)/;
const SYNCS = /^(?:Sync|Definitions|Run|Task)/;
const SPLITS = /^(?:Split|Routing|Run|Task)/;
const MOVES = /^(?:Move|Run|Task)/;
const NONE = /^$/;

/** Which events can change an answer. What is not named here is asked again after any event. */
const RULES: Partial<Record<OperationName, RegExp>> = {
  listBackfills: WORK,
  getBackfill: WORK,
  listChunks: WORK,
  listChunkPartitions: WORK,
  mapChunks: WORK,
  listFailures: WORK,
  // Its overlaps and its partitions; what is stale is looked for again when it is created.
  previewBackfill: /^(?:BackfillCreated|BackfillStateChanged|Definitions|PartitionKeys)/,
  listRuns: RUNS,
  getRun: RUNS,
  listTasks: RUNS,
  listTaskLogs: RUNS,
  listRunLogs: RUNS,
  listLoggedRuns: WORK,
  getTask: RUNS,
  getRunTimeline: RUNS,
  listConflicts: /^RunRequested/,
  listAssets: /^(?:Definitions|PartitionKeys)/,
  getAsset: /^(?:Definitions|PartitionKeys)/,
  summarizePartitions: PARTITIONS,
  listAssetPartitions: PARTITIONS,
  listUpstreamPartitions: PARTITIONS,
  listPartitionMetadata: PARTITIONS,
  listPartitionNumbers: PARTITIONS,
  mapPartitions: PARTITIONS,
  listPartitionValues: /^(?:Definitions|PartitionKeys)/,
  listStalePartitions: PARTITIONS,
  listSchedules: SCHEDULES,
  getSchedule: SCHEDULES,
  listTicks: SCHEDULES,
  listNextTimes: SCHEDULES,
  previewTimes: NONE,
  listSensors: SENSORS,
  getSensor: SENSORS,
  listEvals: SENSORS,
  listMessages: SENSORS,
  listWebhooks: /^Definitions/,
  listSyncs: SYNCS,
  getSync: SYNCS,
  mapSegments: SYNCS,
  listSegments: SYNCS,
  getSegment: SYNCS,
  listQuarantine: SYNCS,
  listSyncQuarantine: SYNCS,
  listSyncSources: SYNCS,
  syncOverview: SYNCS,
  listSplits: SPLITS,
  getSplit: SPLITS,
  listSplitSteps: SPLITS,
  listMoves: MOVES,
  getMove: MOVES,
  mapMoveSegments: MOVES,
  listMoveSegments: MOVES,
  getMoveSegment: MOVES,
  getRouting: /^Routing/,
  listRoutes: /^Routing/,
  getRoute: /^Routing/,
  listRoutingVersions: /^Routing/,
  listDefinitions: /^Definitions/,
  // Written every few seconds, and no event says so.
  listSamples: NONE,
  listKinds: NONE,
  // Asked for once, when the page opens and when somebody signs in or out.
  getSession: NONE,
};

/** Whether any event can change the answer of an operation. */
export function isFollowed(name: string): boolean {
  return RULES[name as OperationName] !== NONE;
}

/** Whether events of these types can change the answer of an operation. */
export function isTouched(name: string, types: readonly string[]): boolean {
  const rule = RULES[name as OperationName];
  return rule === undefined || types.some((type) => rule.test(type));
}
