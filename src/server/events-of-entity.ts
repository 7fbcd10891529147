import { PawlError } from "../core/errors.ts";
import { entitySubject } from "../core/fold/entity-subject.ts";
import { BACKFILLS, type BackfillRow, CHUNKS, type ChunkRow } from "../core/rows/backfill-rows.ts";
import { DEFINITIONS } from "../core/rows/definition-rows.ts";
import { type PartitionRow, PARTITIONS } from "../core/rows/partition-rows.ts";
import { findEvaluation, runsOfEvaluation } from "../engine/find-evaluation.ts";
import { findTick, requestOfTick } from "../engine/find-tick.ts";
import { moveSegmentAt } from "../engine/why-move.ts";
import { splitAt } from "../engine/why-split.ts";
import { segmentAt } from "../engine/why-sync.ts";
import type { EventFilter, Reader } from "../store/store.ts";
import { findEntityRow } from "./find-entity-row.ts";
import { findMoveRow } from "./find-shard-rows.ts";
import { findSyncRow, knownSyncRow } from "./find-sync-row.ts";
import { backfillNotFound } from "./routes/backfills.ts";
import { findRun } from "./routes/runs.ts";

/** Which events are about something: by their subject, and within bounds. */
type About = Pick<EventFilter, "subjects" | "through"> & { after?: number };

/**
 * The events about a run, a chunk, a tick, a backfill, a schedule, a sensor, a sync, a split, a
 * move, a segment or a partition; refuses what is none.
 */
export async function eventsOfEntity(reader: Reader, entity: string): Promise<About> {
  if (entity.startsWith("run_")) return { subjects: [(await findRun(reader, entity)).run_pos] };
  // What follows a colon may be any text, such as the id of a message.
  if (/^[^:@]+@/.test(entity)) {
    const at = entity.indexOf("@");
    const runs = await runsOfPartition(reader, entity.slice(0, at), entity.slice(at + 1));
    if (runs !== null) return runs;
    const { sync_id } = await knownSyncRow(reader, entity);
    return { subjects: [entitySubject(sync_id)] };
  }
  if (entity.includes(":")) return eventsOfPart(reader, entity);
  const [backfill] = (await reader.load(BACKFILLS, [[entity]])) as BackfillRow[];
  if (backfill !== undefined) return { subjects: [backfill.created_pos] };
  const schedule = await findEntityRow(reader, "schedule", entity);
  if (schedule !== null) return { subjects: [entitySubject(schedule.schedule_id)] };
  const sensor = await findEntityRow(reader, "sensor", entity);
  if (sensor !== null) return { subjects: [entitySubject(sensor.sensor_id)] };
  const sync = await findSyncRow(reader, entity);
  if (sync !== null) return { subjects: [entitySubject(sync.sync_id)] };
  const split = await splitAt(reader, entity);
  if (split !== null) return { subjects: [entitySubject(split.split_id)] };
  const move = await findMoveRow(reader, entity);
  if (move !== null) return { subjects: [entitySubject(move.move_id)] };
  const unpartitioned = await runsOfPartition(reader, entity, "");
  if (unpartitioned !== null) return unpartitioned;
  throw backfillNotFound(entity);
}

/**
 * The events about a partition: those of the run that made it and of the last that tried to, none
 * while nobody has; null for what is no partition of an asset.
 */
async function runsOfPartition(reader: Reader, asset: string, key: string): Promise<About | null> {
  const [row] = (await reader.load(PARTITIONS, [[asset, key]])) as PartitionRow[];
  if (row === undefined) {
    const [definition] = await reader.load(DEFINITIONS, [["asset", asset]]);
    return definition === undefined ? null : { subjects: [] };
  }
  const ids = new Set([row.last_materialization_run_id, row.last_attempt_run_id]);
  const subjects: number[] = [];
  for (const id of ids) if (id !== null) subjects.push((await findRun(reader, id)).run_pos);
  return { subjects };
}

/** The events about a chunk of a backfill or a tick of a schedule: those of what it asked for. */
async function eventsOfPart(reader: Reader, entity: string): Promise<About> {
  const [, backfillId, index] = /^(.+):(\d{1,15})$/.exec(entity) ?? [];
  if (backfillId !== undefined) {
    const rows = await reader.load(CHUNKS, [[backfillId, Number(index)]]);
    const runPos = (rows as ChunkRow[])[0]?.run_pos ?? null;
    if (runPos !== null) return { subjects: [runPos] };
  }
  const segment = await segmentAt(reader, entity);
  if (segment !== null) return eventsOfSegment(reader, segment, segment.sync_id);
  const moved = await moveSegmentAt(reader, entity);
  if (moved !== null) return eventsOfSegment(reader, moved, moved.move_id);
  const tick = await findTick(reader, entity);
  if (tick !== null) {
    const request = await requestOfTick(reader, tick);
    if (request !== null) return { subjects: [request.pos] };
    return {
      subjects: [entitySubject(tick.schedule_id)],
      after: tick.pos - 1,
      through: tick.pos,
    };
  }
  const evaluation = await eventsOfEvaluation(reader, entity);
  if (evaluation !== null) return evaluation;
  throw new PawlError(
    "CHUNK_NOT_FOUND",
    `There is no planned chunk ${JSON.stringify(entity)}, nor a segment, a tick or an ` +
      "evaluation. " +
      "`pawl backfill show` lists the chunks of a backfill, `pawl schedule ticks` the ticks of a " +
      "schedule, `pawl sensor evals` the evaluations of a sensor.",
    { details: { chunk_id: entity } },
  );
}

/** The events about a segment: those of its run, or of its holder while nobody has tried it. */
async function eventsOfSegment(
  reader: Reader,
  { run_id }: { run_id: string | null },
  holderId: string,
): Promise<About> {
  if (run_id === null) return { subjects: [entitySubject(holderId)] };
  return { subjects: [(await findRun(reader, run_id)).run_pos] };
}

/** The events about an evaluation of a sensor: those of the runs it made, or just its own. */
async function eventsOfEvaluation(reader: Reader, entity: string): Promise<About | null> {
  const found = await findEvaluation(reader, entity);
  if (found === null) return null;
  const runs = await runsOfEvaluation(reader, found);
  if (runs.length > 0) return { subjects: runs };
  const subjects = [entitySubject(found.sensor_id)];
  return { subjects, after: found.pos - 1, through: found.pos };
}
