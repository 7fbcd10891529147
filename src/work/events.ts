import { z } from "zod";
import { PartitionsForgotten, PartitionsReported } from "./asset/events.ts";
import {
  BackfillChunkPlanned,
  BackfillChunkSplit,
  BackfillCreated,
  BackfillRetuned,
  BackfillStateChanged,
  BackfillWindowChanged,
  KeysSurveyed,
} from "./backfill/events.ts";
import {
  DefinitionsPublished,
  PartitionKeysAdded,
  PartitionKeysRemoved,
  PartitionKeysRestored,
} from "./definition/events.ts";
import {
  MoveChecked,
  MovePlanned,
  MoveRetuned,
  MoveSegmentChanged,
  MoveSegmentSplit,
  MoveSegmentsPlanned,
  MoveStateChanged,
  MoveVerifyRequested,
} from "./move/events.ts";
import { AwaitedPartitionsMade, TasksDeferred, TasksRequeued } from "./requires/events.ts";
import { RoutingChanged } from "./routing/events.ts";
import {
  RunCancelRequested,
  RunFinished,
  RunRequested,
  RunStarted,
  TaskLeaseExpired,
  TasksFinished,
  TasksStarted,
} from "./run/events.ts";
import {
  SchedulePaused,
  ScheduleResumed,
  ScheduleTicked,
  ScheduleTicksSkipped,
} from "./schedule/events.ts";
import {
  SensorCursorReset,
  SensorEvaluated,
  SensorMessageReceived,
  SensorPaused,
  SensorResumed,
} from "./sensor/events.ts";
import {
  SplitCaughtUp,
  SplitCutOver,
  SplitPhaseChanged,
  SplitPlanned,
  SplitStepSettled,
  SplitWanted,
} from "./split/events.ts";
import {
  SyncHeadMoved,
  SyncRetuned,
  SyncHeadSet,
  SyncPlanCut,
  SyncRewritten,
  SyncsAdded,
  SyncSegmentExcluded,
  SyncSegmentsPlanned,
  SyncSegmentsReopened,
  SyncStateChanged,
  SyncVerifyRequested,
} from "./sync/events.ts";

/** The events of Pawl's own kinds of work, and of all that is not one. */
const OWN_EVENTS = {
  DefinitionsPublished: z.strictObject(DefinitionsPublished),
  PartitionKeysAdded: z.strictObject(PartitionKeysAdded),
  PartitionKeysRemoved: z.strictObject(PartitionKeysRemoved),
  PartitionKeysRestored: z.strictObject(PartitionKeysRestored),
  RunRequested: z.strictObject(RunRequested),
  RunStarted: z.strictObject(RunStarted),
  RunFinished: z.strictObject(RunFinished),
  RunCancelRequested: z.strictObject(RunCancelRequested),
  TasksStarted: z.strictObject(TasksStarted),
  TasksFinished: z.strictObject(TasksFinished),
  TaskLeaseExpired: z.strictObject(TaskLeaseExpired),
  TasksDeferred: z.strictObject(TasksDeferred),
  TasksRequeued: z.strictObject(TasksRequeued),
  AwaitedPartitionsMade: z.strictObject(AwaitedPartitionsMade),
  PartitionsReported: z.strictObject(PartitionsReported),
  PartitionsForgotten: z.strictObject(PartitionsForgotten),
  BackfillCreated: z.strictObject(BackfillCreated),
  KeysSurveyed: z.strictObject(KeysSurveyed),
  BackfillChunkPlanned: z.strictObject(BackfillChunkPlanned),
  BackfillChunkSplit: z.strictObject(BackfillChunkSplit),
  BackfillStateChanged: z.strictObject(BackfillStateChanged),
  BackfillRetuned: z.strictObject(BackfillRetuned),
  BackfillWindowChanged: z.strictObject(BackfillWindowChanged),
  ScheduleTicked: z.strictObject(ScheduleTicked),
  ScheduleTicksSkipped: z.strictObject(ScheduleTicksSkipped),
  SchedulePaused: z.strictObject(SchedulePaused),
  ScheduleResumed: z.strictObject(ScheduleResumed),
  SensorMessageReceived: z.strictObject(SensorMessageReceived),
  SensorEvaluated: z.strictObject(SensorEvaluated),
  SensorPaused: z.strictObject(SensorPaused),
  SensorResumed: z.strictObject(SensorResumed),
  SensorCursorReset: z.strictObject(SensorCursorReset),
  SyncsAdded: z.strictObject(SyncsAdded),
  SyncStateChanged: z.strictObject(SyncStateChanged),
  SyncRetuned: z.strictObject(SyncRetuned),
  SyncHeadMoved: z.strictObject(SyncHeadMoved),
  SyncHeadSet: z.strictObject(SyncHeadSet),
  SyncRewritten: z.strictObject(SyncRewritten),
  SyncPlanCut: z.strictObject(SyncPlanCut),
  SyncSegmentsPlanned: z.strictObject(SyncSegmentsPlanned),
  SyncSegmentsReopened: z.strictObject(SyncSegmentsReopened),
  SyncSegmentExcluded: z.strictObject(SyncSegmentExcluded),
  SyncVerifyRequested: z.strictObject(SyncVerifyRequested),
  RoutingChanged: z.strictObject(RoutingChanged),
  SplitPlanned: z.strictObject(SplitPlanned),
  SplitPhaseChanged: z.strictObject(SplitPhaseChanged),
  SplitWanted: z.strictObject(SplitWanted),
  SplitStepSettled: z.strictObject(SplitStepSettled),
  SplitCaughtUp: z.strictObject(SplitCaughtUp),
  SplitCutOver: z.strictObject(SplitCutOver),
  MovePlanned: z.strictObject(MovePlanned),
  MoveStateChanged: z.strictObject(MoveStateChanged),
  MoveRetuned: z.strictObject(MoveRetuned),
  MoveSegmentsPlanned: z.strictObject(MoveSegmentsPlanned),
  MoveSegmentSplit: z.strictObject(MoveSegmentSplit),
  MoveSegmentChanged: z.strictObject(MoveSegmentChanged),
  MoveVerifyRequested: z.strictObject(MoveVerifyRequested),
  MoveChecked: z.strictObject(MoveChecked),
} as const;

/** Events that kinds of work bring with them: each declares its own here, and has them in its parts. */
export interface KindEvents {}

/**
 * Every event there is, under its type. Strict on write; a reader takes what it knows.
 * `docs/events.md` explains each; a repository test keeps the two in step.
 */
export const EVENTS = { ...OWN_EVENTS } as typeof OWN_EVENTS & KindEvents;

/** The name of an event that no kind brings with it. */
export type OwnEventType = keyof typeof OWN_EVENTS;

/** The name of an event. */
export type EventType = keyof typeof EVENTS;

/** What an event of a type carries. */
export type EventData<Type extends EventType> = z.infer<(typeof EVENTS)[Type]>;

/** An event that a decision wants recorded. */
export type NewEvent = {
  [Type in EventType]: { type: Type; data: EventData<Type>; idempotency_key: string };
}[EventType];

/** Whether this code knows the type. */
export function isEventType(type: string): type is EventType {
  return Object.hasOwn(EVENTS, type);
}
