import { PawlError } from "../../kernel/errors.ts";
import { entitySubject } from "../../work/keys.ts";
import { SHOWN_KINDS } from "../../work/kinds.ts";
import { tableOf } from "./work.ts";
import { BACKFILLS, CHUNKS } from "../../work/backfill/rows.ts";
import { DEFINITIONS } from "../../work/definition/rows.ts";
import { reporterIn } from "../../work/asset/fold-partitions.ts";
import { loadPartitions } from "../../work/asset/partition-blocks.ts";
import { moveSegmentAt } from "../../work/move/kind.ts";
import { findTick, requestPos } from "../../work/schedule/kind.ts";
import { findEvaluation, runsOfEvaluation } from "../../work/sensor/kind.ts";
import { splitAt } from "../../work/split/kind.ts";
import { segmentAt } from "../../work/sync/kind.ts";
import type { Reader } from "../../store/store.ts";
import { findEntityRow } from "../entities.ts";
import { findMoveRow } from "../look-ups.ts";
import { findSyncRow, knownSyncRow } from "./sync-documents.ts";
import { backfillNotFound } from "../../work/backfill/commands.ts";
import { findRun } from "./runs.ts";
import type { EventDocument } from "../../work/server-api.ts";
import type { EventFilter, RecordedEvent } from "../../work/envelope.ts";
import { type EventData, EVENTS, isEventType } from "../../work/events.ts";
import { nearMiss } from "../../kernel/message-text.ts";
import { whyChain } from "../../engine/why.ts";
import type { Caller } from "../http/authenticate.ts";
import { type Call, type Handlers, readAt, type Reply } from "../http/call.ts";
import {
  type Change,
  ChangeFeed,
  eventStream,
  eventsWithin,
  HEARTBEAT_MS,
  type MessageSource,
  messageStream,
} from "../http/event-stream.ts";
import { shownSpec } from "./webhooks.ts";
import type { Engine } from "../../engine/engine.ts";

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
  const [backfill] = await reader.load(BACKFILLS, [[entity]]);
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
  for (const kind of SHOWN_KINDS) {
    const [row] = await reader.load(tableOf(kind), [[entity]]);
    if (row !== undefined) return { subjects: [entitySubject(entity)] };
  }
  const unpartitioned = await runsOfPartition(reader, entity, "");
  if (unpartitioned !== null) return unpartitioned;
  throw backfillNotFound(entity);
}

/**
 * The events about a partition: those of the run that made it and of the last that tried to, none
 * while nobody has; null for what is no partition of an asset.
 */
async function runsOfPartition(reader: Reader, asset: string, key: string): Promise<About | null> {
  const [row] = await loadPartitions(reader, [[asset, key]]);
  if (row === undefined) {
    const [definition] = await reader.load(DEFINITIONS, [["asset", asset]]);
    return definition === undefined ? null : { subjects: [] };
  }
  const ids = new Set([row.last_materialization_run_id, row.last_attempt_run_id]);
  const subjects: number[] = [];
  for (const id of ids) {
    if (id === null) continue;
    const isReport = reporterIn(id) !== null;
    const made = row.last_materialization_pos ?? row.row_version;
    subjects.push(isReport ? made : (await findRun(reader, id)).run_pos);
  }
  return { subjects };
}

/** The events about a chunk of a backfill or a tick of a schedule: those of what it asked for. */
async function eventsOfPart(reader: Reader, entity: string): Promise<About> {
  const [, backfillId, index] = /^(.+):(\d{1,15})$/.exec(entity) ?? [];
  if (backfillId !== undefined) {
    const rows = await reader.load(CHUNKS, [[backfillId, Number(index)]]);
    const runPos = rows[0]?.run_pos ?? null;
    if (runPos !== null) return { subjects: [runPos] };
  }
  const segment = await segmentAt(reader, entity);
  if (segment !== null) return eventsOfSegment(reader, segment, segment.sync_id);
  const moved = await moveSegmentAt(reader, entity);
  if (moved !== null) return eventsOfSegment(reader, moved, moved.move_id);
  const tick = await findTick(reader, entity);
  if (tick !== null) {
    const request = await requestPos(reader, tick);
    if (request !== null) return { subjects: [request] };
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

/** An event with its actor and data as documents, under the names of its workspace. */
function eventDocument(
  event: RecordedEvent,
  { engine, caller }: Pick<Call<"listEvents">, "engine" | "caller">,
): EventDocument {
  const { workspace } = engine;
  return {
    ...event,
    tenant_id: workspace.tenant_id,
    workspace_id: workspace.workspace_id,
    actor: JSON.parse(event.actor) as EventDocument["actor"],
    data: shownData(event, caller) as EventDocument["data"],
  };
}

function shownData({ type, data }: RecordedEvent, caller: Caller): unknown {
  const parsed: unknown = JSON.parse(data);
  if (type !== "DefinitionsPublished") return parsed;
  const published = parsed as EventData<"DefinitionsPublished">;
  const specs = published.specs.map((each) => ({ ...each, body: shownSpec(each.body, caller) }));
  return { ...published, specs };
}

/** The types that a request wants; refuses one that no event has. */
function typesOf({ type, types }: Call<"listEvents">["query"]): string[] | undefined {
  if (type === undefined && types === undefined) return undefined;
  const wanted = [...(types ?? []), ...(type ?? [])];
  const unknown = wanted.find((name) => !isEventType(name));
  if (unknown === undefined) return wanted;
  const known = Object.keys(EVENTS);
  const meant = nearMiss(unknown, known);
  throw new PawlError(
    "INPUT_INVALID",
    `There are no events of type ${JSON.stringify(unknown)}. ` +
      (meant === null ? `Known are ${known.join(", ")}.` : `Did you mean ${meant}?`),
    { details: { type: unknown, meant } },
  );
}

/** Which events a request wants. */
async function filterOf(call: Call<"listEvents">, reader: Reader): Promise<EventFilter> {
  const { after, before, entity, limit, descending } = call.query;
  const types = typesOf(call.query);
  const about = entity === undefined ? {} : await eventsOfEntity(reader, entity);
  const through = Math.min(before === undefined ? Infinity : before - 1, about.through ?? Infinity);
  return {
    ...about,
    after: Math.max(after, about.after ?? 0),
    limit,
    ...(through === Infinity ? {} : { through }),
    ...(types === undefined ? {} : { types }),
    ...(descending === "true" ? { descending: true } : {}),
  };
}

async function listEvents(call: Call<"listEvents">): Promise<Reply | Response> {
  if (call.query.follow === "true") {
    const filter = await readAt(call, (reader) => filterOf(call, reader));
    return eventStream(call, filter, (event) => eventDocument(event, call));
  }
  return readAt(call, async (reader) => {
    const filter = await filterOf(call, reader);
    const { items, last } = await eventsWithin(reader, filter, (event) =>
      eventDocument(event, call),
    );
    const { pos } = await reader.head();
    const next = last?.pos ?? null;
    const answer = {
      items,
      next_after: filter.descending === true ? null : next,
      next_before: filter.descending === true ? next : null,
      pos,
    };
    return { answer, pos };
  });
}

/** What can be asked of the ledger, and the pass that moves it on. */
export const EVENT_HANDLERS = {
  listEvents,
  explainEntity: (call) =>
    readAt(call, async (reader) => {
      const chain = await whyChain(reader, call.query.entity);
      const items = chain.map((event) => eventDocument(event, call));
      const { pos } = await reader.head();
      return { answer: { items, pos }, pos };
    }),
  async tick({ engine }) {
    const { pos, events } = await engine.tick();
    return { answer: { pos, events }, pos };
  },
} satisfies Handlers;

const feeds = new WeakMap<Engine, ChangeFeed>();

/** The feed of a workspace: one for all who follow it. */
function feedOf(engine: Engine): ChangeFeed {
  let feed = feeds.get(engine);
  if (feed === undefined) {
    feed = new ChangeFeed(engine);
    feeds.set(engine, feed);
  }
  return feed;
}

/** Hands on changes; those that come while the client is not reading are told as one. */
class ChangeSource implements MessageSource {
  readonly #signal: AbortSignal;
  readonly #types = new Set<string>();
  #pos = 0;
  #wake: (() => void) | null = null;
  #stop: Promise<() => void>;

  constructor(call: Call<"followChanges">) {
    this.#signal = call.signal();
    this.#stop = feedOf(call.engine).listen((change) => this.#take(change));
    this.#signal.addEventListener("abort", this.#stopWaiting);
  }

  /** Resolves when nothing that comes from now on is missed. */
  async listening(): Promise<void> {
    await this.#stop;
  }

  async next(): Promise<string | null> {
    if (this.#types.size === 0 && !this.#signal.aborted) await this.#wait();
    if (this.#signal.aborted) return null;
    if (this.#types.size === 0) return ": still here\n\n";
    const message = { pos: this.#pos, types: [...this.#types] };
    this.#types.clear();
    return `id: ${message.pos}\ndata: ${JSON.stringify(message)}\n\n`;
  }

  close(): void {
    this.#signal.removeEventListener("abort", this.#stopWaiting);
    this.#stopWaiting();
    void this.#stop.then((stop) => stop()).catch(() => undefined);
  }

  readonly #stopWaiting = (): void => this.#wake?.();

  #take({ pos, types }: Change): void {
    this.#pos = pos;
    for (const type of types) this.#types.add(type);
    this.#wake?.();
  }

  #wait(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.#wake?.(), HEARTBEAT_MS);
      this.#wake = () => {
        clearTimeout(timer);
        this.#wake = null;
        resolve();
      };
    });
  }
}

/** What can be followed besides the events themselves. */
export const CHANGE_HANDLERS = {
  async followChanges(call) {
    let source: ChangeSource | null = null;
    const response = messageStream(call, () => {
      source = new ChangeSource(call);
      return source;
    });
    try {
      // The page asks for everything once it is told that the stream is open.
      await (source as ChangeSource | null)?.listening();
    } catch (error) {
      await response.body?.cancel();
      throw error;
    }
    return response;
  },
} satisfies Handlers;
