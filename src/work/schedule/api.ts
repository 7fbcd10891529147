import { z } from "zod";
import { Count, FailureField, InstantText } from "../envelope.ts";
import { SkipReason } from "./events.ts";
import { StaleReasons } from "../../kernel/keyspace/selector.ts";
import type { ScheduleRow } from "./rows.ts";
import { BackfillStateField } from "../backfill/documents.ts";
import { RunStateField } from "../run/api.ts";
import { AssetKey, ScheduleSpec } from "../definition/spec.ts";
import {
  SCHEDULE_ALIASES,
  clientRequestId,
  definedAnswer,
  entityAnswer,
  EntityRef,
  commaList,
  expectation,
  expectationQuery,
  QueryFlag,
  type Operation,
  ORCHESTRATION_PATH,
  pageOf,
  pageQuery,
  QueryInstant,
  readQuery,
  accepted,
  timeQuery,
  TransitionBody,
  DOCUMENT_BYTES_MAX,
} from "../operation.ts";

/** Where a schedule stands. */
export const ScheduleStateField = z.enum(["ACTIVE", "PAUSED", "DELETED"]);

const { ...definitionFields } = ScheduleSpec.omit({ kind: true }).shape;

const scheduleFields = {
  schedule_id: z.string(),
  spec_hash: z.string(),
  origin: z.enum(["code", "api"]),
  definition_version: Count,
  state: ScheduleStateField,
  state_version: Count,
  /** Why it is paused, in somebody's words. */
  reason: z.string().nullable(),
  /** When the schedule as it is now took effect. */
  activated_at: InstantText,
  paused_at: InstantText.nullable(),
  /** All its times up to this one are decided. */
  ticked_through: InstantText,
  last_scheduled_for: InstantText.nullable(),
  last_tick_id: z.string().nullable(),
  last_run_key: z.string().nullable(),
  last_run_id: z.string().nullable(),
  last_backfill_id: z.string().nullable(),
  /** The first time that is not decided, and when it is to be; null while it is not active. */
  next_scheduled_for: InstantText.nullable(),
  next_due_at: InstantText.nullable(),
  /** Runs of the schedule that have not ended. */
  active_runs: Count,
  last_run_ended_at: InstantText.nullable(),
  ticks_triggered: Count,
  ticks_skipped: Count,
  ticks_failed: Count,
  created_at: InstantText,
  created_pos: Count,
  row_version: Count,
} satisfies { [Field in Exclude<keyof ScheduleRow, Untold>]?: z.ZodType<ScheduleRow[Field]> };

/** What is in the definition already, or only for Pawl itself. */
type Untold = "name" | "overlap" | "due_at" | "stale_place";

/** A schedule as the API shows it: its definition, and how far it got. */
export const ScheduleDocument = z
  .strictObject({
    ...definitionFields,
    ...scheduleFields,
    last_run_state: RunStateField.nullable(),
    last_backfill_state: BackfillStateField.nullable(),
    /** Under `buffer_one`, the newest time that waits for the run to end. */
    waiting_for: InstantText.nullable(),
  })
  .meta({ id: "Schedule" });
export type ScheduleDocument = z.infer<typeof ScheduleDocument>;

/** What a time of a schedule came to. */
export const TickStatusField = z.enum(["triggered", "skipped", "failed"]);

/** Most partition keys that a tick is shown with. */
export const TICK_KEYS_SHOWN_MAX = 100;

/** A decided time of a schedule as the API shows it, or several in a row that were skipped. */
export const TickDocument = z
  .strictObject({
    schedule_id: z.string(),
    pos: Count,
    /** Null for several in a row. */
    tick_id: z.string().nullable(),
    scheduled_for: InstantText,
    /** The last of several; the same as `scheduled_for` of one. */
    through: InstantText,
    count: Count,
    /** Whether a person asked for it. */
    manual: z.boolean(),
    status: TickStatusField,
    reason: SkipReason.nullable(),
    error: FailureField.nullable(),
    run_key: z.string().nullable(),
    run_id: z.string().nullable(),
    run_state: RunStateField.nullable(),
    backfill_id: z.string().nullable(),
    backfill_state: BackfillStateField.nullable(),
    /** The assets that the schedule was for then; null for several in a row. */
    asset_selection: z.array(z.string()).nullable(),
    /** The first of them. */
    partition_keys: z.array(z.string()).max(TICK_KEYS_SHOWN_MAX).nullable(),
    partition_count: Count.nullable(),
    stale_reasons: StaleReasons.nullable(),
    definition_version: Count,
    decided_at: InstantText,
  })
  .meta({ id: "ScheduleTick" });
export type TickDocument = z.infer<typeof TickDocument>;

/** A time to come, as a person reads it. */
export const NextTimeDocument = z
  .strictObject({
    scheduled_for: InstantText,
    /** When it is acted on: later by the schedule's own share of its jitter. */
    due_at: InstantText,
    /** What the clock of the time zone shows then, and how far that is ahead of UTC. */
    local_time: z.string(),
    utc_offset: z.string(),
    /**
     * `gap`: it was due while the clock jumped, and comes at the first instant after; `overlap`: the
     * clock shows this time twice.
     */
    change: z.enum(["gap", "overlap"]).nullable(),
  })
  .meta({ id: "NextTime" });
export type NextTimeDocument = z.infer<typeof NextTimeDocument>;

const SCHEDULES_PATH = `${ORCHESTRATION_PATH}/schedules`;
const SCHEDULE_PATH = `${SCHEDULES_PATH}/{schedule_id}`;

const { name, ...definition } = ScheduleSpec.omit({ kind: true }).shape;

const bounds = {
  starts_at: QueryInstant.nullable().default(null),
  ends_at: QueryInstant.nullable().default(null),
};

/** A wish for a schedule. */
export const CreateScheduleBody = z
  .strictObject({ ...clientRequestId, name, ...definition, ...bounds })
  .meta({ id: "CreateSchedule" });
export type CreateScheduleBody = z.infer<typeof CreateScheduleBody>;

/** The whole definition of a schedule that takes the place of the one there is. */
export const UpdateScheduleBody = z
  .strictObject({
    ...expectation,
    /** Its own, which cannot change. */
    name: name.optional(),
    ...definition,
    ...bounds,
  })
  .meta({ id: "UpdateSchedule" });

const times = { count: z.int().min(1).max(1_000).default(10) };

/** Times to look at before there is a schedule. */
export const PreviewTimesBody = z
  .strictObject({
    cron: definition.cron,
    timezone: definition.timezone,
    ...times,
    /** Only times after this; now unless told. */
    after: QueryInstant.optional(),
    ...bounds,
  })
  .meta({ id: "PreviewTimes" });

const NextTimes = z
  .strictObject({ timezone: z.string(), items: z.array(NextTimeDocument), pos: Count })
  .meta({ id: "NextTimes" });
export type NextTimes = z.infer<typeof NextTimes>;

const named = { schedule_id: z.string(), state: ScheduleStateField };

/** What making, changing or deleting a schedule answers. */
export const DefinedSchedule = z
  .strictObject({ ...definedAnswer, ...named })
  .meta({ id: "DefinedSchedule" });
export type DefinedSchedule = z.infer<typeof DefinedSchedule>;

/** What pausing or resuming a schedule answers. */
export const ScheduleTransition = z
  .strictObject({ ...entityAnswer, ...named })
  .meta({ id: "ScheduleTransition" });
export type ScheduleTransition = z.infer<typeof ScheduleTransition>;

/** What a tick out of turn came to. */
export const TriggeredSchedule = z
  .strictObject({
    ...accepted,
    schedule_id: z.string(),
    tick_id: z.string(),
    run_key: z.string().nullable(),
    run_id: z.string().nullable(),
    backfill_id: z.string().nullable(),
  })
  .meta({ id: "TriggeredSchedule" });
export type TriggeredSchedule = z.infer<typeof TriggeredSchedule>;

const params = z.strictObject({
  schedule_id: EntityRef.describe("The id of the schedule, or its name"),
});

/** What the API can do with schedules. */
export const SCHEDULE_OPERATIONS = {
  createSchedule: {
    method: "POST",
    path: SCHEDULES_PATH,
    summary: "Creates a schedule; it never fires for the past",
    verb: "write",
    body: CreateScheduleBody,
    aliases: SCHEDULE_ALIASES,
    bodyBytesMax: DOCUMENT_BYTES_MAX,
    answer: DefinedSchedule,
    status: 202,
    creates: true,
    keyField: "client_request_id",
  },
  previewTimes: {
    method: "POST",
    path: `${SCHEDULES_PATH}/preview`,
    summary: "Shows when a cron expression would fire, with clock changes",
    verb: "read",
    body: PreviewTimesBody,
    aliases: SCHEDULE_ALIASES,
    answer: NextTimes,
    status: 200,
  },
  listSchedules: {
    method: "GET",
    path: SCHEDULES_PATH,
    summary: "Lists schedules by name; a page may be short and still have a next",
    verb: "read",
    query: z.strictObject({
      ...pageQuery,
      /** ACTIVE and PAUSED unless told. */
      status: commaList(ScheduleStateField).optional(),
      /** Only those that ask for this asset. */
      asset: AssetKey.optional(),
    }),
    answer: pageOf(ScheduleDocument),
    status: 200,
  },
  getSchedule: {
    method: "GET",
    path: SCHEDULE_PATH,
    summary: "Shows a schedule",
    verb: "read",
    params,
    query: z.strictObject(readQuery),
    answer: ScheduleDocument,
    status: 200,
  },
  updateSchedule: {
    method: "PUT",
    path: SCHEDULE_PATH,
    summary: "Replaces the definition of a schedule; times up to now stay as they were decided",
    verb: "write",
    params,
    body: UpdateScheduleBody,
    aliases: SCHEDULE_ALIASES,
    bodyBytesMax: DOCUMENT_BYTES_MAX,
    answer: DefinedSchedule,
    status: 202,
  },
  deleteSchedule: {
    method: "DELETE",
    path: SCHEDULE_PATH,
    summary: "Deletes a schedule; its ticks and runs stay",
    verb: "write",
    params,
    query: z.strictObject(expectationQuery),
    answer: DefinedSchedule,
    status: 202,
  },
  listTicks: {
    method: "GET",
    path: `${SCHEDULE_PATH}/ticks`,
    summary: "Lists the decided times of a schedule, newest first",
    verb: "read",
    params,
    query: z.strictObject({
      ...pageQuery,
      /** By the nominal time. */
      ...timeQuery,
      status: commaList(TickStatusField).optional(),
      reason: commaList(SkipReason).optional(),
      manual: QueryFlag.optional(),
    }),
    answer: pageOf(TickDocument),
    status: 200,
  },
  listNextTimes: {
    method: "GET",
    path: `${SCHEDULE_PATH}/next`,
    summary: "Lists the times to come of a schedule, with clock changes",
    verb: "read",
    params,
    query: z.strictObject({
      ...readQuery,
      count: z.coerce.number<number>().int().min(1).max(1_000).default(10),
      /** Only times after this; now unless told. */
      after: QueryInstant.optional(),
    }),
    answer: NextTimes,
    status: 200,
  },
  triggerSchedule: {
    method: "POST",
    path: `${SCHEDULE_PATH}/trigger`,
    summary: "Ticks a schedule now, also while it is paused",
    verb: "write",
    params,
    body: z.strictObject({
      request_id: z.string().min(1).max(200).optional(),
      ...expectation,
    }),
    bodyBytesMax: DOCUMENT_BYTES_MAX,
    answer: TriggeredSchedule,
    status: 202,
    creates: true,
    keyField: "request_id",
  },
  pauseSchedule: {
    method: "POST",
    path: `${SCHEDULE_PATH}/pause`,
    summary: "Stops a schedule; what it asked for goes on",
    verb: "write",
    params,
    body: TransitionBody,
    answer: ScheduleTransition,
    status: 202,
  },
  resumeSchedule: {
    method: "POST",
    path: `${SCHEDULE_PATH}/resume`,
    summary: "Lets a schedule act again; what it missed is skipped, or caught up if it says so",
    verb: "write",
    params,
    body: TransitionBody,
    answer: ScheduleTransition,
    status: 202,
  },
} as const satisfies Record<string, Operation>;
