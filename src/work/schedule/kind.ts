import { BACKFILLS } from "../backfill/rows.ts";
import { DEFINITIONS } from "../definition/rows.ts";
import { entitySubject } from "../keys.ts";
import type {
  ControlledWork,
  KindStories,
  RowReader,
  Story,
  StoryReader,
  WorkKind,
} from "../kind.ts";
import { EVENTS_MAX, eventAt, eventsAbout, runById } from "../run/story.ts";
import { SCHEDULE_RUNS } from "./fold.ts";
import { SCHEDULE_TICKS, SCHEDULES, type ScheduleRow, type ScheduleTickRow } from "./rows.ts";
import { needForTicks, tickSchedule } from "./tick.ts";

/** The schedule under an id or a name; null when there is none. */
async function scheduleAt(reader: RowReader, idOrName: string): Promise<ScheduleRow | null> {
  const [named] = await reader.load(DEFINITIONS, [["schedule", idOrName]]);
  const key = [named?.entity_id ?? idOrName];
  const [row] = await reader.load(SCHEDULES, [key]);
  return row ?? null;
}

/** How a schedule came to be as it is: its first definition, who stopped and started it, and its last tick. */
async function scheduleStory(reader: StoryReader, row: ScheduleRow): Promise<Story> {
  const subjects = [entitySubject(row.schedule_id)];
  const turns = await reader.events({
    after: 0,
    subjects,
    types: ["SchedulePaused", "ScheduleResumed"],
    limit: EVENTS_MAX,
  });
  const last = await reader.events({
    after: 0,
    subjects,
    types: ["ScheduleTicked", "ScheduleTicksSkipped"],
    limit: 1,
    descending: true,
  });
  return [...(await eventAt(reader, row.created_pos)), ...turns, ...last];
}

/** How a tick came about: the definition of its schedule at first, and the tick itself. */
async function tickStory(reader: StoryReader, tick: ScheduleTickRow): Promise<Story> {
  const row = await scheduleAt(reader, tick.schedule_id);
  const first = row === null ? [] : await eventAt(reader, row.created_pos);
  return [...first, ...(await eventAt(reader, tick.pos))];
}

const TICK_ID = /^([0-9A-HJKMNP-TV-Z]{26}):(?:manual:)?\d{1,15}(?::\d{1,6})?$/;

/** The decided time that a tick id names; null when it names none. */
export async function findTick(reader: RowReader, tickId: string): Promise<ScheduleTickRow | null> {
  const scheduleId = TICK_ID.exec(tickId)?.[1];
  if (scheduleId === undefined) return null;
  const [tick] = await reader.find({
    table: SCHEDULE_TICKS,
    where: [
      { cell: "schedule_id", is: "=", value: scheduleId },
      { cell: "tick_id", is: "=", value: tickId },
    ],
    order: [{ cell: "pos", descending: true }],
    limit: 1,
  });
  return tick ?? null;
}

/** The position of the run or the backfill that a tick asked for; null when it asked for none. */
export async function requestPos(reader: RowReader, tick: ScheduleTickRow): Promise<number | null> {
  if (tick.backfill_id !== null) {
    const [backfill] = await reader.load(BACKFILLS, [[tick.backfill_id]]);
    return backfill === undefined ? null : backfill.created_pos;
  }
  if (tick.run_id === null) return null;
  return (await runById(reader, tick.run_id))?.run_pos ?? null;
}

async function request(reader: StoryReader, tickId: string): Promise<Story | null> {
  const tick = await findTick(reader, tickId);
  return tick === null ? null : tickStory(reader, tick);
}

/** Stories of schedules, and of their ticks. */
export const SCHEDULE_STORIES: KindStories = {
  async byId(reader, id) {
    const tick = await findTick(reader, id);
    if (tick === null) return null;
    const pos = await requestPos(reader, tick);
    const asked = pos === null ? [] : await eventsAbout(reader, pos);
    return [...(await tickStory(reader, tick)), ...asked];
  },
  async byName(reader, idOrName) {
    const row = await scheduleAt(reader, idOrName);
    return row === null ? null : scheduleStory(reader, row);
  },
  async origin(reader, { trigger_source_ref: source }) {
    return source.type === "schedule" ? ((await request(reader, source.tick_id)) ?? []) : [];
  },
  request,
};

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
