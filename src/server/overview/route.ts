import {
  type OverviewCounts,
  ATTENTION_MAX,
  type AttentionDocument,
  Concern,
  type OverviewDocument,
  RUNNING_MAX,
  SAMPLE_SECONDS,
  type SeriesDocument,
} from "../../work/server-api.ts";
import { BACKFILLS } from "../../work/backfill/rows.ts";
import { DEFINITIONS } from "../../work/definition/rows.ts";
import { MOVES } from "../../work/move/rows.ts";
import { SCHEDULES } from "../../work/schedule/rows.ts";
import { SENSORS } from "../../work/sensor/rows.ts";
import { SPLITS } from "../../work/split/rows.ts";
import { SYNCS } from "../../work/sync/rows.ts";
import type { AnyTable, Condition } from "../../kernel/table.ts";
import type { Reader } from "../../store/store.ts";
import { openTasks, bucketOf } from "../sampler.ts";
import { setImmediate as nextTurn } from "node:timers/promises";
import { PawlError } from "../../kernel/errors.ts";
import { addMs, epochMsOf, type Instant, instantOf } from "../../kernel/instant.ts";
import { type Call, type Handler, readAt, type Reply } from "../http/call.ts";
import { claimedLately } from "../look-ups.ts";
import {
  conflicts,
  failedBackfills,
  failedSensors,
  failedSplits,
  failedSyncs,
  failedTicks,
  failedRuns,
} from "./failed.ts";
import { LATELY_MS } from "./item.ts";
import {
  lateSchedules,
  lateSensors,
  missingWorkers,
  pausedThings,
  poisonedMoves,
  quarantinedSyncs,
  undecided,
} from "./held-up.ts";
import { runningThings } from "./running.ts";
import { staleOverview } from "./stale.ts";

type Counts = Record<string, number>;

/** How much there is, by kind and state; of runs only those that have not ended. */
export async function overviewCounts(reader: Reader): Promise<OverviewCounts> {
  const by = (table: AnyTable, cell: string, where: Condition[] = []): Promise<Counts> =>
    countsOf(reader, table, cell, where);
  const living = (cell: string, end: string): Condition[] => [{ cell, is: "<>", value: end }];
  const tasks = await openTasks(reader);
  return {
    backfills: await by(BACKFILLS, "state"),
    runs: tasks.runsByState,
    tasks: {
      WAITING: tasks.tasks_waiting,
      READY: tasks.tasks_ready,
      RUNNING: tasks.tasks_running,
      RETRY_WAIT: tasks.tasks_retry_wait,
    },
    schedules: await by(SCHEDULES, "state", living("state", "DELETED")),
    sensors: await by(SENSORS, "state", living("state", "DELETED")),
    syncs: await by(SYNCS, "status", living("state", "REMOVED")),
    moves: await by(MOVES, "state"),
    splits: await by(SPLITS, "phase"),
    definitions: await by(DEFINITIONS, "kind"),
  };
}

async function countsOf(
  reader: Reader,
  table: AnyTable,
  cell: string,
  where: readonly Condition[],
): Promise<Counts> {
  const groups = await reader.countBy(table, where, [cell]);
  return Object.fromEntries(groups.map(({ values, count }) => [String(values[cell]), count]));
}

const HOUR_MS = 3_600_000;
/** The start of the year 0: there are no instants before. */
const FIRST_MS = Date.parse("0000-01-01T00:00:00.000Z");

type Look = (reader: Reader) => Promise<AttentionDocument[]>;

/** Everything that may want attention but for what is stale, each look on a snapshot of its own. */
function looksOf({ engine }: Call<"getOverview">, now: Instant): Look[] {
  const lately = addMs(now, -LATELY_MS);
  const claimed = claimedLately(engine, now);
  return [
    (reader) => failedBackfills(reader, engine, lately),
    (reader) => failedRuns(reader, lately),
    (reader) => failedTicks(reader, lately),
    failedSensors,
    failedSyncs,
    failedSplits,
    (reader) => conflicts(reader, lately),
    (reader) => missingWorkers(reader, claimed, now),
    quarantinedSyncs,
    poisonedMoves,
    (reader) => undecided(reader, engine.status().poisoned),
    (reader) => lateSchedules(reader, now),
    (reader) => lateSensors(reader, now),
    pausedThings,
  ];
}

async function getOverview(call: Call<"getOverview">): Promise<Reply> {
  const { engine, server } = call;
  const now = server.now();
  const { counts, pos } = await readAt(call, async (reader) => ({
    counts: await overviewCounts(reader),
    pos: (await reader.head()).pos,
  }));
  const running = await engine.read((reader) => runningThings(reader, now));
  const attention: AttentionDocument[] = [];
  for (const look of looksOf(call, now)) {
    // Others have their turn in between.
    await nextTurn();
    attention.push(...(await engine.read(look)));
  }
  const stale = await staleOverview(engine, pos);
  attention.push(...stale.items);
  const answer: OverviewDocument = {
    now,
    counts,
    attention: mostUrgent(attention),
    attention_total: attention.length,
    attention_counts: countByConcern(attention),
    stale_complete: stale.isComplete,
    stale_pos: stale.pos,
    running: running.items.slice(0, RUNNING_MAX),
    running_total: running.total,
    running_complete: running.isComplete,
    pos,
  };
  return { answer, pos };
}

function countByConcern(
  attention: readonly AttentionDocument[],
): OverviewDocument["attention_counts"] {
  const counts = { failed: 0, stuck: 0, late: 0, stale: 0, paused: 0 };
  for (const { what } of attention) counts[what] += 1;
  return counts;
}

/** By urgency and then the newest first; so that much of one kind hides no other, each has a share. */
function mostUrgent(attention: readonly AttentionDocument[]): AttentionDocument[] {
  const newestFirst = attention.toSorted((one, other) =>
    (one.since ?? "") < (other.since ?? "") ? 1 : -1,
  );
  const groups = Concern.options.map((what) => newestFirst.filter((item) => item.what === what));
  const share = Math.floor(ATTENTION_MAX / groups.length);
  let left = ATTENTION_MAX - groups.reduce((sum, { length }) => sum + Math.min(length, share), 0);
  return groups.flatMap((group) => {
    const more = Math.max(0, Math.min(left, group.length - share));
    left -= more;
    return group.slice(0, share + more);
  });
}

async function listSamples(call: Call<"listSamples">): Promise<Reply> {
  const { engine, server, query } = call;
  const now = server.now();
  const since = query.since ?? hourBefore(query.until ?? now);
  const until = query.until ?? addMs(now, SAMPLE_SECONDS * 1_000);
  if (since >= until) throw emptyTime(since, until);
  const pos = await readAt(call, async (reader) => (await reader.head()).pos);
  const items: SeriesDocument[] = [];
  for (const series of new Set(query.series)) {
    const { ws } = engine.workspace;
    const untilSeconds = Math.ceil(epochMsOf(until) / 1_000);
    const points = await server.store.samples(ws, series, bucketOf(since), untilSeconds);
    items.push({ series, points });
    // Others have their turn in between.
    await nextTurn();
  }
  const answer = { items, bucket_seconds: SAMPLE_SECONDS, pos };
  return { answer, pos };
}

/** The instant an hour earlier, or the first that can be written. */
function hourBefore(instant: Instant): Instant {
  return instantOf(Math.max(epochMsOf(instant) - HOUR_MS, FIRST_MS));
}

function emptyTime(since: Instant, until: Instant): PawlError {
  return new PawlError(
    "INPUT_INVALID",
    `The time from ${since} to ${until} is empty. Give a \`since\` that is before \`until\`.`,
    { details: { since, until } },
  );
}

/** What can be asked about everything at once. */
export const OVERVIEW_HANDLERS: {
  getOverview: Handler<"getOverview">;
  listSamples: Handler<"listSamples">;
} = { getOverview, listSamples };
