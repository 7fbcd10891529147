import { z } from "zod";
import { Count, FailureField, InstantText, JsonValue } from "../events/fields.ts";
import { TaskDocument, TaskStateField } from "./run-documents.ts";

/** How an attempt ended; `RELEASED`: its worker gave the task back untried. */
export const AttemptOutcomeField = z.enum([
  "SUCCEEDED",
  "FAILED",
  "CANCELLED",
  "SKIPPED",
  "LEASE_EXPIRED",
  "RELEASED",
]);

/** One attempt at a task, from the events of its run. */
export const AttemptDocument = z
  .strictObject({
    task_key: Count,
    attempt: Count,
    worker_id: z.string(),
    started_at: InstantText,
    /** Null while it goes on. */
    ended_at: InstantText.nullable(),
    outcome: AttemptOutcomeField.nullable(),
    /** Of a batch task that failed in some of its partitions only, the first of those. */
    error: FailureField.nullable(),
    /** From when on there is another attempt. */
    retry_at: InstantText.nullable(),
    /** Partitions of the attempt, and those of them that failed or were skipped on their own. */
    partitions: Count,
    partitions_failed: Count,
    partitions_skipped: Count,
  })
  .meta({ id: "Attempt" });
export type AttemptDocument = z.infer<typeof AttemptDocument>;

/** A task as the timeline of its run shows it. */
export const TimelineTaskDocument = z
  .strictObject({
    task_key: Count,
    asset_key: z.string(),
    /** The first few of its partitions. */
    partition_keys: z.array(z.string()),
    /** All of its partitions; 0 for work without partitions. */
    partition_count: Count,
    state: TaskStateField,
    /** When nothing upstream was missing any more; null while something is, or was at its end. */
    ready_at: InstantText.nullable(),
    finished_at: InstantText.nullable(),
  })
  .meta({ id: "TimelineTask" });
export type TimelineTaskDocument = z.infer<typeof TimelineTaskDocument>;

/** What happened in a run, task by task and attempt by attempt. */
export const RunTimelineDocument = z
  .strictObject({
    run_id: z.string(),
    requested_at: InstantText,
    finished_at: InstantText.nullable(),
    /** In the order of their numbers, the first 2,000. */
    tasks: z.array(TimelineTaskDocument),
    /** Pairs of task numbers: the second waits for the first. At most 20,000. */
    edges: z.array(z.tuple([Count, Count])),
    /** In the order of their starts, the first 10,000. */
    attempts: z.array(AttemptDocument),
    /** False when the run has more tasks, edges or attempts than are shown. */
    complete: z.boolean(),
    pos: Count,
  })
  .meta({ id: "RunTimeline" });
export type RunTimelineDocument = z.infer<typeof RunTimelineDocument>;

/** One task of a run with its attempts and what it saved. */
export const TaskDetailDocument = TaskDocument.extend({
  /** What the newest attempt to save something saved; gone when the run has ended. */
  checkpoint: z
    .strictObject({ attempt: Count, value: JsonValue, saved_at: InstantText })
    .nullable(),
  attempts: z.array(AttemptDocument),
  /** False when the run has more events than are looked through. */
  complete: z.boolean(),
  pos: Count,
}).meta({ id: "TaskDetail" });
export type TaskDetailDocument = z.infer<typeof TaskDetailDocument>;
