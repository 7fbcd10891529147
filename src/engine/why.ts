import { PawlError } from "../kernel/errors.ts";
import type { RecordedEvent } from "../work/envelope.ts";
import type { EventData } from "../work/events.ts";
import type { TaskResultField } from "../work/run/events.ts";
import { expandTasks } from "../work/run/tasks.ts";
import type { BackfillRow, ChunkRow } from "../work/backfill/rows.ts";
import type { RunRow } from "../work/run/rows.ts";
import { TABLES } from "../work/tables.ts";
import type { ShardWorkRef } from "../work/shard/step-protocol.ts";
import type { Reader } from "../store/store.ts";
import { findEvaluation, runsOfEvaluation, findTick, requestOfTick } from "./probes/by-hand.ts";
import { eventPages } from "./ledger/refold.ts";
import {
  moveAt,
  moveSegmentAt,
  moveSegmentStory,
  moveStory,
  scheduleAt,
  scheduleStory,
  tickStory,
  evaluationStory,
  sensorAt,
  sensorStory,
  splitAt,
  splitStory,
  segmentAt,
  segmentStory,
  syncAt,
  syncStory,
} from "./why-kinds.ts";

const EVENTS_MAX = 10_000;
/** Failed chunks whose runs are part of a backfill's story, and failures that are of a chunk's. */
const FAILED_CHUNKS_TOLD = 5;
const FAILURES_TOLD = 5;

/**
 * The events that led to an entity's present state, oldest first. An entity is a backfill id, a
 * chunk id (`<backfill>:<index>`), a run id, a tick id, an evaluation id, a segment id
 * (`<sync>:<index>` or `<move>:<index>`), a partition (`<asset>@<key>`), a schedule, a sensor, a
 * sync, a split or a move.
 */
export async function whyChain(reader: Reader, entity: string): Promise<RecordedEvent[]> {
  const found =
    (await whyBackfill(reader, entity)) ??
    (await whyChunk(reader, entity)) ??
    (await whyRun(reader, entity)) ??
    (await whyTick(reader, entity)) ??
    (await whyEvaluation(reader, entity)) ??
    (await whySegment(reader, entity)) ??
    (await whyPartition(reader, entity)) ??
    (await whySchedule(reader, entity)) ??
    (await whySensor(reader, entity)) ??
    (await whySync(reader, entity)) ??
    (await whySplit(reader, entity)) ??
    (await whyMove(reader, entity)) ??
    (await whyMoveSegment(reader, entity));
  if (found !== null) return inOrder(found);
  throw new PawlError(
    "EVENT_NOT_FOUND",
    `Nothing is known of ${JSON.stringify(entity)}. Give a backfill id, a chunk id ` +
      "(<backfill>:<index>), a run id, a tick id, an evaluation id, a segment id (<sync>:<index> " +
      "or <move>:<index>), a partition (<asset>@<key>), a schedule, a sensor, a sync, a split or a " +
      "move.",
    { details: { entity } },
  );
}

function inOrder(events: readonly RecordedEvent[]): RecordedEvent[] {
  const byPos = new Map(events.map((event) => [event.pos, event]));
  return [...byPos.values()].toSorted((a, b) => a.pos - b.pos);
}

async function whyBackfill(reader: Reader, entity: string): Promise<RecordedEvent[] | null> {
  const backfill = await backfillById(reader, entity);
  if (backfill === null) return null;
  const events = await storyOf(reader, backfill, EVENTS_MAX);
  const failed = await reader.find({
    table: TABLES.chunks,
    where: [
      { cell: "backfill_id", is: "=", value: entity },
      { cell: "state", is: "=", value: "FAILED" },
    ],
    order: [{ cell: "chunk_index" }],
    limit: FAILED_CHUNKS_TOLD,
  });
  for (const { run_pos } of failed) {
    if (run_pos !== null) events.push(...(await eventsAbout(reader, run_pos)));
  }
  // A backfill that a schedule asked for is named by the tick.
  const tick = await findTick(reader, backfill.client_request_id);
  return tick === null ? events : [...(await tickStory(reader, tick)), ...events];
}

async function whyChunk(reader: Reader, entity: string): Promise<RecordedEvent[] | null> {
  const [backfillId, index] = [entity.slice(0, entity.lastIndexOf(":")), entity.split(":").at(-1)];
  const chunkIndex = Number(index);
  if (!entity.includes(":") || !Number.isSafeInteger(chunkIndex)) return null;
  const backfill = await backfillById(reader, backfillId);
  if (backfill === null) return null;
  const [chunk] = await reader.load(TABLES.chunks, [[backfillId, chunkIndex]]);
  if (chunk === undefined) return storyOf(reader, backfill, EVENTS_MAX);
  const asked = await chunkStory(reader, backfill, chunk);
  if (chunk.run_pos === null) return asked;
  const failed = await failedTasks(reader, chunk.run_pos);
  const own = await runEvents(reader, chunk.run_pos, (event) => isAboutTasks(event, failed));
  return [...asked, ...own];
}

async function whyRun(reader: Reader, entity: string): Promise<RecordedEvent[] | null> {
  const run = await runById(reader, entity);
  if (run === null) return null;
  return [...(await originOf(reader, run)), ...(await eventsAbout(reader, run.run_pos))];
}

async function runById(reader: Reader, runId: string): Promise<RunRow | null> {
  const [run] = await reader.find({
    table: TABLES.runs,
    where: [{ cell: "run_id", is: "=", value: runId }],
    order: [],
    limit: 1,
  });
  return run ?? null;
}

async function whyPartition(reader: Reader, entity: string): Promise<RecordedEvent[] | null> {
  const at = entity.indexOf("@");
  const [assetKey, key] = at < 0 ? [entity, ""] : [entity.slice(0, at), entity.slice(at + 1)];
  const [row] = await reader.load(TABLES.partitions, [[assetKey, key]]);
  if (row === undefined) return null;
  const runIds = [row.last_materialization_run_id, row.last_attempt_run_id];
  const events: RecordedEvent[] = [];
  for (const runId of new Set(runIds)) {
    const run = runId === null ? null : await runById(reader, runId);
    if (run === null) continue;
    const tasks = await tasksFor(reader, run, assetKey, key);
    const own = await runEvents(reader, run.run_pos, (event) => isAboutTasks(event, tasks));
    events.push(...(await originOf(reader, run)), ...own);
  }
  return events;
}

async function whyTick(reader: Reader, entity: string): Promise<RecordedEvent[] | null> {
  const tick = await findTick(reader, entity);
  if (tick === null) return null;
  const request = await requestOfTick(reader, tick);
  const asked = request === null ? [] : await eventsAbout(reader, request.pos);
  return [...(await tickStory(reader, tick)), ...asked];
}

async function whySchedule(reader: Reader, entity: string): Promise<RecordedEvent[] | null> {
  const row = await scheduleAt(reader, entity);
  return row === null ? null : scheduleStory(reader, row);
}

async function whyEvaluation(reader: Reader, entity: string): Promise<RecordedEvent[] | null> {
  const evaluation = await findEvaluation(reader, entity);
  if (evaluation === null) return null;
  const events = await evaluationStory(reader, evaluation);
  for (const runPos of await runsOfEvaluation(reader, evaluation)) {
    events.push(...(await eventsAbout(reader, runPos)));
  }
  return events;
}

async function whySensor(reader: Reader, entity: string): Promise<RecordedEvent[] | null> {
  const row = await sensorAt(reader, entity);
  return row === null ? null : sensorStory(reader, row);
}

async function whySync(reader: Reader, entity: string): Promise<RecordedEvent[] | null> {
  const row = await syncAt(reader, entity);
  return row === null ? null : syncStory(reader, row);
}

async function whySegment(reader: Reader, entity: string): Promise<RecordedEvent[] | null> {
  const segment = await segmentAt(reader, entity);
  const sync = segment === null ? null : await syncAt(reader, segment.sync_id);
  if (segment === null || sync === null) return null;
  const story = await segmentStory(reader, sync, segment);
  if (segment.run_id === null) return story;
  return [...story, ...((await whyRun(reader, segment.run_id)) ?? [])];
}

async function whySplit(reader: Reader, entity: string): Promise<RecordedEvent[] | null> {
  const split = await splitAt(reader, entity);
  return split === null ? null : splitStory(reader, split);
}

async function whyMove(reader: Reader, entity: string): Promise<RecordedEvent[] | null> {
  const move = await moveAt(reader, entity);
  return move === null ? null : moveStory(reader, move);
}

async function whyMoveSegment(reader: Reader, entity: string): Promise<RecordedEvent[] | null> {
  const segment = await moveSegmentAt(reader, entity);
  const move = segment === null ? null : await moveAt(reader, segment.move_id);
  if (segment === null || move === null) return null;
  const story = await moveSegmentStory(reader, move, segment);
  if (segment.run_id === null) return story;
  return [...story, ...((await whyRun(reader, segment.run_id)) ?? [])];
}

/** How the work on shards came about that a run did a step of. */
async function shardWorkStory(reader: Reader, work: ShardWorkRef): Promise<RecordedEvent[]> {
  if (work.work === "split") {
    const split = await splitAt(reader, work.split_id);
    return split === null ? [] : splitStory(reader, split);
  }
  const move = await moveAt(reader, work.move_id);
  if (move === null) return [];
  const isSegment = work.step !== "survey" && work.index !== null;
  const segment = isSegment ? await moveSegmentAt(reader, `${work.move_id}:${work.index}`) : null;
  return segment === null ? moveStory(reader, move) : moveSegmentStory(reader, move, segment);
}

/** How a run came to be asked for. */
async function originOf(reader: Reader, run: RunRow): Promise<RecordedEvent[]> {
  const source = run.trigger_source_ref;
  switch (source.type) {
    case "manual":
      return [];
    case "schedule": {
      const tick = await findTick(reader, source.tick_id);
      return tick === null ? [] : tickStory(reader, tick);
    }
    case "sensor": {
      const evaluation = await findEvaluation(reader, source.eval_id);
      return evaluation === null ? [] : evaluationStory(reader, evaluation);
    }
    case "sync": {
      const sync = await syncAt(reader, source.sync_id);
      const segment = await segmentAt(reader, `${source.sync_id}:${source.segment_index}`);
      return sync === null || segment === null ? [] : segmentStory(reader, sync, segment);
    }
    case "shards":
      return shardWorkStory(reader, source.work);
    case "backfill": {
      const backfill = await backfillById(reader, source.backfill_id);
      const key = [source.backfill_id, run.chunk_index ?? -1];
      const [chunk] = await reader.load(TABLES.chunks, [key]);
      return backfill === null || chunk === undefined ? [] : chunkStory(reader, backfill, chunk);
    }
  }
}

/** What happened to the backfill until the chunk was planned, and its plan. */
async function chunkStory(
  reader: Reader,
  backfill: BackfillRow,
  { backfill_id, chunk_index, run_pos }: ChunkRow,
): Promise<RecordedEvent[]> {
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
  const story = await storyOf(reader, backfill, EVENTS_MAX);
  const through = own.at(-1)?.pos ?? Number.MAX_SAFE_INTEGER;
  return [...story.filter(({ pos }) => pos <= through), ...own];
}

function isPlanOf({ type, data }: RecordedEvent, backfillId: string, index: number): boolean {
  if (type !== "BackfillChunkPlanned") return false;
  const { backfill_id, chunk_index } = JSON.parse(data) as EventData<"BackfillChunkPlanned">;
  return backfill_id === backfillId && chunk_index === index;
}

/** The beginning and the end of a run, and of the events about its tasks those that count. */
async function runEvents(
  reader: Reader,
  runPos: number,
  counts: (event: RecordedEvent) => boolean,
): Promise<RecordedEvent[]> {
  const told: RecordedEvent[] = [];
  for await (const page of eventPages(reader, { after: runPos - 1, subjects: [runPos] })) {
    told.push(...page.filter((event) => !ABOUT_TASKS.includes(event.type) || counts(event)));
  }
  return told;
}

const ABOUT_TASKS = ["TasksStarted", "TasksFinished", "TaskLeaseExpired"];

function resultsOf({ type, data }: RecordedEvent): readonly TaskResultField[] {
  if (type === "TasksFinished") return (JSON.parse(data) as EventData<"TasksFinished">).results;
  if (type !== "TaskLeaseExpired") return [];
  return [(JSON.parse(data) as EventData<"TaskLeaseExpired">).result];
}

/** The first tasks of a run that failed for good. */
async function failedTasks(reader: Reader, runPos: number): Promise<ReadonlySet<number>> {
  const tasks = new Set<number>();
  const isFailure = ({ outcome, retry_at }: TaskResultField): boolean =>
    outcome === "FAILED" && retry_at === undefined;
  for await (const page of eventPages(reader, { after: runPos - 1, subjects: [runPos] })) {
    for (const { task_key } of page.flatMap(resultsOf).filter(isFailure)) {
      if (tasks.size < FAILURES_TOLD) tasks.add(task_key);
    }
  }
  return tasks;
}

/** Whether one of these tasks began, ended, or was left out because of what the event says. */
function isAboutTasks(event: RecordedEvent, tasks: ReadonlySet<number>): boolean {
  const isOne = ({ task_key, count = 1 }: { task_key: number; count?: number | undefined }) =>
    Array.from({ length: count }, (_, at) => task_key + at).some((key) => tasks.has(key));
  if (event.type === "TasksStarted") {
    return (JSON.parse(event.data) as EventData<"TasksStarted">).tasks.some(isOne);
  }
  return resultsOf(event).some((result) => isOne(result) || (result.skips ?? []).some(isOne));
}

/** The tasks of a run that make a partition. */
async function tasksFor(
  reader: Reader,
  run: RunRow,
  assetKey: string,
  partitionKey: string,
): Promise<ReadonlySet<number>> {
  const [asked] = await reader.events({ after: run.run_pos - 1, limit: 1 });
  if (asked?.type !== "RunRequested") return new Set();
  const { tasks: assets } = JSON.parse(asked.data) as EventData<"RunRequested">;
  const keys = run.partition_keys ?? [];
  const alone = assets.map((asset) => ({ ...asset, upstream: [] }));
  const own = expandTasks(alone, keys.length).filter(
    ({ asset_index, partition_index }) =>
      assets[asset_index]?.asset_key === assetKey &&
      (partition_index === null || keys[partition_index] === partitionKey),
  );
  return new Set(own.map(({ task_key }) => task_key));
}

/** A backfill's own events, without its chunks. */
async function storyOf(
  reader: Reader,
  backfill: BackfillRow,
  limit: number,
): Promise<RecordedEvent[]> {
  return reader.events({
    after: backfill.created_pos - 1,
    subjects: [backfill.created_pos],
    types: ["BackfillCreated", "BackfillStateChanged", "BackfillRetuned"],
    limit,
  });
}

async function eventsAbout(reader: Reader, subject: number): Promise<RecordedEvent[]> {
  return reader.events({ after: subject - 1, subjects: [subject], limit: EVENTS_MAX });
}

async function backfillById(reader: Reader, backfillId: string): Promise<BackfillRow | null> {
  const [row] = await reader.load(TABLES.backfills, [[backfillId]]);
  return row ?? null;
}
