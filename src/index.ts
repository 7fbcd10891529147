/* What a project imports from "pawl". Every name is here on purpose, and stays once released. */

// What a project defines.
export { asset, externalAsset, pool } from "./define/asset.ts";
export { check } from "./define/check.ts";
export { definePawl } from "./define/define-pawl.ts";

// What makes partitions without a function: commands, scripts, statements.
export { dbt, python, shell } from "./external/shell.ts";
export { sql } from "./external/sql.ts";

// What keeps a copy of something numbered complete, and why a source gave no answer.
export {
  RangeTooLarge,
  rangeTooLarge,
  SourceLagging,
  sourceLagging,
  SourceUnavailable,
  sourceUnavailable,
  Throttled,
  throttled,
} from "./define/errors.ts";
export { sync } from "./define/sync.ts";

// Shards, and what goes from one to another.
export { byHash, byRange, byTenant, move } from "./define/move.ts";
export { httpShard, postgresShard, shards, sqliteShard } from "./define/shards.ts";
export { createRouter } from "./shards/router/create-router.ts";

// What asks for runs by itself, and what tells of outcomes.
export { schedule } from "./define/schedule.ts";
export {
  materializationsOf,
  newFiles,
  newObjects,
  newRows,
  runFailures,
  sensor,
} from "./define/sensor.ts";
export { webhook } from "./define/webhook.ts";

// How assets are cut into partitions.
export {
  cron,
  daily,
  dynamicPartitions,
  hourly,
  integers,
  monthly,
  multi,
  staticPartitions,
  weekly,
} from "./define/partitions.ts";

// How partitions of one asset lead to those of another.
export {
  allPartitions,
  dimension,
  identity,
  offset,
  table,
  timeWindow,
} from "./define/partitions.ts";

// What a task can throw to say more than "it failed".
export {
  DoNotRetry,
  doNotRetry,
  RetryAfter,
  retryAfter,
  Skip,
  skip,
} from "./define/errors.ts";

// What a task can say of what it made.
export { md } from "./define/metadata.ts";

// How a program talks to a server, and what it may be refused with.
export { createClient } from "./client/client.ts";
export { PawlError } from "./kernel/errors.ts";

export type { Client, ClientOptions, FollowedEvent } from "./client/client.ts";
export type { WaitOptions } from "./client/waiting.ts";
export type { EventDocument } from "./work/server-api.ts";
export type { Json } from "./kernel/canonical.ts";
export type { ErrorCode } from "./kernel/errors.ts";
export type { RecordedEvent } from "./work/envelope.ts";
export type { EventData, EventType } from "./work/events.ts";
export type { PartitionDefinition } from "./kernel/keyspace/definition.ts";
export type { TimeWindow } from "./kernel/keyspace/keyspace.ts";
export type { PartitionMapping } from "./kernel/keyspace/mapping.ts";
export type { Selector } from "./kernel/keyspace/selector.ts";
export type { SensorMessage } from "./work/probe-protocol.ts";
export type { SyncTarget } from "./work/sync/spec.ts";
export type {
  Asset,
  AssetOptions,
  AssetReference,
  ExternalAssetOptions,
  RetryOptions,
} from "./define/asset.ts";
export type { Check, CheckAnswer, CheckContext, CheckOptions, Judge } from "./define/check.ts";
export type {
  Arguments,
  CommandLine,
  DbtOptions,
  PythonOptions,
  ShellOptions,
} from "./external/shell.ts";
export type { CommandOptions } from "./external/run-task-command.ts";
export type { SqlOptions, SqlParameter } from "./external/sql.ts";
export type { Project, ProjectOptions } from "./define/define-pawl.ts";
export type { ScheduleOptions, ScheduleSelectionOption } from "./define/schedule.ts";
export type {
  DynamicPartitions,
  Evaluate,
  SensorContext,
  SensorRequest,
  SensorResult,
} from "./define/automation-context.ts";
export type {
  FetchResult,
  SourceContext,
  SyncCode,
  SyncContext,
  SyncRange,
  VerifyResult,
} from "./define/automation-context.ts";
export type { Router, RouterOptions } from "./shards/router/create-router.ts";
export type { Move, MoveOptions } from "./define/move.ts";
export type { ShardAddress, Shards, ShardsOptions } from "./define/shards.ts";
export type { Sync, SyncOptions } from "./define/sync.ts";
export type {
  Materialize,
  TaskContext,
  TaskResult,
  UpstreamOptions,
  UpstreamPartition,
} from "./define/automation-context.ts";
export type {
  FileItem,
  ListedObject,
  ListObjects,
  MaterializationItem,
  ObjectItem,
  RowItem,
  RunFailureItem,
  Sensor,
  SensorOptions,
  SensorTargetOptions,
  Watch,
} from "./define/sensor.ts";
export type { NotificationName, WebhookOptions } from "./define/webhook.ts";
