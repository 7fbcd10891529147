import type { ControlledWork, WorkKind } from "../kind.ts";
import { SCHEDULE_RUNS } from "./fold.ts";
import { needForTicks, tickSchedule } from "./tick.ts";
import { SCHEDULE_STORIES } from "./story.ts";

const WORK: ControlledWork<"schedules"> = {
  table: "schedules",
  advance: tickSchedule,
  weight: 5,
  rounds: 1,
  // The first need not wait for the last.
  most: 250,
  open: [],
  page: 10_000,
  due: { cell: "due_at", where: [], order: [{ cell: "due_at" }], limit: 10_000, hasTimer: true },
  changed: ({ schedule_id, due_at }, now) =>
    due_at !== null && due_at <= now ? [schedule_id] : [],
  need: needForTicks,
};

/** Runs and backfills at the times of a cron expression. */
export const SCHEDULE: WorkKind = {
  name: "schedule",
  runs: {
    ...SCHEDULE_RUNS,
    owns: ({ trigger_source_ref: { type } }) => type === "schedule",
    ended: (_rows, { run: { trigger_source_ref: source } }) =>
      source.type === "schedule" ? { fields: { schedule_id: source.schedule_id } } : {},
  },
  work: WORK,
  stories: SCHEDULE_STORIES,
};
