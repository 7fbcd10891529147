import type { Json } from "../core/canonical.ts";
import type { RecordedEvent } from "../core/events/envelope.ts";
import type { EventData } from "../core/events/index.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { Key } from "../core/rows/table.ts";
import type { ShardWorkRef } from "../core/step-protocol.ts";
import type { Notification, NotificationType } from "./notification-of-event.ts";

type SplitRef = Extract<ShardWorkRef, { work: "split" }>;

/** Types of events of moves and splits that something may be told of. */
export const NOTIFIED_SHARD_EVENTS = [
  "SplitCaughtUp",
  "SplitCutOver",
  "SplitStepSettled",
  "SplitPhaseChanged",
  "MoveStateChanged",
  "MoveSegmentChanged",
] as const;

/** What an event of a move or a split would be told as; null when it never is. */
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
export function failedSplits(events: readonly RecordedEvent[]): Key[] {
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

/** What there is to tell of an event of a move or a split; null when there is nothing. */
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
