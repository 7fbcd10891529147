import type { AnswerOf } from "../../../../src/work/operations.ts";
import { countText, durationText } from "../../parts/time-text.ts";
import { visibleText } from "../../parts/visible-text.ts";
import { zonedText } from "./zoned-text.ts";

/** A schedule as the API shows it. */
export type Schedule = AnswerOf<"getSchedule">;

/** A decided time of a schedule as the API shows it. */
export type Tick = AnswerOf<"listTicks">["items"][number];

/** A time to come. */
export type NextTime = AnswerOf<"listNextTimes">["items"][number];

/** A schedule is late when its next time is due for longer than this. */
const LATE_MS = 60_000;

/** How long a schedule has been due beyond what is usual; null while it is not. */
export function lateMs({ next_due_at }: Schedule, nowMs: number): number | null {
  if (next_due_at === null) return null;
  const ms = nowMs - Date.parse(next_due_at);
  return ms > LATE_MS ? ms : null;
}

const REASONS: Readonly<Record<NonNullable<Tick["reason"]>, string>> = {
  paused: "the schedule was paused",
  overlap: "the run before was still active",
  catchup_window: "outside the catch-up window",
  catchup_limit: "over the catch-up limit",
  nothing_stale: "nothing was stale",
};

/** The reasons for skips, as choices of a filter. */
export const REASON_OPTIONS: readonly (readonly [string, string])[] = [
  ["", "All"],
  ["paused", "paused"],
  ["overlap", "overlap"],
  ["catchup_window", "outside the catch-up window"],
  ["catchup_limit", "over the catch-up limit"],
  ["nothing_stale", "nothing stale"],
];

/** Why a time was skipped, in words. */
export function reasonText(reason: Tick["reason"]): string {
  return reason === null ? "" : REASONS[reason];
}

/** What became of a decided time, in a sentence, as on a time line. */
export function tickTitle(tick: Tick, zone: string): string {
  const at = `${zonedText(tick.scheduled_for, zone)} ${zone}`;
  if (tick.count > 1) {
    const through = zonedText(tick.through, zone);
    const times = `${countText(tick.count)} times from ${at} to ${through}`;
    return `${times} skipped: ${reasonText(tick.reason)}`;
  }
  if (tick.status === "skipped") return `${at} skipped: ${reasonText(tick.reason)}`;
  if (tick.status === "failed")
    return visibleText(`${at} failed: ${tick.error?.message ?? "no reason given"}`);
  const state = tick.run_state ?? tick.backfill_state;
  const kind = tick.run_id === null ? "backfill" : "run";
  const what = state === null ? "" : `, ${kind} ${state.toLowerCase().replaceAll("_", " ")}`;
  return `${at} triggered${tick.manual ? " manually" : ""}${what}`;
}

/** The state that a tick is drawn with: that of what it asked for, once there is one. */
export function tickState({ status, run_state, backfill_state }: Tick): string {
  if (status !== "triggered") return status.toUpperCase();
  return run_state ?? backfill_state ?? "TRIGGERED";
}

/** What names a tick in an address; several in a row are named by their first time. */
export function tickKey({ tick_id, schedule_id, scheduled_for }: Tick): string {
  return tick_id ?? `${schedule_id}:${Math.floor(Date.parse(scheduled_for) / 1_000)}`;
}

/** The second that the name of a tick speaks of; null when it is no such name. */
export function epochOfTickKey(key: string): number | null {
  const [, epoch] = /:(?:manual:)?(\d{1,11})(?::\d+)?$/.exec(key) ?? [];
  return epoch === undefined ? null : Number(epoch);
}

/** Which partitions a tick asks for. */
export function selectionText({ selection }: Pick<Schedule, "selection">): string {
  switch (selection.type) {
    case "whole":
      return "whole assets";
    case "all":
      return "all partitions";
    case "explicit":
      return `${countText(selection.partition_keys.length)} named partitions`;
    case "tick_time":
      return selection.offset === 0
        ? "the partition of the tick"
        : `the partition ${-selection.offset} before that of the tick`;
    case "stale": {
      const reasons = selection.reasons === undefined ? "" : ` (${selection.reasons.join(", ")})`;
      return `stale partitions, at most ${countText(selection.limit)}${reasons}`;
    }
  }
}

/** What a time does while what the schedule asked for is still going. */
export const OVERLAP_TEXTS: Readonly<Record<Schedule["overlap"], string>> = {
  allow: "runs in parallel",
  skip: "skips the tick",
  buffer_one: "waits for the run before; only the newest tick waits",
};

/** What is caught up after a time away. */
export function catchupText(schedule: Schedule): string {
  const { max_catchup_ticks: most, catchup_window_minutes: minutes } = schedule;
  if (most === 0 || minutes === 0) return "nothing";
  const window = durationText(minutes * 60_000);
  return `the newest ${countText(most)} of the last ${window}`;
}

/** What resuming does with the times that passed while the schedule was paused. */
export function resumeConsequence(schedule: Schedule): string {
  return schedule.catch_up_on_resume
    ? `The schedule triggers at its next ticks again. Of the missed ticks, ${catchupText(schedule)} ` +
        "are caught up at once, oldest first; the others are recorded as skipped."
    : "The schedule triggers at its next ticks again. Missed ticks are recorded as skipped; none " +
        "is caught up.";
}
