import type { RecordedEvent } from "../core/events/envelope.ts";
import type { EventData } from "../core/events/index.ts";
import { entitySubject } from "../core/fold/entity-subject.ts";
import type { MoveRow, MoveSegmentRow } from "../core/rows/move-rows.ts";
import { TABLES } from "../core/rows/tables.ts";
import type { Reader } from "../store/store.ts";

const EVENTS_MAX = 10_000;

/** What is told of a move; its segments have stories of their own. */
const TOLD = [
  "MovePlanned",
  "MoveStateChanged",
  "MoveRetuned",
  "MoveVerifyRequested",
  "MoveSegmentsPlanned",
];

/** The move with this id; null when there is none. */
export async function moveAt(reader: Reader, moveId: string): Promise<MoveRow | null> {
  return ((await reader.load(TABLES.moves, [[moveId]])) as MoveRow[])[0] ?? null;
}

/** The segment of a move with an id such as `{move_id}:{segment_index}`; null when there is none. */
export async function moveSegmentAt(
  reader: Reader,
  segmentId: string,
): Promise<MoveSegmentRow | null> {
  const [, moveId, index] = /^(.+):(\d{1,15})$/.exec(segmentId) ?? [];
  if (moveId === undefined) return null;
  const rows = await reader.load(TABLES.moveSegments, [[moveId, Number(index)]]);
  return (rows as MoveSegmentRow[])[0] ?? null;
}

/** How a move came to where it stands, with the segments that were set aside or excluded. */
export async function moveStory(reader: Reader, move: MoveRow): Promise<RecordedEvent[]> {
  // On their own: what becomes of many segments would leave no room for what became of the move.
  const own = await eventsOf(reader, move, TOLD);
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
  return (await eventsOf(reader, move, types)).filter((event) => isAbout(event, index));
}

function isAbout({ type, data: text }: RecordedEvent, index: number): boolean {
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
