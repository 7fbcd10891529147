import {
  type NextTimeDocument,
  type ScheduleDocument,
  TICK_KEYS_SHOWN_MAX,
  type TickDocument,
} from "../../work/schedule/api.ts";
import { previewTimes as cronTimes } from "../../kernel/cron/times.ts";
import { PawlError } from "../../kernel/errors.ts";
import { epochMsOf, INSTANT_MS_MAX, type Instant, instantOf } from "../../kernel/instant.ts";
import { dueStretch, scheduleTimes } from "../../work/schedule/times.ts";
import { scheduleSpec } from "../../work/schedule/tick.ts";
import type { Context } from "../../work/decision.ts";
import type { ScheduleSpec } from "../../work/definition/spec.ts";
import type { EventData } from "../../work/events.ts";
import { NO_STALE_REASONS } from "../../kernel/keyspace/selector.ts";
import { BACKFILLS } from "../../work/backfill/rows.ts";
import type { Rows } from "../../work/rows.ts";
import { RUNS } from "../../work/run/rows.ts";
import {
  type ScheduleRow,
  type ScheduleTickRow,
  SCHEDULE_TICKS,
  SCHEDULES,
} from "../../work/schedule/rows.ts";
import type { Key, Condition } from "../../kernel/table.ts";
import type { Reader } from "../../store/store.ts";
import {
  pauseSchedule,
  resumeSchedule,
  type ScheduleChanged,
  triggerSchedule,
} from "../../work/schedule/commands.ts";
import { knownEntity } from "../../work/definition/find-entity.ts";
import { isTimeZone } from "../../kernel/keyspace/civil-time.ts";
import {
  type Call,
  commandRoutes,
  evaluateAt,
  type Handlers,
  readAt,
  type Reply,
} from "../http/call.ts";
import { createdEntity, deletedEntity, updatedEntity, knownEntityRow } from "../entities.ts";
import { cursorOf, keyOfCursor, kindsOf, listRows, PAGE_LENGTH_MAX } from "../http/read-within.ts";

/** Which times are asked for: those of a cron expression within bounds, after an instant. */
export type TimesQuery = {
  cron: string;
  timezone: string;
  starts_at: Instant | null;
  ends_at: Instant | null;
  after: Instant;
  count: number;
  /** How long after its nominal time each is acted on. */
  offsetMs: number;
};

/** The next times, as a person reads them. Throws INPUT_INVALID when the expression has none. */
export function nextTimes(query: TimesQuery): NextTimeDocument[] {
  const { cron, timezone, starts_at, ends_at, after, count, offsetMs } = query;
  const startsMs = starts_at === null ? Number.NEGATIVE_INFINITY : epochMsOf(starts_at);
  const afterMs = Math.max(epochMsOf(after), startsMs - 1);
  const found = cronTimes(cron, timezone, afterMs, count);
  if (typeof found === "string") {
    throw new PawlError("INPUT_INVALID", `The cron expression is wrong: ${found}.`, {
      details: { cron, timezone },
    });
  }
  const endsMs = ends_at === null ? Number.POSITIVE_INFINITY : epochMsOf(ends_at);
  return found
    .filter(({ at }) => at < endsMs && at + offsetMs <= INSTANT_MS_MAX)
    .map(({ at, wall, offset, change }) => ({
      scheduled_for: instantOf(at),
      due_at: instantOf(at + offsetMs),
      local_time: wall,
      utc_offset: offset,
      change,
    }));
}

/** Schedules with their definitions, and with what became of what they last asked for. */
export function scheduleDocuments(
  rows: Rows,
  schedules: readonly ScheduleRow[],
  context: Pick<Context, "now" | "hash">,
): ScheduleDocument[] {
  rows.specs.need(schedules.map(({ spec_hash }) => [spec_hash]));
  rows.runKeys.need(keysOf(schedules.map(({ last_run_key }) => last_run_key)));
  rows.backfills.need(keysOf(schedules.map(({ last_backfill_id }) => last_backfill_id)));
  const runPos = (row: ScheduleRow) =>
    row.last_run_key === null ? null : (rows.runKeys.get(row.last_run_key)?.run_pos ?? null);
  rows.runs.need(keysOf(schedules.map(runPos)));
  return schedules.map((row) => {
    const { kind: _kind, ...definition } = scheduleSpec(rows, row);
    const { overlap: _overlap, due_at: _due, stale_place: _place, ...told } = row;
    const pos = runPos(row);
    const { last_backfill_id: backfillId } = row;
    const isActive = row.state === "ACTIVE";
    return {
      ...definition,
      ...told,
      next_scheduled_for: isActive ? row.next_scheduled_for : null,
      next_due_at: isActive ? row.next_due_at : null,
      last_run_state: pos === null ? null : (rows.runs.get(pos)?.state ?? null),
      last_backfill_state:
        backfillId === null ? null : (rows.backfills.get(backfillId)?.state ?? null),
      waiting_for: waitingFor(row, scheduleSpec(rows, row), context),
    };
  });
}

function keysOf(parts: readonly (string | number | null)[]): Key[] {
  return parts.flatMap((part) => (part === null ? [] : [[part]]));
}

/** The newest time that is due and waits for a run to end. */
function waitingFor(
  row: ScheduleRow,
  spec: ScheduleSpec,
  { now, hash }: Pick<Context, "now" | "hash">,
): Instant | null {
  const waits = row.state === "ACTIVE" && row.overlap === "buffer_one" && row.active_runs > 0;
  if (!waits) return null;
  const times = scheduleTimes(spec, row.schedule_id, hash);
  const due = dueStretch(times, epochMsOf(row.ticked_through), epochMsOf(now));
  const newest = times.cron.lastUpTo(due.throughMs);
  return newest !== null && newest > due.afterMs ? instantOf(newest) : null;
}

/** Ticks with what became of what they asked for. */
export async function tickDocuments(
  ticks: readonly ScheduleTickRow[],
  reader: Reader,
): Promise<TickDocument[]> {
  const runIds = ticks.flatMap(({ run_id }) => run_id ?? []);
  const runs =
    runIds.length === 0
      ? []
      : await reader.find({
          table: RUNS,
          where: [{ cell: "run_id", is: "in", values: runIds }],
          order: [{ cell: "run_id" }],
          limit: runIds.length,
        });
  const backfillKeys = keysOf(ticks.map(({ backfill_id }) => backfill_id));
  const backfills = await reader.load(BACKFILLS, backfillKeys);
  const runStates = new Map(runs.map(({ run_id, state }) => [run_id, state]));
  const backfillStates = new Map(backfills.map(({ backfill_id, state }) => [backfill_id, state]));
  const selections = await selectionsOf(ticks, reader);
  return ticks.map(({ manual, partition_keys, stale_reasons, ...tick }) => ({
    ...tick,
    asset_selection: selections.get(tick.pos) ?? null,
    manual: manual === 1,
    run_state: runStates.get(tick.run_id ?? "") ?? null,
    backfill_state: backfillStates.get(tick.backfill_id ?? "") ?? null,
    partition_keys: partition_keys?.slice(0, TICK_KEYS_SHOWN_MAX) ?? null,
    partition_count: partition_keys?.length ?? null,
    stale_reasons: stale_reasons === null ? null : { ...NO_STALE_REASONS, ...stale_reasons },
  }));
}

/** Which assets each tick was for, as its event says: the schedule may say otherwise by now. */
async function selectionsOf(
  ticks: readonly ScheduleTickRow[],
  reader: Reader,
): Promise<Map<number, string[]>> {
  const selections = new Map<number, string[]>();
  for (const { pos, tick_id } of ticks) {
    if (tick_id === null) continue;
    const [event] = await reader.events({ after: pos - 1, through: pos, limit: 1 });
    if (event?.type !== "ScheduleTicked") continue;
    const { asset_selection } = JSON.parse(event.data) as EventData<"ScheduleTicked">;
    selections.set(pos, asset_selection);
  }
  return selections;
}

/** Schedules that one page looks through for those of an asset. */
const LOOKS_MAX = 2_000;

/** Schedules that are read at once: a definition may be long. */
const READ_AT_ONCE = 20;

const ALONG = ["name", "schedule_id"] as const;

type ListQuery = Call<"listSchedules">["query"];

/** The next schedules by name; which of them ask for an asset is in their definitions only. */
function schedulesAfter(rows: Rows, { limit, cursor, status, asset }: ListQuery): Page {
  const where: Condition[] = [{ cell: "state", is: "in", values: status ?? ["ACTIVE", "PAUSED"] }];
  if (cursor !== undefined) {
    where.push({ cells: ALONG, is: "after", key: keyOfCursor(cursor, kindsOf(SCHEDULES, ALONG)) });
  }
  const looked = asset === undefined ? Math.min(limit, READ_AT_ONCE) : READ_AT_ONCE;
  const order = ALONG.map((cell) => ({ cell }));
  const found = rows.schedules.find(where, order, looked + 1);
  const seen = found.slice(0, looked);
  rows.specs.need(seen.map(({ spec_hash }) => [spec_hash]));
  const matching = seen.filter(
    (row) => asset === undefined || scheduleSpec(rows, row).asset_selection.includes(asset),
  );
  const page = matching.slice(0, limit);
  const isCut = matching.length > limit;
  const last = isCut ? page.at(-1) : found.length > looked ? seen.at(-1) : undefined;
  return { page, next: last === undefined ? null : cursorOf([last.name, last.schedule_id]) };
}

type Page = { page: ScheduleRow[]; next: string | null };

async function listSchedules(call: Call<"listSchedules">): Promise<Reply> {
  const { query } = call;
  const items: ScheduleDocument[] = [];
  let length = 0;
  let cursor = query.cursor;
  for (let looked = READ_AT_ONCE; ; looked += READ_AT_ONCE) {
    const limit = query.limit - items.length;
    const { result, pos } = await evaluateAt(call, (rows, context) => {
      const { page, next } = schedulesAfter(rows, { ...query, limit, cursor });
      return { documents: scheduleDocuments(rows, page, context), next };
    });
    const { documents, next } = result;
    items.push(...documents);
    length += JSON.stringify(documents).length;
    const isFull = items.length === query.limit || length > PAGE_LENGTH_MAX || looked >= LOOKS_MAX;
    if (next === null || isFull) return { answer: { items, next_cursor: next, pos }, pos };
    cursor = next;
  }
}

async function getSchedule(call: Call<"getSchedule">): Promise<Reply> {
  const { result, pos } = await evaluateAt(call, (rows, context) => {
    const row = knownEntity(rows, "schedule", call.params.schedule_id);
    return scheduleDocuments(rows, [row], context)[0];
  });
  return { answer: result, pos };
}

async function listTicks(call: Call<"listTicks">): Promise<Reply> {
  const { status, reason, manual, since, until } = call.query;
  const { schedule_id } = await readAt(call, (reader) =>
    knownEntityRow(reader, "schedule", call.params.schedule_id),
  );
  const where: Condition[] = [{ cell: "schedule_id", is: "=", value: schedule_id }];
  if (status !== undefined) where.push({ cell: "status", is: "in", values: status });
  if (reason !== undefined) where.push({ cell: "reason", is: "in", values: reason });
  if (manual !== undefined) {
    where.push({ cell: "manual", is: "=", value: manual === "true" ? 1 : 0 });
  }
  // A stretch of times belongs to every period that it reaches into.
  if (since !== undefined) where.push({ cell: "through", is: ">=", value: since });
  if (until !== undefined) where.push({ cell: "scheduled_for", is: "<", value: until });
  const list = { table: SCHEDULE_TICKS, where, along: ["pos"] as const, descending: true };
  return listRows(call, list, tickDocuments);
}

async function listNextTimes(call: Call<"listNextTimes">): Promise<Reply> {
  const { result, pos } = await evaluateAt(call, (rows, context) =>
    timesOfSchedule(call, rows, context),
  );
  return { answer: { ...result, pos }, pos };
}

function timesOfSchedule(
  { params, query }: Call<"listNextTimes">,
  rows: Rows,
  { now, hash }: Context,
) {
  const row = knownEntity(rows, "schedule", params.schedule_id);
  const spec = scheduleSpec(rows, row);
  const { offsetMs } = scheduleTimes(spec, row.schedule_id, hash);
  const { count, after = now } = query;
  const items = row.state === "DELETED" ? [] : nextTimes({ ...spec, after, count, offsetMs });
  return { timezone: spec.timezone, items };
}

async function previewTimes(call: Call<"previewTimes">): Promise<Reply> {
  const { timezone } = call.body;
  if (!isTimeZone(timezone)) {
    throw new PawlError(
      "INPUT_INVALID",
      `${JSON.stringify(timezone)} is no time zone; use an IANA name such as Europe/Berlin.`,
      { details: { timezone } },
    );
  }
  const { result, pos } = await call.engine.evaluate((_rows, { now }) => ({
    events: [],
    result: nextTimes({ ...call.body, after: call.body.after ?? now, offsetMs: 0 }),
  }));
  return { answer: { timezone, items: result, pos }, pos };
}

function nowIs({ schedule_id, name, state, state_version }: ScheduleChanged) {
  const message = `Schedule ${name} is ${state}.`;
  return { message, schedule_id, name, state, state_version };
}

const command = commandRoutes(({ schedule_id }: { schedule_id: string }) => ({
  schedule: schedule_id,
}));

/** What can be done with schedules. */
export const SCHEDULE_HANDLERS = {
  createSchedule: (call) => {
    const { client_request_id: _, ...spec } = call.body;
    return createdEntity(call, { kind: "schedule", ...spec });
  },
  previewTimes,
  listSchedules,
  getSchedule,
  updateSchedule: (call) => {
    const { expected_state_version: _, name: given, ...spec } = call.body;
    const { schedule_id } = call.params;
    return updatedEntity(
      call,
      "schedule",
      schedule_id,
      (name) => ({ kind: "schedule", name, ...spec }),
      given,
    );
  },
  deleteSchedule: (call) => deletedEntity(call, "schedule", call.params.schedule_id),
  listTicks,
  listNextTimes,
  triggerSchedule: command(triggerSchedule, (result) => ({
    message: `Triggered ${result.run_id ?? `backfill ${result.backfill_id}`}.`,
    ...result,
  })),
  pauseSchedule: command(pauseSchedule, nowIs),
  resumeSchedule: command(resumeSchedule, nowIs),
} satisfies Handlers;
