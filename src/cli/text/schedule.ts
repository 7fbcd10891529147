import type { ScheduleDocument, TickDocument } from "../../work/schedule/api.ts";
import type { Instant } from "../../kernel/instant.ts";
import { shortId } from "../base/terminal.ts";
import { staleReasonsText } from "./trigger.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { PartInput } from "../../work/operations.ts";
import type { Json } from "../../kernel/canonical.ts";
import type { StaleReason } from "../../kernel/keyspace/selector.ts";
import { given } from "../base/omit-undefined.ts";
import { keysOf } from "../base/selector-flags.ts";

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

/** The flags that define a schedule. */
export type ScheduleFlags = {
  cron?: string;
  timezone?: string;
  asset?: readonly string[];
  /** `current`, `previous`, or how many before the current one. */
  partition?: string;
  partitions?: string;
  selection?: "whole" | "all" | "stale";
  reason?: readonly StaleReason[];
  limit?: number;
  overlap?: "allow" | "skip" | "buffer_one";
  catchupWindowMinutes?: number;
  maxCatchupTicks?: number;
  catchUpOnResume?: boolean;
  jitter?: number;
  startsAt?: string;
  endsAt?: string;
  enabled?: boolean;
  disabled?: boolean;
  runConfig?: { value: Json };
  label?: Record<string, string>;
  priority?: number;
  description?: string;
};

type Body = PartInput<"updateSchedule", "body">;

/** A schedule's definition as a caller writes it. */
export type Definition = Omit<Body, "name" | "expected_state_version">;

/** What the flags say of a schedule's definition; what no flag names is left out. */
export function definitionOfFlags(flags: ScheduleFlags): Partial<Definition> {
  return given({
    cron: flags.cron,
    timezone: flags.timezone,
    asset_selection: flags.asset?.flatMap((text) => text.split(",").map((key) => key.trim())),
    selection: selectionOf(flags),
    overlap: flags.overlap,
    catchup_window_minutes: flags.catchupWindowMinutes,
    max_catchup_ticks: flags.maxCatchupTicks,
    catch_up_on_resume: flags.catchUpOnResume,
    jitter_ms: flags.jitter,
    starts_at: boundOf(flags.startsAt),
    ends_at: boundOf(flags.endsAt),
    enabled: enabledOf(flags),
    config: flags.runConfig?.value,
    labels: flags.label,
    priority: flags.priority,
    description: flags.description,
  });
}

function selectionOf(flags: ScheduleFlags): Definition["selection"] {
  const { partition, partitions, selection, reason, limit } = flags;
  const ways = [
    ...(partition === undefined ? [] : ["--partition"]),
    ...(partitions === undefined ? [] : ["--partitions"]),
    ...(selection === undefined ? [] : ["--selection"]),
  ];
  if (ways.length > 1) {
    throw new PawlError(
      "INPUT_INVALID",
      `Which partitions: expected one of --partition, --partitions and --selection, got ` +
        `${ways.join(" together with ")}.`,
    );
  }
  if (selection === "stale") {
    return {
      type: "stale",
      ...given({ limit, reasons: reason === undefined ? reason : [...reason] }),
    };
  }
  if (reason !== undefined || limit !== undefined) {
    throw new PawlError(
      "INPUT_INVALID",
      `${reason === undefined ? "--limit" : "--reason"}: expected only together with ` +
        "--selection stale.",
    );
  }
  if (selection !== undefined) return { type: selection };
  if (partitions !== undefined) return { type: "explicit", partition_keys: keysOf(partitions) };
  return partition === undefined ? undefined : { type: "tick_time", offset: offsetOf(partition) };
}

function offsetOf(partition: string): number {
  if (partition === "current") return 0;
  if (partition === "previous") return -1;
  const offset = /^-\d{1,5}$/.test(partition) ? Number(partition) : Number.NaN;
  if (offset >= -10_000) return offset;
  throw new PawlError(
    "INPUT_INVALID",
    "--partition: expected current, previous, or how many before the current one such as -7, got " +
      `${JSON.stringify(partition)}.`,
  );
}

function boundOf(text: string | undefined): string | null | undefined {
  return text === "none" ? null : text;
}

function enabledOf({ enabled, disabled }: ScheduleFlags): boolean | undefined {
  if (enabled !== true) return disabled === true ? false : undefined;
  if (disabled !== true) return true;
  throw new PawlError("INPUT_INVALID", "Expected --enabled or --disabled, got both.");
}
