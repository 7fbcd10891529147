import type { RecordedEvent } from "../envelope.ts";
import type { EventData } from "../events.ts";
import type {
  ControlledWork,
  KindStories,
  RowReader,
  Story,
  StoryReader,
  WorkKind,
} from "../kind.ts";
import { EVENTS_MAX, eventsAbout, failedTasks, isAboutTasks, runEvents } from "../run/story.ts";
import { bisected, planChunks } from "./advance.ts";
import { CHUNK_RUNS } from "./fold.ts";
import { BACKFILLS, type BackfillRow, CHUNKS, type ChunkRow, OPEN_BACKFILLS } from "./rows.ts";

/** Failed chunks whose runs are part of a backfill's story. */
const FAILED_CHUNKS_TOLD = 5;

/** A backfill's own events, without its chunks. */
async function storyOf(reader: StoryReader, backfill: BackfillRow): Promise<Story> {
  return reader.events({
    after: backfill.created_pos - 1,
    subjects: [backfill.created_pos],
    types: ["BackfillCreated", "BackfillStateChanged", "BackfillRetuned", "BackfillWindowChanged"],
    limit: EVENTS_MAX,
  });
}

/** What happened to the backfill until the chunk was planned, and its plan. */
async function chunkStory(
  reader: StoryReader,
  backfill: BackfillRow,
  { backfill_id, chunk_index, run_pos }: ChunkRow,
): Promise<Story> {
  const splits = await reader.events({
    after: backfill.created_pos,
    subjects: [backfill.created_pos],
    types: ["BackfillChunkSplit"],
    limit: EVENTS_MAX,
  });
  const own = splits.filter(({ data }) => {
    const split = JSON.parse(data) as EventData<"BackfillChunkSplit">;
    const indexes = [split, ...split.tiles].map((each) => each.chunk_index);
    return indexes.includes(chunk_index);
  });
  if (run_pos !== null) {
    // A chunk is planned in the append of its run's request, directly before it.
    const planned = await reader.events({ after: run_pos - 2, limit: 1 });
    own.push(...planned.filter((event) => isPlanOf(event, backfill_id, chunk_index)));
  }
  const story = await storyOf(reader, backfill);
  const through = own.at(-1)?.pos ?? Number.MAX_SAFE_INTEGER;
  return [...story.filter(({ pos }) => pos <= through), ...own];
}

function isPlanOf({ type, data }: RecordedEvent, backfillId: string, index: number): boolean {
  if (type !== "BackfillChunkPlanned") return false;
  const { backfill_id, chunk_index } = JSON.parse(data) as EventData<"BackfillChunkPlanned">;
  return backfill_id === backfillId && chunk_index === index;
}

async function backfillById(reader: RowReader, backfillId: string): Promise<BackfillRow | null> {
  const [row] = await reader.load(BACKFILLS, [[backfillId]]);
  return row ?? null;
}

async function ofBackfill(reader: StoryReader, backfill: BackfillRow): Promise<Story> {
  const events = await storyOf(reader, backfill);
  const failed = await reader.find({
    table: CHUNKS,
    where: [
      { cell: "backfill_id", is: "=", value: backfill.backfill_id },
      { cell: "state", is: "=", value: "FAILED" },
    ],
    order: [{ cell: "chunk_index" }],
    limit: FAILED_CHUNKS_TOLD,
  });
  for (const { run_pos } of failed) {
    if (run_pos !== null) events.push(...(await eventsAbout(reader, run_pos)));
  }
  return [...(await reader.requestStory(backfill.client_request_id)), ...events];
}

async function ofChunk(reader: StoryReader, id: string): Promise<Story | null> {
  const [, backfillId = "", index] = /^(.+):(\d{1,15})$/.exec(id) ?? [];
  const backfill = await backfillById(reader, backfillId);
  if (backfill === null) return null;
  const [chunk] = await reader.load(CHUNKS, [[backfillId, Number(index)]]);
  if (chunk === undefined) return storyOf(reader, backfill);
  const asked = await chunkStory(reader, backfill, chunk);
  if (chunk.run_pos === null) return asked;
  const failed = await failedTasks(reader, chunk.run_pos);
  const own = await runEvents(reader, chunk.run_pos, (event) => isAboutTasks(event, failed));
  return [...asked, ...own];
}

/** Stories of backfills, and of chunks as `<backfill>:<index>`. */
export const BACKFILL_STORIES: KindStories = {
  async byId(reader, id) {
    const backfill = await backfillById(reader, id);
    return backfill === null ? ofChunk(reader, id) : ofBackfill(reader, backfill);
  },
  async origin(reader, { backfill_id, chunk_index }) {
    const backfill = await backfillById(reader, backfill_id ?? "");
    const [chunk] = await reader.load(CHUNKS, [[backfill_id ?? "", chunk_index ?? -1]]);
    return backfill === null || chunk === undefined ? [] : chunkStory(reader, backfill, chunk);
  },
};

const WORK: ControlledWork<"backfills"> = {
  table: "backfills",
  advance: planChunks,
  weight: 15,
  rounds: 1,
  // There may be more than one decision had room for, also where it changed only its runs.
  repeats: true,
  open: [{ where: [OPEN_BACKFILLS], order: [{ cell: "created_pos" }] }],
  page: 10_000,
  due: {
    cell: "window_changes_at",
    where: [{ cell: "state", is: "in", values: ["PENDING", "RUNNING"] }],
    order: [{ cell: "window_changes_at" }],
    limit: 1_000,
    hasTimer: true,
  },
  changed: ({ backfill_id, finished_at, followers }) =>
    finished_at === null ? [backfill_id] : followers,
};

/** Partitions of assets, in chunks of which each is a run. */
export const BACKFILL: WorkKind = {
  name: "backfill",
  runs: {
    ...CHUNK_RUNS,
    owns: ({ backfill_id }) => backfill_id !== null,
    ended(rows, ended) {
      const split = bisected(rows, ended);
      return split === null ? {} : { fields: { splits: true }, after: [split] };
    },
  },
  work: WORK,
  stories: BACKFILL_STORIES,
};
