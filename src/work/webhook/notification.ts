import type { Json } from "../../kernel/canonical.ts";
import type { RecordedEvent } from "../envelope.ts";
import type { EventData } from "../events.ts";
import type { Rows } from "../rows.ts";
import type { Key, KeyPart } from "../../kernel/table.ts";
import type { ShardWorkRef } from "../shard/step-protocol.ts";
import type { NOTIFICATIONS } from "../definition/spec.ts";
import type { Instant } from "../../kernel/instant.ts";
import type { SpecRow } from "../definition/rows.ts";

type SplitRef = Extract<ShardWorkRef, { work: "split" }>;

/** Events of moves and splits that may be notified. */
export const NOTIFIED_SHARD_EVENTS = [
  "SplitCaughtUp",
  "SplitCutOver",
  "SplitStepSettled",
  "SplitPhaseChanged",
  "MoveStateChanged",
  "MoveSegmentChanged",
] as const;

/** The notification of an event of a move or a split; null when there never is one. */
export function shardNotificationType({ type, data }: RecordedEvent): NotificationType | null {
  switch (type) {
    case "RunFinished":
      return failedStep({ type, data }) === null ? null : "split.failed";
    case "SplitCaughtUp":
      return "split.caught_up";
    case "SplitCutOver":
      return "split.cut_over";
    case "SplitStepSettled": {
      const { outcome } = JSON.parse(data) as EventData<"SplitStepSettled">;
      return outcome === "fell_back" ? "split.fell_back" : null;
    }
    case "SplitPhaseChanged": {
      const { to_phase } = JSON.parse(data) as EventData<"SplitPhaseChanged">;
      const isLast = to_phase === "completed" || to_phase === "rolled_back";
      return isLast ? `split.${to_phase}` : null;
    }
    case "MoveStateChanged": {
      const { to_state, changed_by } = JSON.parse(data) as EventData<"MoveStateChanged">;
      if (to_state === "COMPLETE") return "move.completed";
      // Somebody who pauses a move knows that already.
      return to_state === "PAUSED" && changed_by === null ? "move.paused" : null;
    }
    case "MoveSegmentChanged": {
      const { becomes } = JSON.parse(data) as EventData<"MoveSegmentChanged">;
      return becomes === "poisoned" ? "move.poisoned" : null;
    }
    default:
      return null;
  }
}

/** The step of a split whose run failed for good; null for any other event. */
function failedStep({ type, data }: Pick<RecordedEvent, "type" | "data">): SplitRef | null {
  if (type !== "RunFinished") return null;
  const { outcome, shard_work } = JSON.parse(data) as EventData<"RunFinished">;
  return outcome === "FAILED" && shard_work?.work === "split" ? shard_work : null;
}

/** The splits of which a step failed for good, by these events. */
export function failedSplitsIn(events: readonly RecordedEvent[]): Key[] {
  return events.flatMap((event): Key[] => {
    const ref = failedStep(event);
    return ref === null ? [] : [[ref.split_id]];
  });
}

/** A step that failed for good stands still until somebody resumes its split. */
function ofFailedStep(rows: Rows, event: RecordedEvent, ref: SplitRef): Notification | null {
  const { split_id, step, n } = ref;
  const split = rows.splits.get(split_id);
  const data = aboutSplit(rows, split_id);
  if (split === null || data === null) return null;
  const isCutover = step === "cutover" || step === "cutback";
  // One without a commit record falls back by itself, which is told as that.
  if (isCutover && (split.committing === 0 || split.steps !== n)) return null;
  return {
    type: "split.failed",
    timestamp: event.occurred_at,
    assets: [],
    data: { ...data, pos: event.pos, outcome: "failed", reason: null, step },
  };
}

/** What to notify of an event of a move or a split; null for nothing. */
export function shardNotification(rows: Rows, event: RecordedEvent): Notification | null {
  const failed = failedStep(event);
  if (failed !== null) return ofFailedStep(rows, event, failed);
  const type = shardNotificationType(event);
  if (type === null) return null;
  const told = JSON.parse(event.data) as { split_id?: string; move_id?: string };
  const about = told.split_id === undefined ? null : aboutSplit(rows, told.split_id);
  const data = about ?? (told.move_id === undefined ? null : aboutMove(rows, told.move_id));
  if (data === null) return null;
  const { segment_index = null, reason = null } = told as Partial<EventData<"MoveSegmentChanged">>;
  const { direction = null } = told as Partial<EventData<"SplitCutOver">>;
  return {
    type,
    timestamp: event.occurred_at,
    assets: [],
    data: {
      ...data,
      pos: event.pos,
      outcome: type.slice(type.indexOf(".") + 1),
      reason,
      ...(segment_index === null ? {} : { segment_index }),
      // Both ways are cutovers; which one it was says where the tenants are now.
      ...(direction === null ? {} : { direction }),
    },
  };
}

function aboutSplit(rows: Rows, splitId: string): Record<string, Json> | null {
  const split = rows.splits.get(splitId);
  if (split === null) return null;
  const { split_id, description, source, target, tenants, phase, state_version, error } = split;
  return { split_id, description, source, target, tenants, phase, state_version, error };
}

function aboutMove(rows: Rows, moveId: string): Record<string, Json> | null {
  const move = rows.moves.get(moveId);
  if (move === null) return null;
  const { move_id, name, state, state_version, segments_total, segments_poisoned } = move;
  return { move_id, name, state, state_version, segments_total, segments_poisoned };
}

/** Something that a webhook can notify. */
export type NotificationType = (typeof NOTIFICATIONS)[number];

/** What a notification is about: its assets and its type. */
export type Notification = {
  type: NotificationType;
  timestamp: Instant;
  assets: readonly string[];
  data: Record<string, Json>;
};

/** Events that may be notified. */
export const NOTIFIED_EVENTS = [
  "RunFinished",
  "BackfillStateChanged",
  "ScheduleTicked",
  "ScheduleTicksSkipped",
  "SensorEvaluated",
  ...NOTIFIED_SHARD_EVENTS,
] as const;

/** Partition keys that a notification lists at most. */
const KEYS_MAX = 100;

const RUN_TYPES = {
  SUCCEEDED: "run.succeeded",
  FAILED: "run.failed",
  CANCELLED: "run.cancelled",
} as const;

const BACKFILL_TYPES: Readonly<Record<string, NotificationType>> = {
  SUCCEEDED: "backfill.succeeded",
  FAILED: "backfill.failed",
  CANCELLED: "backfill.cancelled",
  PAUSED: "backfill.paused",
};

/** The notification of an event, as far as the event itself says; null when there never is one. */
export function notificationTypeOf(event: RecordedEvent): NotificationType | null {
  const { type, data } = event;
  switch (type) {
    case "RunFinished": {
      const run = JSON.parse(data) as EventData<"RunFinished">;
      return isOfItsOwn(run) ? RUN_TYPES[run.outcome] : shardNotificationType(event);
    }
    case "BackfillStateChanged": {
      const { to_state } = JSON.parse(data) as EventData<"BackfillStateChanged">;
      return BACKFILL_TYPES[to_state] ?? null;
    }
    case "ScheduleTicked": {
      const { status } = JSON.parse(data) as EventData<"ScheduleTicked">;
      return status === "triggered" ? null : `schedule.${status}`;
    }
    case "ScheduleTicksSkipped":
      return "schedule.skipped";
    case "SensorEvaluated": {
      const { status, recovered } = JSON.parse(data) as EventData<"SensorEvaluated">;
      return status === "error" ? "sensor.error" : recovered ? "sensor.recovered" : null;
    }
    default:
      return shardNotificationType(event);
  }
}

/** Runs of segments, steps and parts come and go without end; what matters of them is told in other words. */
function isOfItsOwn({ segment, shard_work, work }: EventData<"RunFinished">): boolean {
  return segment === undefined && shard_work === undefined && work === undefined;
}

/** Whether an event is the end of a run of a backfill. */
export function isOfBackfillRun({ type, data }: RecordedEvent): boolean {
  if (type !== "RunFinished") return false;
  return (JSON.parse(data) as EventData<"RunFinished">).backfill_id !== null;
}

/** What to notify of each of these events; null for nothing. */
export function notificationsOf(
  rows: Rows,
  events: readonly RecordedEvent[],
): (Notification | null)[] {
  // All rows at once: one by one, each would cost a read of its own.
  rows.runs.need(keysOf(events, "RunFinished", "run_pos"));
  rows.backfills.need(keysOf(events, "BackfillStateChanged", "backfill_id"));
  rows.schedules.need(keysOf(events, "ScheduleTicked", "schedule_id"));
  rows.schedules.need(keysOf(events, "ScheduleTicksSkipped", "schedule_id"));
  rows.sensors.need(keysOf(events, "SensorEvaluated", "sensor_id"));
  rows.specs.need(keysOf(events, "SensorEvaluated", "spec_hash"));
  for (const type of NOTIFIED_SHARD_EVENTS) {
    rows.splits.need(keysOf(events, type, "split_id"));
    rows.moves.need(keysOf(events, type, "move_id"));
  }
  rows.splits.need(failedSplitsIn(events));
  return events.map((event) => notificationOf(rows, event));
}

function keysOf(events: readonly RecordedEvent[], type: string, field: string): Key[] {
  const parts = events
    .filter((event) => event.type === type)
    .map(({ data }) => (JSON.parse(data) as Record<string, KeyPart>)[field]);
  return [...new Set(parts)].flatMap((part) => (part === undefined ? [] : [[part]]));
}

function notificationOf(rows: Rows, event: RecordedEvent): Notification | null {
  switch (event.type) {
    case "RunFinished": {
      const run = JSON.parse(event.data) as EventData<"RunFinished">;
      return isOfItsOwn(run) ? ofRun(rows, event, run) : shardNotification(rows, event);
    }
    case "BackfillStateChanged":
      return ofBackfill(rows, event, JSON.parse(event.data) as EventData<"BackfillStateChanged">);
    case "ScheduleTicked":
      return ofTick(rows, event, JSON.parse(event.data) as EventData<"ScheduleTicked">);
    case "ScheduleTicksSkipped":
      return ofSkipped(rows, event, JSON.parse(event.data) as EventData<"ScheduleTicksSkipped">);
    case "SensorEvaluated":
      return ofEvaluation(rows, event, JSON.parse(event.data) as EventData<"SensorEvaluated">);
    default:
      return shardNotification(rows, event);
  }
}

function ofRun(
  rows: Rows,
  { pos, occurred_at }: RecordedEvent,
  finished: EventData<"RunFinished">,
): Notification | null {
  const { run_id, run_pos, outcome, counts } = finished;
  const run = rows.runs.get(run_pos);
  if (run === null) return null;
  const { asset_selection, partition_keys, labels, first_error } = run;
  const { trigger_source_ref, backfill_id, chunk_index, requested_at, started_at } = run;
  return {
    type: RUN_TYPES[outcome],
    timestamp: occurred_at,
    assets: asset_selection,
    data: {
      pos,
      run_id,
      outcome,
      counts,
      error: first_error,
      asset_selection,
      partition_keys: partition_keys?.slice(0, KEYS_MAX) ?? null,
      partition_count: partition_keys?.length ?? null,
      trigger_source_ref,
      backfill_id,
      chunk_index,
      labels,
      requested_at,
      started_at,
      finished_at: occurred_at,
    },
  };
}

function ofBackfill(
  rows: Rows,
  { pos, occurred_at }: RecordedEvent,
  changed: EventData<"BackfillStateChanged">,
): Notification | null {
  const type = BACKFILL_TYPES[changed.to_state];
  const row = rows.backfills.get(changed.backfill_id);
  if (type === undefined || row === null) return null;
  // Somebody who pauses a healthy backfill knows that already.
  const isTrouble = changed.failure_limit_reached || row.partitions_failed > 0;
  if (type === "backfill.paused" && !isTrouble) return null;
  const { backfill_id, asset_selection, labels, first_error } = row;
  return {
    type,
    timestamp: occurred_at,
    assets: asset_selection,
    data: {
      pos,
      backfill_id,
      outcome: changed.to_state,
      reason: changed.reason,
      changed_by: changed.changed_by,
      counts: {
        total: row.partitions_total,
        succeeded: row.partitions_succeeded,
        failed: row.partitions_failed,
        cancelled: row.partitions_cancelled,
        skipped: row.partitions_skipped,
      },
      error: first_error,
      asset_selection,
      parent_backfill_id: row.parent_backfill_id,
      labels,
      created_at: row.created_at,
      started_at: row.started_at,
    },
  };
}

function ofTick(
  rows: Rows,
  { pos, occurred_at }: RecordedEvent,
  tick: EventData<"ScheduleTicked">,
): Notification | null {
  if (tick.status === "triggered") return null;
  const { schedule_id, tick_id, scheduled_for, asset_selection, reason, error } = tick;
  return {
    type: tick.status === "failed" ? "schedule.failed" : "schedule.skipped",
    timestamp: occurred_at,
    assets: asset_selection,
    data: {
      ...ofSchedule(rows, schedule_id),
      pos,
      tick_id,
      outcome: tick.status,
      scheduled_for,
      through: scheduled_for,
      count: 1,
      reason,
      error,
      asset_selection,
    },
  };
}

function ofSkipped(
  rows: Rows,
  { pos, occurred_at }: RecordedEvent,
  skipped: EventData<"ScheduleTicksSkipped">,
): Notification | null {
  const { schedule_id, from, through, count, reason } = skipped;
  const { asset_selection, ...schedule } = ofSchedule(rows, schedule_id);
  return {
    type: "schedule.skipped",
    timestamp: occurred_at,
    assets: asset_selection,
    data: {
      ...schedule,
      pos,
      tick_id: null,
      outcome: "skipped",
      scheduled_for: from,
      through,
      count,
      reason,
      error: null,
      asset_selection,
    },
  };
}

function ofSchedule(rows: Rows, schedule_id: string) {
  const row = rows.schedules.get(schedule_id);
  const spec = row === null ? null : bodyOf(rows, row.spec_hash);
  const isSchedule = spec?.kind === "schedule";
  return {
    schedule_id,
    name: row?.name ?? null,
    labels: isSchedule ? spec.labels : {},
    asset_selection: isSchedule ? spec.asset_selection : [],
  };
}

function ofEvaluation(
  rows: Rows,
  { pos, occurred_at }: RecordedEvent,
  evaluated: EventData<"SensorEvaluated">,
): Notification | null {
  const isError = evaluated.status === "error";
  if (!isError && !evaluated.recovered) return null;
  const { sensor_id, eval_id, error, trigger_source } = evaluated;
  const row = rows.sensors.get(sensor_id);
  const spec = bodyOf(rows, evaluated.spec_hash);
  const isSensor = spec?.kind === "sensor";
  return {
    type: isError ? "sensor.error" : "sensor.recovered",
    timestamp: occurred_at,
    assets: isSensor ? (spec.target?.asset_selection ?? []) : [],
    data: {
      pos,
      sensor_id,
      name: row?.name ?? null,
      eval_id,
      outcome: isError ? "error" : "recovered",
      trigger_source,
      error,
      labels: isSensor ? spec.labels : {},
    },
  };
}

function bodyOf(rows: Rows, specHash: string): SpecRow["body"] | null {
  return rows.specs.get(specHash)?.body ?? null;
}
