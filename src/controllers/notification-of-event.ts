import type { NOTIFICATIONS } from "../core/automation-specs.ts";
import type { Json } from "../core/canonical.ts";
import type { RecordedEvent } from "../core/events/envelope.ts";
import type { EventData } from "../core/events/index.ts";
import type { Instant } from "../core/instant.ts";
import type { SpecRow } from "../core/rows/definition-rows.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { Key, KeyPart } from "../core/rows/table.ts";
import {
  failedSplits,
  NOTIFIED_SHARD_EVENTS,
  shardNotification,
  shardNotificationType,
} from "./notification-of-shards.ts";

/** Something that a webhook can tell of. */
export type NotificationType = (typeof NOTIFICATIONS)[number];

/** What is told: of which assets, and what as. */
export type Notification = {
  type: NotificationType;
  timestamp: Instant;
  assets: readonly string[];
  data: Record<string, Json>;
};

/** Types of events that something may be told of. */
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

/** What an event would be told as, as far as the event itself says; null when it never is. */
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

/** Runs of segments and steps come and go without end; what matters of them is told in other words. */
function isOfItsOwn({ segment, shard_work }: EventData<"RunFinished">): boolean {
  return segment === undefined && shard_work === undefined;
}

/** What there is to tell of each of some events; null where there is nothing. */
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
  rows.splits.need(failedSplits(events));
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
