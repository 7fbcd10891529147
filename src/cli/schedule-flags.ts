import { PawlError } from "../core/errors.ts";
import type { PartInput } from "../core/api/operations.ts";
import type { Json } from "../core/canonical.ts";
import type { StaleReason } from "../core/partitions/stale-reason.ts";
import { given } from "./given.ts";
import { keysOf } from "./selector-flags.ts";

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
