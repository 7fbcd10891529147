import type { RecordedEvent } from "../envelope.ts";
import type { EventData } from "../events.ts";
import { entitySubject } from "../keys.ts";
import type { KindStories, RowReader, Story, StoryReader } from "../kind.ts";
import { EVENTS_MAX, eventAt, eventsOfRun } from "../run/story.ts";
import { type SegmentRow, SEGMENTS, type SyncRow, SYNCS } from "./rows.ts";

/** What is told of a sync; its segments have stories of their own. */
const TOLD_OF_SYNC = [
  "SyncStateChanged",
  "SyncRetuned",
  "SyncSegmentsPlanned",
  "SyncSegmentsReopened",
];

/** The sync with this id, or the living one that is `name@target_key`; null when there is none. */
async function syncAt(reader: RowReader, idOrRef: string): Promise<SyncRow | null> {
  const at = idOrRef.indexOf("@");
  if (at < 0) return (await reader.load(SYNCS, [[idOrRef]]))[0] ?? null;
  const [row] = await reader.find({
    table: SYNCS,
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
export async function segmentAt(reader: RowReader, segmentId: string): Promise<SegmentRow | null> {
  const [, syncId, index] = /^(.+):(\d{1,15})$/.exec(segmentId) ?? [];
  if (syncId === undefined) return null;
  const rows = await reader.load(SEGMENTS, [[syncId, Number(index)]]);
  return rows[0] ?? null;
}

/** How a sync came to where it stands. */
async function syncStory(reader: StoryReader, sync: SyncRow): Promise<Story> {
  const subjects = [entitySubject(sync.sync_id)];
  const turns = await reader.events({ after: 0, subjects, types: TOLD_OF_SYNC, limit: EVENTS_MAX });
  return [...(await eventAt(reader, sync.created_pos)), ...turns];
}

/** How a segment came to where it stands, but for its run: its plan, and what opened it again. */
async function segmentStory(
  reader: StoryReader,
  sync: SyncRow,
  { segment_index: index }: SegmentRow,
): Promise<Story> {
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

async function ofSegment(
  reader: StoryReader,
  id: string,
): Promise<{ story: Story; run_id: string | null } | null> {
  const segment = await segmentAt(reader, id);
  const sync = segment === null ? null : await syncAt(reader, segment.sync_id);
  if (segment === null || sync === null) return null;
  return { story: await segmentStory(reader, sync, segment), run_id: segment.run_id };
}

/** Stories of syncs, and of their segments as `<sync>:<index>`. */
export const SYNC_STORIES: KindStories = {
  async byId(reader, id) {
    const found = await ofSegment(reader, id);
    return found === null ? null : [...found.story, ...(await eventsOfRun(reader, found.run_id))];
  },
  async byName(reader, idOrRef) {
    const row = await syncAt(reader, idOrRef);
    return row === null ? null : syncStory(reader, row);
  },
  async origin(reader, { trigger_source_ref: source }) {
    if (source.type !== "sync") return [];
    return (await ofSegment(reader, `${source.sync_id}:${source.segment_index}`))?.story ?? [];
  },
};
