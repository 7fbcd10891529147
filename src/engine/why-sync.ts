import type { RecordedEvent } from "../core/events/envelope.ts";
import type { EventData } from "../core/events/index.ts";
import { entitySubject } from "../core/fold/entity-subject.ts";
import type { SegmentRow, SyncRow } from "../core/rows/sync-rows.ts";
import { TABLES } from "../core/rows/tables.ts";
import type { Reader } from "../store/store.ts";

const EVENTS_MAX = 10_000;

/** What is told of a sync; its segments have stories of their own. */
const TOLD = ["SyncStateChanged", "SyncRetuned", "SyncSegmentsPlanned", "SyncSegmentsReopened"];

/** The sync with this id, or the living one that is `name@target_key`; null when there is none. */
export async function syncAt(reader: Reader, idOrRef: string): Promise<SyncRow | null> {
  const at = idOrRef.indexOf("@");
  if (at < 0) return ((await reader.load(TABLES.syncs, [[idOrRef]])) as SyncRow[])[0] ?? null;
  const [row] = (await reader.find({
    table: TABLES.syncs,
    where: [
      { cell: "name", is: "=", value: idOrRef.slice(0, at) },
      { cell: "target_key", is: "=", value: idOrRef.slice(at + 1) },
      { cell: "state", is: "<>", value: "REMOVED" },
    ],
    order: [{ cell: "sync_id" }],
    limit: 1,
  })) as SyncRow[];
  return row ?? null;
}

/** The segment with an id such as `{sync_id}:{segment_index}`; null when there is none. */
export async function segmentAt(reader: Reader, segmentId: string): Promise<SegmentRow | null> {
  const [, syncId, index] = /^(.+):(\d{1,15})$/.exec(segmentId) ?? [];
  if (syncId === undefined) return null;
  const rows = await reader.load(TABLES.segments, [[syncId, Number(index)]]);
  return (rows as SegmentRow[])[0] ?? null;
}

/** How a sync came to where it stands. */
export async function syncStory(reader: Reader, sync: SyncRow): Promise<RecordedEvent[]> {
  const subjects = [entitySubject(sync.sync_id)];
  const turns = await reader.events({ after: 0, subjects, types: TOLD, limit: EVENTS_MAX });
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
  const about = own.filter((event) => isAbout(event, index));
  return [...(await eventAt(reader, sync.created_pos)), ...about];
}

function isAbout({ type, data: text }: RecordedEvent, index: number): boolean {
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

function eventAt(reader: Reader, pos: number): Promise<RecordedEvent[]> {
  return reader.events({ after: pos - 1, through: pos, limit: 1 });
}
