import { type BackfillDocument, BackfillStateField } from "../../work/backfill/documents.ts";
import type { EventData } from "../../work/events.ts";
import { addMs, type Instant, msBetween } from "../../kernel/instant.ts";
import { IDEMPOTENCY_KEYS } from "../../work/keys.ts";
import { type BackfillRow, type ChunkRow, BACKFILLS, CHUNKS } from "../../work/backfill/rows.ts";
import type { Reader } from "../../store/store.ts";
import {
  type BackfillChanged,
  backfillNotFound,
  cancelBackfill,
  pauseBackfill,
  resumeBackfill,
  retuneBackfill,
} from "../../work/backfill/commands.ts";
import {
  createBackfill,
  type CreateBackfillInput,
  isCreatedBefore,
  previewBackfill,
  retryBackfill,
} from "../../work/backfill/create.ts";
import type { StaleSurvey } from "../../work/asset/stale.ts";
import type { CreateBackfillBody } from "../../work/backfill/api.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { Condition } from "../../kernel/table.ts";
import { backfillAsOf } from "../../engine/ledger/refold.ts";
import {
  type Call,
  commandRoutes,
  type Handlers,
  readAt,
  type Reply,
  submitted,
} from "../http/call.ts";
import { listRows, withinTime } from "../http/read-within.ts";
import { knownBackfillRow } from "../look-ups.ts";
import { surveyPartitions } from "../overview/stale.ts";
import { isLookedFor } from "../../work/backfill/targets.ts";
import { afterOpenTime, openedAt } from "../../work/backfill/window.ts";
import { asOfOf } from "../../kernel/keyspace/selector.ts";

/** How many of the newest finished chunks tell how fast a backfill goes. */
export const RATE_CHUNKS = 20;

/** Created, and started: a backfill with no more versions was never paused. */
const VERSIONS_UNPAUSED = 2;

/** The newest changes of a backfill that are looked through for pauses. */
const VERSIONS_MAX = 200;

/** How long a backfill was paused so far, and since when it is. */
export type Pauses = Pick<BackfillDocument, "paused_ms" | "paused_at">;

/** What is known of a backfill besides its row: its newest finished chunks, and its pauses. */
export type BackfillExtras = { recent: readonly ChunkRow[]; pauses: Pauses };

/** The pauses of a backfill, from the events that name its versions. */
export async function pausesOf(reader: Reader, row: BackfillRow): Promise<Pauses> {
  const { backfill_id, created_pos, state_version } = row;
  const pauses: Pauses = { paused_ms: 0, paused_at: null };
  if (state_version <= VERSIONS_UNPAUSED) return pauses;
  const keys: string[] = [];
  const first = Math.max(VERSIONS_UNPAUSED, state_version - VERSIONS_MAX) + 1;
  for (let version = first; version <= state_version; version++) {
    for (const state of BackfillStateField.options) {
      keys.push(IDEMPOTENCY_KEYS.backfillState(backfill_id, version, state));
    }
  }
  const subjects = [created_pos];
  const events = await reader.events({ after: created_pos, subjects, keys, limit: VERSIONS_MAX });
  for (const { data, occurred_at } of events) {
    const { to_state } = JSON.parse(data) as EventData<"BackfillStateChanged">;
    if (pauses.paused_at !== null) pauses.paused_ms += msBetween(pauses.paused_at, occurred_at);
    pauses.paused_at = to_state === "PAUSED" ? occurred_at : null;
  }
  return pauses;
}

/** A backfill as the API shows it. */
export function backfillDocument(
  stored: BackfillRow,
  { recent, pauses }: BackfillExtras,
  now: Instant,
): BackfillDocument {
  const { removed: _, ...row } = stored;
  const chunks_pending =
    row.total_chunks -
    (row.chunks_planned +
      row.chunks_running +
      row.chunks_succeeded +
      row.chunks_failed +
      row.chunks_cancelled);
  const partitions_pending =
    row.partitions_total -
    (row.partitions_planned +
      row.partitions_running +
      row.partitions_succeeded +
      row.partitions_failed +
      row.partitions_cancelled);
  const isPlanning = row.state === "RUNNING" && row.window_open === 1;
  // What was planned before the window opened says nothing about the pace since.
  const opened = row.window === null ? null : openedAt(row.window, now);
  const counted = recent.filter(({ planned_at: at }) => opened === null || (at ?? "") >= opened);
  const rate = isPlanning ? rateOf(counted, now) : null;
  const left = partitions_pending + row.partitions_planned + row.partitions_running;
  const failed = row.partitions_failed > 0 || row.chunks_failed > 0;
  return {
    ...row,
    failure_limit_reached: row.failure_limit_reached === 1,
    cancel_runs: row.cancel_runs === 1,
    continue_on_failure: row.continue_on_failure === 1,
    window_open: row.window_open === 1,
    display_status: row.state === "PAUSED" && failed ? "PAUSED_WITH_FAILURES" : row.state,
    chunks_pending,
    partitions_pending,
    rate_per_second: rate,
    eta_at: rate === null ? null : etaOf(left, rate, now, row.window),
    ...pauses,
  };
}

/** Partitions a second since the oldest of the chunks was planned: pauses before it do not count. */
function rateOf(recent: readonly ChunkRow[], now: Instant): number | null {
  let since: Instant | null = null;
  let partitions = 0;
  for (const { planned_at, partitions: count } of recent) {
    if (planned_at === null) continue;
    if (since === null || planned_at < since) since = planned_at;
    partitions += count;
  }
  if (since === null) return null;
  const seconds = Math.max(0.001, msBetween(since, now) / 1_000);
  return Math.round((partitions / seconds) * 1_000) / 1_000;
}

/** A rate that would end after the year 9999 says nothing. Outside its window a backfill stands still. */
function etaOf(left: number, rate: number, now: Instant, window: string | null): Instant | null {
  if (rate <= 0) return null;
  const ms = (left / rate) * 1_000;
  if (typeof window === "string") return afterOpenTime(window, now, ms);
  return ms > 250_000_000_000_000 ? null : addMs(now, Math.round(ms));
}

/** The newest finished chunks of a running backfill. */
async function recentChunks(reader: Reader, backfill: BackfillRow): Promise<ChunkRow[]> {
  if (backfill.state !== "RUNNING") return [];
  const where: Condition[] = [
    { cell: "backfill_id", is: "=", value: backfill.backfill_id },
    { cell: "finished_at", is: "not null" },
  ];
  const order = [{ cell: "backfill_id" }, { cell: "chunk_index", descending: true }];
  const rows = await reader.find({ table: CHUNKS, where, order, limit: RATE_CHUNKS });
  return rows;
}

/** What the document of a backfill needs besides its row. */
export async function extrasOf(reader: Reader, row: BackfillRow): Promise<BackfillExtras> {
  return { recent: await recentChunks(reader, row), pauses: await pausesOf(reader, row) };
}

async function getBackfill(call: Call<"getBackfill">): Promise<Reply> {
  const { as_of } = call.query;
  const { backfill_id } = call.params;
  return readAt(call, async (reader) => {
    const head = (await reader.head()).pos;
    if (as_of !== undefined) {
      if (as_of > head) {
        throw new PawlError(
          "NOT_YET",
          `The ledger is at ${head}; there is no position ${as_of} yet. Ask with \`min_pos\` to wait.`,
          { details: { as_of, pos: head } },
        );
      }
      const past = await backfillAsOf(reader, backfill_id, as_of);
      if (past === null) throw backfillNotFound(backfill_id);
      const extras = { recent: [], pauses: await pausesOf(reader, past) };
      return { answer: backfillDocument(past, extras, call.server.now()), pos: as_of };
    }
    const row = await knownBackfillRow(reader, backfill_id);
    const extras = await extrasOf(reader, row);
    return { answer: backfillDocument(row, extras, call.server.now()), pos: head };
  });
}

function listBackfills(call: Call<"listBackfills">): Promise<Reply> {
  const where = withinTime("created_at", call.query);
  const { status, parent_backfill_id } = call.query;
  if (status !== undefined) where.push({ cell: "state", is: "in", values: status });
  if (parent_backfill_id !== undefined) {
    where.push({ cell: "parent_backfill_id", is: "=", value: parent_backfill_id });
  }
  return listRows(
    call,
    { table: BACKFILLS, where, along: ["created_pos"], descending: true },
    async (rows, reader) => {
      const documents: BackfillDocument[] = [];
      for (const row of rows) {
        const extras = await extrasOf(reader, row);
        documents.push(backfillDocument(row, extras, call.server.now()));
      }
      return documents;
    },
  );
}

/** The wish as the decisions take it: one name for the assets, and the request named by its key. */
function wishOf(body: CreateBackfillBody, key: string): CreateBackfillInput {
  const { assets, asset_selection, client_request_id, ...rest } = body;
  return {
    ...rest,
    assets: assets ?? asset_selection ?? [],
    client_request_id: client_request_id ?? key,
  };
}

/** What was found, for a wish whose partitions have to be looked for; undefined for all others. */
async function surveyOf(
  { engine, signal }: Pick<Call<"createBackfill">, "engine" | "signal">,
  wish: CreateBackfillInput,
): Promise<StaleSurvey | undefined> {
  const as_of = asOfOf(wish.selector);
  if (as_of === undefined) {
    return isLookedFor(wish.selector) ? surveyPartitions(engine, wish, signal()) : undefined;
  }
  throw new PawlError(
    "INPUT_INVALID",
    "selector.as_of: expected nothing, because partitions are looked for when it is asked, " +
      `got ${JSON.stringify(as_of)}.`,
    { details: { as_of } },
  );
}

async function create(call: Call<"createBackfill">): Promise<Reply> {
  const wish = wishOf(call.body, call.idempotency?.key ?? "");
  // A repeat is answered as at first: nothing need be looked for.
  const isRepeat = isLookedFor(wish.selector) && (await isRepeated(call, wish));
  const survey = isRepeat ? undefined : await surveyOf(call, wish);
  return submitted(call, createBackfill(wish, survey), (result) => ({
    message: `Backfill ${result.backfill_id} was created.`,
    ...result,
  }));
}

async function isRepeated(
  { engine, caller }: Call<"createBackfill">,
  wish: CreateBackfillInput,
): Promise<boolean> {
  return (await engine.evaluate(isCreatedBefore(wish), caller.actor)).result;
}

function nowIs({ backfill_id, state, state_version }: BackfillChanged) {
  const message = `Backfill ${backfill_id} is ${state}.`;
  return { message, backfill_id, state, state_version };
}

const command = commandRoutes(({ backfill_id }: { backfill_id: string }) => ({ backfill_id }));

/** What can be done with backfills. */
export const BACKFILL_HANDLERS = {
  createBackfill: create,
  previewBackfill: async (call) => {
    const wish = wishOf(call.body, "preview");
    const survey = await surveyOf(call, wish);
    const { result, pos } = await call.engine.evaluate(previewBackfill(wish, survey));
    return { answer: { ...result, pos }, pos };
  },
  listBackfills,
  getBackfill,
  pauseBackfill: command(pauseBackfill, nowIs),
  resumeBackfill: command(resumeBackfill, nowIs),
  cancelBackfill: command(cancelBackfill, nowIs),
  retryBackfill: (call) =>
    submitted(
      call,
      retryBackfill({
        ...call.body,
        backfill_id: call.params.backfill_id,
        retry_request_id: call.body.retry_request_id ?? call.idempotency?.key ?? "",
      }),
      (result) => ({ message: `Backfill ${result.backfill_id} was created.`, ...result }),
    ),
  retuneBackfill: command(retuneBackfill, nowIs),
} satisfies Handlers;
