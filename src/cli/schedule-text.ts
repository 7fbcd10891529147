import type { ScheduleDocument, TickDocument } from "../core/api/schedule-documents.ts";
import type { Instant } from "../core/instant.ts";
import { shortId } from "./short-id.ts";
import { staleReasonsText } from "./stale-reasons-text.ts";

/** An instant for people, in UTC: `2026-03-01 10:00:00Z`. */
export function utcText(instant: Instant): string {
  return `${instant.slice(0, 19).replace("T", " ")}Z`;
}

const REASONS = {
  paused: "the schedule was paused",
  overlap: "what it had asked for was still going",
  catchup_window: "missed, and too long ago to be caught up",
  catchup_limit: "missed, and more than are caught up at once",
  nothing_stale: "nothing was stale",
} as const satisfies Record<NonNullable<TickDocument["reason"]>, string>;

/** Why a time came to what it did, in words. */
export function tickNote(tick: TickDocument): string {
  if (tick.error !== null) return `${tick.error.class}: ${tick.error.message}`;
  const notes = [
    ...(tick.reason === null ? [] : [REASONS[tick.reason]]),
    ...(tick.manual ? ["asked for by hand"] : []),
    ...(tick.stale_reasons === null || tick.backfill_id === null
      ? []
      : [`stale: ${staleReasonsText(tick.stale_reasons)}`]),
    ...(tick.partition_keys === null ? [] : [keysText(tick)]),
  ];
  return notes.join("; ");
}

function keysText({ partition_keys: keys, partition_count: count }: TickDocument): string {
  const [first = "", second] = keys ?? [];
  if (second === undefined) return first;
  return count === 2 ? `${first}, ${second}` : `${first}, … (${count})`;
}

/** What a time asked for: `run_abcdefgh SUCCEEDED`, or a dash. */
export function askedFor(tick: TickDocument): { id: string; state: string } {
  const id = tick.run_id ?? tick.backfill_id;
  if (id === null) return { id: "-", state: "" };
  return { id: shortId(id), state: tick.run_state ?? tick.backfill_state ?? "" };
}

/** Which partitions a schedule asks for, in words. */
export function selectionText({ selection }: ScheduleDocument): string {
  switch (selection.type) {
    case "whole":
      return "as a whole";
    case "all":
      return "every partition";
    case "explicit":
      return `partitions ${selection.partition_keys.slice(0, 5).join(", ")}${
        selection.partition_keys.length > 5 ? `, … (${selection.partition_keys.length})` : ""
      }`;
    case "stale": {
      const reasons = selection.reasons?.map((reason) => reason.toLowerCase()).join(", ");
      const why = reasons === undefined ? "" : ` (${reasons.replaceAll("_", " ")})`;
      return `what is stale${why}, at most ${selection.limit} at once`;
    }
    case "tick_time":
      if (selection.offset === 0) return "the partition of the tick's time";
      return selection.offset === -1
        ? "the partition before that of the tick's time"
        : `the partition ${-selection.offset} before that of the tick's time`;
  }
}

/** What is done with times that were missed, in words. */
export function catchUpText(schedule: ScheduleDocument): string {
  const { max_catchup_ticks: ticks, catchup_window_minutes: minutes } = schedule;
  const missed =
    ticks === 0 || minutes === 0
      ? "none"
      : `the newest ${ticks} of the last ${durationText(minutes)}`;
  return `${missed}; ${schedule.catch_up_on_resume ? "also" : "not"} after a pause`;
}

function durationText(minutes: number): string {
  if (minutes % 1_440 === 0) return minutes === 1_440 ? "24h" : `${minutes / 1_440}d`;
  return minutes % 60 === 0 ? `${minutes / 60}h` : `${minutes}m`;
}
