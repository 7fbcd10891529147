import type { PartInput } from "../../../../src/work/operations.ts";
import { labelsOf, linesOf } from "../runs/typed-lines.ts";
import type { Schedule } from "./schedule-texts.ts";

/** A schedule as it stands in a form: texts as they were typed. */
export type Draft = {
  name: string;
  description: string;
  cron: string;
  timezone: string;
  assets: readonly string[];
  selection: Schedule["selection"]["type"];
  /** How many partitions before the one of the tick's time. */
  before: string;
  keys: string;
  limit: string;
  overlap: Schedule["overlap"];
  catchupMinutes: string;
  catchupTicks: string;
  catchUpOnResume: boolean;
  jitterSeconds: string;
  priority: string;
  startsAt: string;
  endsAt: string;
  config: string;
  labels: string;
};

/** The body that makes a schedule, without its name. */
export type Definition = Omit<
  PartInput<"updateSchedule", "body">,
  "expected_state_version" | "name"
>;

/** What a form begins with where there is no schedule yet. */
export function newDraft(timezone: string, assets: readonly string[]): Draft {
  return {
    name: "",
    description: "",
    cron: "0 6 * * *",
    timezone,
    assets,
    selection: "whole",
    before: "0",
    keys: "",
    limit: "1000",
    overlap: "allow",
    catchupMinutes: "1440",
    catchupTicks: "3",
    catchUpOnResume: false,
    jitterSeconds: "0",
    priority: "0",
    startsAt: "",
    endsAt: "",
    config: "",
    labels: "",
  };
}

/** A schedule as a form begins with it. */
export function draftOf(schedule: Schedule): Draft {
  const { selection, starts_at, ends_at, labels, config } = schedule;
  return {
    ...newDraft(schedule.timezone, schedule.asset_selection),
    name: schedule.name,
    description: schedule.description ?? "",
    cron: schedule.cron,
    selection: selection.type,
    ...(selection.type === "tick_time" ? { before: String(-selection.offset) } : {}),
    ...(selection.type === "explicit" ? { keys: selection.partition_keys.join("\n") } : {}),
    ...(selection.type === "stale" ? { limit: String(selection.limit) } : {}),
    overlap: schedule.overlap,
    catchupMinutes: String(schedule.catchup_window_minutes),
    catchupTicks: String(schedule.max_catchup_ticks),
    catchUpOnResume: schedule.catch_up_on_resume,
    jitterSeconds: String(schedule.jitter_ms / 1_000),
    priority: String(schedule.priority),
    startsAt: typedInstant(starts_at),
    endsAt: typedInstant(ends_at),
    config: config === null ? "" : JSON.stringify(config, null, 2),
    labels: Object.entries(labels)
      .map(([name, value]) => `${name}=${value}`)
      .join("\n"),
  };
}

/** What a form says, as the API takes it. Throws `SyntaxError` when the config is no JSON. */
export function definitionOf(draft: Draft, before: Schedule | null): Definition {
  const description = draft.description.trim();
  return {
    ...(description === "" ? {} : { description }),
    labels: labelsOf(draft.labels),
    // Pausing is an action of its own.
    enabled: before?.enabled ?? true,
    cron: draft.cron.trim(),
    timezone: draft.timezone.trim(),
    asset_selection: [...draft.assets],
    selection: selectionOf(draft, before),
    config: draft.config.trim() === "" ? null : (JSON.parse(draft.config) as null),
    priority: numberOf(draft.priority),
    overlap: draft.overlap,
    catchup_window_minutes: numberOf(draft.catchupMinutes),
    max_catchup_ticks: numberOf(draft.catchupTicks),
    catch_up_on_resume: draft.catchUpOnResume,
    jitter_ms: Math.round(numberOf(draft.jitterSeconds) * 1_000),
    starts_at: instantOf(draft.startsAt),
    ends_at: instantOf(draft.endsAt),
  };
}

function selectionOf(draft: Draft, before: Schedule | null): Definition["selection"] {
  switch (draft.selection) {
    case "tick_time":
      // Zero has a sign that JSON does not have.
      return { type: "tick_time", offset: 0 - numberOf(draft.before) };
    case "explicit":
      return { type: "explicit", partition_keys: linesOf(draft.keys) };
    case "stale": {
      const was = before?.selection.type === "stale" ? before.selection.reasons : undefined;
      const reasons = was === undefined ? {} : { reasons: was };
      return { type: "stale", limit: numberOf(draft.limit), ...reasons };
    }
    case "whole":
    case "all":
      return { type: draft.selection };
  }
}

/** A number that was typed; none for an empty field, which the server refuses by its name. */
function numberOf(text: string): number {
  return text.trim() === "" ? Number.NaN : Number(text);
}

/** The bounds of a draft, for looking ahead. */
export function boundsOf({ startsAt, endsAt }: Draft): {
  starts_at: string | null;
  ends_at: string | null;
} {
  return { starts_at: instantOf(startsAt), ends_at: instantOf(endsAt) };
}

/** An instant as a field for a day and time holds it, in the zone of whoever looks. */
function typedInstant(at: string | null): string {
  if (at === null) return "";
  const date = new Date(at);
  const local = new Date(date.getTime() - date.getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 19);
}

function instantOf(typed: string): string | null {
  if (typed === "") return null;
  const ms = Date.parse(typed);
  return Number.isNaN(ms) ? null : new Date(ms).toISOString();
}
