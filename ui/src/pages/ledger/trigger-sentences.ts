import type { EventData } from "../../../../src/work/events.ts";
import { counted, momentText } from "../../parts/time-text.ts";
import {
  byWhom,
  failureText,
  named,
  type Sentences,
  someNames,
  stateWord,
  words,
} from "./sentence.ts";

const SKIPS: Readonly<Record<string, string>> = {
  paused: "the schedule was paused",
  overlap: "the run before was still active",
  catchup_window: "outside the catch-up window",
  catchup_limit: "over the catch-up limit",
  nothing_stale: "nothing was stale",
};

function skipText(reason: string | null): string {
  return reason === null ? "no reason given" : (SKIPS[reason] ?? stateWord(reason));
}

function ticked(data: EventData<"ScheduleTicked">): string {
  const { scheduled_for, manual, status, reason, error, asset_selection, backfill_id } = data;
  const tick = `${manual ? "The manual tick" : "The tick"} of ${momentText(scheduled_for)}`;
  if (status === "skipped") return `${tick} was skipped: ${skipText(reason)}.`;
  if (status === "failed") {
    return `${tick} failed${error === null ? "." : `: ${failureText(error)}`}`;
  }
  const what = backfill_id === null ? "a run" : "a backfill";
  return `${tick} triggered ${what} of ${someNames(asset_selection)}.`;
}

function evaluated(data: EventData<"SensorEvaluated">): string {
  const { trigger_source: by, status, error, run_requests } = data;
  const evaluation =
    by.type === "push"
      ? `The evaluation of message ${named(by.message_id)}`
      : by.type === "poll"
        ? "Poll"
        : "A manual evaluation";
  switch (status) {
    case "triggered":
      return `${evaluation} triggered ${counted(run_requests.length, "run")}.`;
    case "no_new_data":
      return `${evaluation} found nothing new.`;
    case "skipped_stale_cursor":
      return `${evaluation} was ignored: the cursor had moved.`;
    case "error":
      return `${evaluation} failed${error === null ? "." : `: ${failureText(error)}`}`;
  }
}

function cursorText(cursor: string | null): string {
  return cursor === null ? "the start" : named(cursor);
}

/** Schedules and sensors in sentences. */
export const TRIGGER_SENTENCES: Sentences<
  | "ScheduleTicked"
  | "ScheduleTicksSkipped"
  | "SchedulePaused"
  | "ScheduleResumed"
  | "SensorMessageReceived"
  | "SensorEvaluated"
  | "SensorPaused"
  | "SensorResumed"
  | "SensorCursorReset"
> = {
  ScheduleTicked: ticked,
  ScheduleTicksSkipped: ({ count, from, through, reason }) =>
    `${counted(count, "tick")} from ${momentText(from)} to ${momentText(through)} skipped: ` +
    `${skipText(reason)}.`,
  SchedulePaused: ({ reason }) => `The schedule was paused${byWhom(null, reason)}`,
  ScheduleResumed: ({ reason }) => `The schedule was resumed${byWhom(null, reason)}`,
  SensorMessageReceived: ({ message_id, source, message_type }) =>
    `Message ${named(message_id)}${message_type === null ? "" : ` (${named(message_type)})`} ` +
    `reached the sensor by ${source}.`,
  SensorEvaluated: evaluated,
  SensorPaused: ({ reason }) => `The sensor was paused${byWhom(null, reason)}`,
  SensorResumed: () => "The sensor was resumed.",
  SensorCursorReset: ({ cursor_before, cursor, reason }) =>
    `The cursor was moved from ${cursorText(cursor_before)} to ${cursorText(cursor)}` +
    byWhom(null, reason),
};

const REOPENED: Readonly<Record<string, string>> = {
  rewrite: "the source rewrote its blocks",
  repair: "a repair was requested",
  verification: "a verification failed",
  retry: "a retry was requested",
};

/** Syncs in sentences. */
export const SYNC_SENTENCES: Sentences<
  | "SyncsAdded"
  | "SyncStateChanged"
  | "SyncRetuned"
  | "SyncHeadMoved"
  | "SyncHeadSet"
  | "SyncRewritten"
  | "SyncPlanCut"
  | "SyncSegmentsPlanned"
  | "SyncSegmentsReopened"
  | "SyncSegmentExcluded"
  | "SyncVerifyRequested"
> = {
  SyncsAdded: ({ name, origin, syncs }) =>
    `${counted(syncs.length, "target")} of ${named(name)} added ` +
    `${origin === "code" ? "by code" : "by the API"}: ` +
    `${someNames(syncs.map(({ target_key }) => target_key))}.`,
  SyncStateChanged: ({ from_state, to_state, changed_by, reason }) =>
    `The sync went from ${stateWord(from_state)} to ${stateWord(to_state)}` +
    byWhom(changed_by, reason),
  SyncRetuned: ({ max_parallel, priority }) =>
    `The sync continues with ${max_parallel ?? "the definition's number of"} concurrent segments and ` +
    `${priority === null ? "the definition's priority" : `priority ${priority}`}.`,
  SyncHeadMoved: ({ source, head }) => `The head of ${named(source)} is at block ${head}.`,
  SyncHeadSet: ({ source, head, changed_by, reason }) =>
    `The head of ${named(source)} was set to block ${head}${byWhom(changed_by, reason)}`,
  SyncPlanCut: ({ removed, planned_to }) =>
    `${counted(removed.length, "segment")} beyond block ${planned_to} removed from the plan.`,
  SyncRewritten: ({ source, fork_block, head }) =>
    `${named(source)} rewrote its blocks above ${fork_block}; its head is ${head} now.`,
  SyncSegmentsPlanned: ({ segment_kind, from_block, ends, first_index }) =>
    `${counted(ends.length, "segment")} of ${segment_kind} planned from block ${from_block} to ` +
    `${ends.at(-1)} (segment ${first_index} on).`,
  SyncSegmentsReopened: ({ cause, reason, changed_by, segments }) =>
    `${counted(segments.length, "segment")} to be fetched again, as ` +
    `${REOPENED[cause] ?? cause}${byWhom(changed_by, reason)}`,
  SyncSegmentExcluded: ({ segment_index, changed_by, reason }) =>
    `Segment ${segment_index} was excluded by ${named(changed_by)}: ` + words(reason),
  SyncVerifyRequested: ({ segments, repair, changed_by }) =>
    `${named(changed_by)} requested to verify ${counted(segments.length, "segment")}` +
    `${repair ? ", and to fetch again what differs" : ""}.`,
};
