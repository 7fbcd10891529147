import type { RecordedEvent } from "../core/events/envelope.ts";
import { entitySubject } from "../core/fold/entity-subject.ts";
import type { DefinitionRow } from "../core/rows/definition-rows.ts";
import type { ScheduleRow, ScheduleTickRow } from "../core/rows/schedule-rows.ts";
import { TABLES } from "../core/rows/tables.ts";
import type { Reader } from "../store/store.ts";

const EVENTS_MAX = 10_000;

/** The schedule under an id or a name; null when there is none. */
export async function scheduleAt(reader: Reader, idOrName: string): Promise<ScheduleRow | null> {
  const [named] = (await reader.load(TABLES.definitions, [
    ["schedule", idOrName],
  ])) as DefinitionRow[];
  const key = [named?.entity_id ?? idOrName];
  const [row] = (await reader.load(TABLES.schedules, [key])) as ScheduleRow[];
  return row ?? null;
}

/** How a schedule came to be as it is: its first definition, who stopped and started it, and its last tick. */
export async function scheduleStory(reader: Reader, row: ScheduleRow): Promise<RecordedEvent[]> {
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
export async function tickStory(reader: Reader, tick: ScheduleTickRow): Promise<RecordedEvent[]> {
  const row = await scheduleAt(reader, tick.schedule_id);
  const first = row === null ? [] : await eventAt(reader, row.created_pos);
  return [...first, ...(await eventAt(reader, tick.pos))];
}

function eventAt(reader: Reader, pos: number): Promise<RecordedEvent[]> {
  return reader.events({ after: pos - 1, through: pos, limit: 1 });
}
