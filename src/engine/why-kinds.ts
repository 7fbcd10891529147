import type { RecordedEvent } from "../work/envelope.ts";
import type { EventData } from "../work/events.ts";
import { entitySubject } from "../work/keys.ts";
import type { MoveRow, MoveSegmentRow } from "../work/move/rows.ts";
import { TABLES } from "../work/tables.ts";
import type { Reader } from "../store/store.ts";
import type { ScheduleRow, ScheduleTickRow } from "../work/schedule/rows.ts";
import type { SensorEvalRow, SensorRow } from "../work/sensor/rows.ts";
import type { SplitRow } from "../work/split/rows.ts";
import type { Key } from "../kernel/table.ts";
import type { SegmentRow, SyncRow } from "../work/sync/rows.ts";

const EVENTS_MAX = 10_000;

/** What is told of a move; its segments have stories of their own. */
const TOLD_OF_MOVE = [
  "MovePlanned",
  "MoveStateChanged",
  "MoveRetuned",
  "MoveVerifyRequested",
  "MoveSegmentsPlanned",
];

/** The move with this id; null when there is none. */
export async function moveAt(reader: Reader, moveId: string): Promise<MoveRow | null> {
  return (await reader.load(TABLES.moves, [[moveId]]))[0] ?? null;
}

/** The segment of a move with an id such as `{move_id}:{segment_index}`; null when there is none. */
export async function moveSegmentAt(
  reader: Reader,
  segmentId: string,
): Promise<MoveSegmentRow | null> {
  const [, moveId, index] = /^(.+):(\d{1,15})$/.exec(segmentId) ?? [];
  if (moveId === undefined) return null;
  const rows = await reader.load(TABLES.moveSegments, [[moveId, Number(index)]]);
  return rows[0] ?? null;
}

/** How a move came to where it stands, with the segments that were set aside or excluded. */
export async function moveStory(reader: Reader, move: MoveRow): Promise<RecordedEvent[]> {
  // On their own: what becomes of many segments would leave no room for what became of the move.
  const own = await eventsOf(reader, move, TOLD_OF_MOVE);
  const events = await eventsOf(reader, move, ["MoveSegmentChanged", "MoveChecked"]);
  const told = events.filter(({ type, data: text }) => {
    if (type === "MoveSegmentChanged") {
      const { becomes } = JSON.parse(text) as EventData<"MoveSegmentChanged">;
      return becomes === "poisoned" || becomes === "excluded";
    }
    const { segment_index, ok } = JSON.parse(text) as EventData<"MoveChecked">;
    return segment_index === null || !ok;
  });
  return [...own, ...told];
}

/** How a segment came to where it stands, but for its runs. */
export async function moveSegmentStory(
  reader: Reader,
  move: MoveRow,
  { segment_index: index }: MoveSegmentRow,
): Promise<RecordedEvent[]> {
  const types = [
    "MovePlanned",
    "MoveSegmentsPlanned",
    "MoveSegmentSplit",
    "MoveSegmentChanged",
    "MoveChecked",
  ];
  return (await eventsOf(reader, move, types)).filter((event) => isAboutMove(event, index));
}

function isAboutMove({ type, data: text }: RecordedEvent, index: number): boolean {
  switch (type) {
    case "MoveSegmentsPlanned": {
      const { first_index, segments } = JSON.parse(text) as EventData<"MoveSegmentsPlanned">;
      return index >= first_index && index < first_index + segments.length;
    }
    case "MoveSegmentSplit": {
      const { segment_index, rest } = JSON.parse(text) as EventData<"MoveSegmentSplit">;
      return segment_index === index || rest.segment_index === index;
    }
    case "MoveSegmentChanged":
      return (JSON.parse(text) as EventData<"MoveSegmentChanged">).segment_index === index;
    case "MoveChecked":
      return (JSON.parse(text) as EventData<"MoveChecked">).segment_index === index;
    default:
      return true;
  }
}

function eventsOf(
  reader: Reader,
  { move_id, created_pos }: MoveRow,
  types: readonly string[],
): Promise<RecordedEvent[]> {
  const subjects = [entitySubject(move_id)];
  return reader.events({ after: created_pos - 1, subjects, types, limit: EVENTS_MAX });
}

/** The schedule under an id or a name; null when there is none. */
export async function scheduleAt(reader: Reader, idOrName: string): Promise<ScheduleRow | null> {
  const [named] = await reader.load(TABLES.definitions, [["schedule", idOrName]]);
  const key = [named?.entity_id ?? idOrName];
  const [row] = await reader.load(TABLES.schedules, [key]);
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

/** The sensor under an id or a name; null when there is none. */
export async function sensorAt(reader: Reader, idOrName: string): Promise<SensorRow | null> {
  const [named] = await reader.load(TABLES.definitions, [["sensor", idOrName]]);
  const key = [named?.entity_id ?? idOrName];
  const [row] = await reader.load(TABLES.sensors, [key]);
  return row ?? null;
}

/**
 * How a sensor came to be as it is: its first definition, who stopped it, started it and moved its
 * cursor, and its last evaluation.
 */
export async function sensorStory(reader: Reader, row: SensorRow): Promise<RecordedEvent[]> {
  const subjects = [entitySubject(row.sensor_id)];
  const turns = await reader.events({
    after: 0,
    subjects,
    types: ["SensorPaused", "SensorResumed", "SensorCursorReset"],
    limit: EVENTS_MAX,
  });
  const last = await reader.events({
    after: 0,
    subjects,
    types: ["SensorEvaluated"],
    limit: 1,
    descending: true,
  });
  return [...(await eventAt(reader, row.created_pos)), ...turns, ...last];
}

/** How an evaluation came about: the sensor's first definition, the message, and what it came to. */
export async function evaluationStory(
  reader: Reader,
  { sensor_id, pos, trigger_source }: SensorEvalRow,
): Promise<RecordedEvent[]> {
  const row = await sensorAt(reader, sensor_id);
  const story = row === null ? [] : await eventAt(reader, row.created_pos);
  if (trigger_source.type === "push") {
    const key = [sensor_id, trigger_source.message_id];
    const [message] = await reader.load(TABLES.sensorMessages, [key]);
    if (message !== undefined) story.push(...(await eventAt(reader, message.received_pos)));
  }
  return [...story, ...(await eventAt(reader, pos))];
}

/** The split with this id; null when there is none. */
export async function splitAt(reader: Reader, splitId: string): Promise<SplitRow | null> {
  return (await reader.load(TABLES.splits, [[splitId]]))[0] ?? null;
}

/** How a split came to where it stands: its plan, phases, wishes, steps and commit records. */
export async function splitStory(reader: Reader, split: SplitRow): Promise<RecordedEvent[]> {
  const { split_id, created_pos } = split;
  const own = await reader.events({
    after: created_pos - 1,
    subjects: [entitySubject(split_id)],
    limit: EVENTS_MAX,
  });
  const planned = await reader.events({ after: created_pos - 1, through: created_pos, limit: 1 });
  return [...planned, ...own, ...(await routingOf(reader, split))];
}

/** The changes of the routing that were its commit records. */
async function routingOf(reader: Reader, split: SplitRow): Promise<RecordedEvent[]> {
  const versions = [split.routing_version_cutover, split.routing_version_rollback];
  const keys = versions.flatMap((version): Key[] => (version === null ? [] : [[version]]));
  if (keys.length === 0) return [];
  const rows = await reader.load(TABLES.routingVersions, keys);
  const events: RecordedEvent[] = [];
  for (const { row_version: pos } of rows) {
    events.push(...(await reader.events({ after: pos - 1, through: pos, limit: 1 })));
  }
  return events;
}

/** What is told of a sync; its segments have stories of their own. */
const TOLD_OF_SYNC = [
  "SyncStateChanged",
  "SyncRetuned",
  "SyncSegmentsPlanned",
  "SyncSegmentsReopened",
];

/** The sync with this id, or the living one that is `name@target_key`; null when there is none. */
export async function syncAt(reader: Reader, idOrRef: string): Promise<SyncRow | null> {
  const at = idOrRef.indexOf("@");
  if (at < 0) return (await reader.load(TABLES.syncs, [[idOrRef]]))[0] ?? null;
  const [row] = await reader.find({
    table: TABLES.syncs,
    where: [
      { cell: "name", is: "=", value: idOrRef.slice(0, at) },
      { cell: "target_key", is: "=", value: idOrRef.slice(at + 1) },
      { cell: "state", is: "<>", value: "REMOVED" },
    ],
    order: [{ cell: "sync_id" }],
    limit: 1,
  });
  return row ?? null;
}

/** The segment with an id such as `{sync_id}:{segment_index}`; null when there is none. */
export async function segmentAt(reader: Reader, segmentId: string): Promise<SegmentRow | null> {
  const [, syncId, index] = /^(.+):(\d{1,15})$/.exec(segmentId) ?? [];
  if (syncId === undefined) return null;
  const rows = await reader.load(TABLES.segments, [[syncId, Number(index)]]);
  return rows[0] ?? null;
}

/** How a sync came to where it stands. */
export async function syncStory(reader: Reader, sync: SyncRow): Promise<RecordedEvent[]> {
  const subjects = [entitySubject(sync.sync_id)];
  const turns = await reader.events({ after: 0, subjects, types: TOLD_OF_SYNC, limit: EVENTS_MAX });
  return [...(await eventAt(reader, sync.created_pos)), ...turns];
}

/** How a segment came to where it stands, but for its run: its plan, and what opened it again. */
export async function segmentStory(
  reader: Reader,
  sync: SyncRow,
  { segment_index: index }: SegmentRow,
): Promise<RecordedEvent[]> {
  const own = await reader.events({
    after: 0,
    subjects: [entitySubject(sync.sync_id)],
    types: [
      "SyncSegmentsPlanned",
      "SyncSegmentsReopened",
      "SyncSegmentExcluded",
      "SyncVerifyRequested",
    ],
    limit: EVENTS_MAX,
  });
  const about = own.filter((event) => isAboutSync(event, index));
  return [...(await eventAt(reader, sync.created_pos)), ...about];
}

function isAboutSync({ type, data: text }: RecordedEvent, index: number): boolean {
  switch (type) {
    case "SyncSegmentsPlanned": {
      const { first_index, ends } = JSON.parse(text) as EventData<"SyncSegmentsPlanned">;
      return index >= first_index && index < first_index + ends.length;
    }
    case "SyncSegmentsReopened": {
      const { segments, splits } = JSON.parse(text) as EventData<"SyncSegmentsReopened">;
      const tiles = splits.flatMap((split) => split.tiles);
      return [...segments, ...tiles].some(({ segment_index }) => segment_index === index);
    }
    case "SyncVerifyRequested":
      return (JSON.parse(text) as EventData<"SyncVerifyRequested">).segments.includes(index);
    default:
      return (JSON.parse(text) as EventData<"SyncSegmentExcluded">).segment_index === index;
  }
}
