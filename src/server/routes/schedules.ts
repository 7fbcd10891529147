import {
  pauseSchedule,
  resumeSchedule,
  type ScheduleChanged,
  triggerSchedule,
} from "../../controllers/change-schedule.ts";
import type { Context } from "../../controllers/decision.ts";
import { knownEntity } from "../../controllers/find-entity.ts";
import { scheduleTimes } from "../../controllers/schedule-times.ts";
import { scheduleSpec } from "../../controllers/tick-schedule.ts";
import type { ScheduleDocument } from "../../core/api/schedule-documents.ts";
import { isTimeZone } from "../../core/partitions/time-zone.ts";
import { PawlError } from "../../core/errors.ts";
import type { Rows } from "../../core/rows/rows.ts";
import { SCHEDULE_TICKS, type ScheduleRow, SCHEDULES } from "../../core/rows/schedule-rows.ts";
import type { Condition } from "../../core/rows/table.ts";
import { type Call, evaluateAt, type Handler, readAt, type Reply, submitted } from "../call.ts";
import { cursorOf, keyOfCursor, kindsOf } from "../cursor.ts";
import { createdEntity, deletedEntity, updatedEntity } from "../define-entity.ts";
import { expectedVersion } from "../expected-version.ts";
import { knownEntityRow } from "../find-entity-row.ts";
import { listRows } from "../list-rows.ts";
import { nextTimes } from "../next-times.ts";
import { PAGE_LENGTH_MAX } from "../read-within.ts";
import { scheduleDocuments, tickDocuments } from "../schedule-document.ts";

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

type Command = {
  params: { schedule_id: string };
  body: { expected_state_version?: number | undefined; reason?: string | undefined };
  header(name: string): string | undefined;
};

function commandOf(call: Command) {
  const { reason } = call.body;
  return { schedule: call.params.schedule_id, reason, ...expectedVersion(call) };
}

function nowIs({ schedule_id, name, state, state_version }: ScheduleChanged) {
  const message = `Schedule ${name} is ${state}.`;
  return { message, schedule_id, name, state, state_version };
}

/** What can be done with schedules. */
export const SCHEDULE_HANDLERS: {
  createSchedule: Handler<"createSchedule">;
  previewTimes: Handler<"previewTimes">;
  listSchedules: Handler<"listSchedules">;
  getSchedule: Handler<"getSchedule">;
  updateSchedule: Handler<"updateSchedule">;
  deleteSchedule: Handler<"deleteSchedule">;
  listTicks: Handler<"listTicks">;
  listNextTimes: Handler<"listNextTimes">;
  triggerSchedule: Handler<"triggerSchedule">;
  pauseSchedule: Handler<"pauseSchedule">;
  resumeSchedule: Handler<"resumeSchedule">;
} = {
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
  triggerSchedule: (call) =>
    submitted(call, triggerSchedule(commandOf(call)), (result) => ({
      message: `It asked for ${result.run_id ?? `backfill ${result.backfill_id}`}.`,
      ...result,
    })),
  pauseSchedule: (call) => submitted(call, pauseSchedule(commandOf(call)), nowIs),
  resumeSchedule: (call) => submitted(call, resumeSchedule(commandOf(call)), nowIs),
};
