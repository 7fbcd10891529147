import type { NextTimeDocument, ScheduleDocument, TickDocument } from "../../work/schedule/api.ts";
import type { Instant } from "../../kernel/instant.ts";
import { formatDuration, relativeTime } from "../base/options.ts";
import { shortId } from "../base/api.ts";
import {
  type Column,
  errorText,
  labelsText,
  layoutFields,
  layoutPage,
  layoutTable,
  type Page,
  paintState,
  someKeys,
  type Terminal,
} from "../base/terminal.ts";
import { staleReasonsText } from "./backfill.ts";

/** A page of schedules. */
export function schedulesText(terminal: Terminal, page: Page<ScheduleDocument>): string {
  const now = terminal.now();
  return layoutPage(page, "There are no such schedules; `pawl schedule create` makes one.", [
    ["NAME", ({ name }) => name],
    ["STATE", ({ state }) => paintState(terminal, state)],
    ["CRON", ({ cron }) => cron],
    ["TIMEZONE", ({ timezone }) => timezone],
    ["ASSETS", ({ asset_selection }) => assetsText(asset_selection)],
    ["NEXT", ({ next_due_at }) => relativeTime(next_due_at, now)],
    ["LAST", ({ last_scheduled_for }) => relativeTime(last_scheduled_for, now)],
    [
      "LAST RUN",
      ({ last_run_state, last_backfill_state }) =>
        stateOrDash(terminal, last_run_state ?? last_backfill_state),
    ],
    ["ID", ({ schedule_id }) => shortId(schedule_id)],
  ]);
}

function assetsText(keys: readonly string[]): string {
  return keys.length <= 2 ? keys.join(", ") : `${keys[0]}, … (${keys.length})`;
}

function stateOrDash(terminal: Terminal, state: string | null): string {
  return state === null ? "-" : paintState(terminal, state);
}

/** A schedule, its next times and its last ticks. */
export function scheduleText(
  terminal: Terminal,
  schedule: ScheduleDocument,
  next: readonly NextTimeDocument[],
  ticks: readonly TickDocument[],
): string {
  const now = terminal.now();
  const { waiting_for: waiting, jitter_ms: jitter, starts_at, ends_at } = schedule;
  const { ticks_triggered, ticks_skipped, ticks_failed } = schedule;
  const fields = layoutFields([
    ["schedule", schedule.name],
    ["id", schedule.schedule_id],
    ["state", `${paintState(terminal, schedule.state)} (version ${schedule.state_version})`],
    ["reason", schedule.reason],
    ["description", schedule.description ?? null],
    ["cron", `${schedule.cron} (${schedule.timezone})`],
    ["from", starts_at === null ? null : utcText(starts_at)],
    ["until", ends_at === null ? null : utcText(ends_at)],
    ["assets", `${schedule.asset_selection.join(", ")}: ${selectionText(schedule)}`],
    ["overlap", schedule.overlap],
    ["catches up", catchUpText(schedule)],
    ["jitter", jitter === 0 ? null : `up to ${formatDuration(jitter)}`],
    ["labels", labelsText(schedule.labels)],
    ["defined by", schedule.origin === "code" ? "code" : "the API"],
    ["created", relativeTime(schedule.created_at, now)],
    ["ticks", `${ticks_triggered} triggered, ${ticks_skipped} skipped, ${ticks_failed} failed`],
    ["going", schedule.active_runs === 0 ? null : `${schedule.active_runs} of its runs`],
    ["waits", waiting === null ? null : `${utcText(waiting)} until its run ends`],
  ]);
  const isActive = schedule.state === "ACTIVE" && next.length > 0;
  return [
    fields,
    ...(isActive ? [timesText(next, schedule.timezone, now)] : []),
    ...(ticks.length === 0 ? [] : [layoutTable(ticks, tickColumns(terminal))]),
  ].join("\n\n");
}

/** A page of what became of a schedule's times. */
export function ticksText(terminal: Terminal, page: Page<TickDocument>): string {
  return layoutPage(page, "There are no such ticks.", tickColumns(terminal));
}

function tickColumns(terminal: Terminal): Column<TickDocument>[] {
  return [
    ["SCHEDULED FOR", scheduledText],
    ["STATUS", ({ status }) => paintState(terminal, status)],
    ["TRIGGERED", ({ run_id, backfill_id }) => shortId(run_id ?? backfill_id ?? "-")],
    [
      "ITS STATE",
      ({ run_state, backfill_state }) => stateOrDash(terminal, run_state ?? backfill_state),
    ],
    ["DECIDED", ({ decided_at }) => relativeTime(decided_at, terminal.now())],
    ["NOTE", tickNote],
  ];
}

function scheduledText({ scheduled_for, through, count }: TickDocument): string {
  const many = count === 1 ? "" : ` … ${utcText(through)} (${count} times)`;
  return utcText(scheduled_for) + many;
}

const CHANGES = {
  gap: "the clock jumps over it; comes right after",
  overlap: "the clock shows this time twice",
} as const;

/** Times to come, in their time zone and in UTC. */
export function timesText(
  times: readonly NextTimeDocument[],
  timezone: string,
  now: number,
): string {
  const local: Column<NextTimeDocument>[] = [
    [timezone, ({ local_time }) => local_time.replace("T", " ")],
    ["OFFSET", ({ utc_offset }) => utc_offset],
  ];
  return layoutTable(times, [
    ["NEXT", ({ due_at }) => relativeTime(due_at, now)],
    ...(timezone === "UTC" ? [] : local),
    ["UTC", ({ scheduled_for }) => utcText(scheduled_for)],
    ["NOTE", timeNote],
  ]);
}

function timeNote({ change, due_at, scheduled_for }: NextTimeDocument): string {
  const jitter = due_at === scheduled_for ? [] : [`with jitter at ${due_at.slice(11, 19)}Z`];
  return [...(change === null ? [] : [CHANGES[change]]), ...jitter].join("; ");
}

/** An instant for people, in UTC: `2026-03-01 10:00:00Z`. */
function utcText(instant: Instant): string {
  return `${instant.slice(0, 19).replace("T", " ")}Z`;
}

const REASONS = {
  paused: "the schedule was paused",
  overlap: "what it triggered before was still going",
  catchup_window: "missed, and too long ago to be caught up",
  catchup_limit: "missed, and more than are caught up at once",
  nothing_stale: "nothing was stale",
} as const satisfies Record<NonNullable<TickDocument["reason"]>, string>;

/** Why a time came to what it did, in words. */
function tickNote(tick: TickDocument): string {
  const error = errorText(tick.error);
  if (error !== null) return error;
  const notes = [
    ...(tick.reason === null ? [] : [REASONS[tick.reason]]),
    ...(tick.manual ? ["triggered by hand"] : []),
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

/** Which partitions a schedule asks for, in words. */
function selectionText({ selection }: ScheduleDocument): string {
  switch (selection.type) {
    case "whole":
      return "as a whole";
    case "all":
      return "every partition";
    case "explicit":
      return `partitions ${someKeys(selection.partition_keys, 5)}`;
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
function catchUpText(schedule: ScheduleDocument): string {
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
