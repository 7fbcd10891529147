import { PawlError } from "../../kernel/errors.ts";
import type { NewEvent } from "../events.ts";
import { epochMsOf, instantOf } from "../../kernel/instant.ts";
import { IDEMPOTENCY_KEYS, manualTickIdOf, tickRunKey } from "../keys.ts";
import type { Rows } from "../rows.ts";
import type { ScheduleRow, ScheduleState } from "./rows.ts";
import { type Commanded, commandsAbout, type CommandTable, type Expecting } from "../command.ts";
import { type Context, contextAfter } from "../decision.ts";
import { commandedEntity, knownEntity } from "../definition/find-entity.ts";
import { SCHEDULE_RULES } from "../definition/rules.ts";
import { requestOfTick, scheduleSpec, scheduleTicked, skipDue, tickSchedule } from "./tick.ts";
import { nextTick, scheduleTimes } from "./times.ts";
import { staleRequestKey } from "./tick-request.ts";

/** A command about one schedule, by id or name; the version, when given, must be the current one. */
export type ScheduleCommand = Expecting & { schedule: string; reason?: string | undefined };

/** Where the schedule is after a command. */
export type ScheduleChanged = {
  schedule_id: string;
  name: string;
  state: ScheduleState;
  state_version: number;
};

const SCHEDULE: Commanded<ScheduleRow, ScheduleState, unknown, { schedule: string }> = {
  ...commandedEntity<ScheduleState>("schedule"),
  known: (rows, { schedule }) => knownEntity(rows, "schedule", schedule),
  factsOf: () => null,
};

const command = commandsAbout(SCHEDULE);

function changed(row: ScheduleRow, state: ScheduleState): ScheduleChanged {
  const { schedule_id, name } = row;
  return { schedule_id, name, state, state_version: row.state_version + 1 };
}

/** The event that stops a schedule. */
export function schedulePaused(
  { schedule_id }: ScheduleRow,
  state_version: number,
  reason: string | null,
): NewEvent {
  return {
    type: "SchedulePaused",
    idempotency_key: IDEMPOTENCY_KEYS.entityState("schedule", schedule_id, state_version),
    data: { schedule_id, state_version, reason },
  };
}

/** The events that start a paused schedule again. */
function resumeEvents(
  rows: Rows,
  row: ScheduleRow,
  { reason }: ScheduleCommand,
  context: Context,
): NewEvent[] {
  const spec = scheduleSpec(rows, row);
  const times = scheduleTimes(spec, row.schedule_id, context.hash);
  const missed = spec.catch_up_on_resume ? [] : skipDue(rows, row, spec, "paused", context);
  const decidedMs = spec.catch_up_on_resume
    ? epochMsOf(row.ticked_through)
    : Math.max(epochMsOf(row.ticked_through), epochMsOf(context.now) - times.offsetMs);
  const next = nextTick(times, decidedMs);
  return [...missed, scheduleResumed(row, row.state_version + 1, next, reason)];
}

/** The event that starts a schedule again. */
export function scheduleResumed(
  { schedule_id }: ScheduleRow,
  state_version: number,
  next: ReturnType<typeof nextTick>,
  reason?: string,
): NewEvent {
  return {
    type: "ScheduleResumed",
    idempotency_key: IDEMPOTENCY_KEYS.entityState("schedule", schedule_id, state_version),
    data: { schedule_id, state_version, next, ...(reason === undefined ? {} : { reason }) },
  };
}

/** What a person's tick came to. */
export type ScheduleTriggered = {
  schedule_id: string;
  tick_id: string;
  run_key: string | null;
  run_id: string | null;
  backfill_id: string | null;
};

function nothingToAskFor({ name }: ScheduleRow, reason: string): PawlError {
  const why =
    reason === "overlap" ? "a backfill is at it already" : "nothing it looked at is stale";
  return new PawlError("SELECTION_EMPTY", `Schedule ${name} has nothing to ask for now: ${why}.`, {
    details: { schedule: name, reason },
  });
}

/** A tick id of this second that nobody has used. */
function freeTickId(rows: Rows, scheduleId: string, nowMs: number): string {
  for (let n = 1; ; n++) {
    const tickId = manualTickIdOf(scheduleId, nowMs, n);
    const isTaken =
      rows.runKeys.get(tickRunKey(tickId)) !== null ||
      rows.requestKeys.get(staleRequestKey(scheduleId, tickId)) !== null;
    if (!isTaken) return tickId;
  }
}

/** Everything that can be asked of a schedule, but for its definition. */
export const SCHEDULE_COMMANDS = {
  trigger: command(SCHEDULE_RULES.trigger, (row, _: ScheduleCommand, rows, context) => {
    const spec = scheduleSpec(rows, row);
    const nowMs = epochMsOf(context.now);
    const tick_id = freeTickId(rows, row.schedule_id, nowMs);
    const scheduledForMs = Math.floor(nowMs / 1_000) * 1_000;
    const tick = { tick_id, scheduledForMs };
    const { said, request } = requestOfTick(rows, row, spec, tick, contextAfter(context, 1));
    if (request.length === 0) throw nothingToAskFor(row, said.reason ?? "nothing_stale");
    const event = scheduleTicked(row, spec, context, {
      tick_id,
      scheduled_for: instantOf(scheduledForMs),
      manual: true,
      next: null,
      ...said,
    });
    const { run_key = null, run_id = null, backfill_id = null } = said;
    const { schedule_id } = row;
    const result: ScheduleTriggered = { schedule_id, tick_id, run_key, run_id, backfill_id };
    return { events: [event, ...request], result };
  }),
  pause: command(SCHEDULE_RULES.pause, (row, said: ScheduleCommand, rows, context) => {
    const paused = schedulePaused(row, row.state_version + 1, said.reason ?? null);
    // Times that were due already are decided first.
    const events = [...tickSchedule(rows, row, context), paused];
    return { events, result: changed(row, "PAUSED") };
  }),
  resume: command(SCHEDULE_RULES.resume, (row, said: ScheduleCommand, rows, context) => ({
    events: resumeEvents(rows, row, said, context),
    result: changed(row, "ACTIVE"),
  })),
} satisfies CommandTable<unknown, ScheduleState>;

export const triggerSchedule = SCHEDULE_COMMANDS.trigger.decide;
export const pauseSchedule = SCHEDULE_COMMANDS.pause.decide;
export const resumeSchedule = SCHEDULE_COMMANDS.resume.decide;
