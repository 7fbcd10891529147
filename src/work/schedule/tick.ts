import type { ScheduleSpec } from "../definition/spec.ts";
import { PawlError, present } from "../../kernel/errors.ts";
import { eventBody } from "../envelope.ts";
import type { EventData, NewEvent } from "../events.ts";
import type { SkipReason } from "./events.ts";
import { isTerminalBackfill } from "../backfill/fold.ts";
import { sizeOfRun } from "../run/tasks.ts";
import { epochMsOf, type Instant, instantOf } from "../../kernel/instant.ts";
import { IDEMPOTENCY_KEYS, tickIdOf, tickRunKey } from "../keys.ts";
import type { Rows } from "../rows.ts";
import type { ScheduleRow } from "./rows.ts";
import { type Context, contextAfter, RoomUsed } from "../decision.ts";
import {
  catchUp,
  dueStretch,
  nextTick,
  type ScheduleTimes,
  scheduleTimes,
  type TimeStretch,
  windowMsOf,
} from "./times.ts";
import { staleRequest, tickRunRequest } from "./tick-request.ts";

/** Up to so many times in a row are skipped by an event each; more share one. */
const SKIPS_LISTED_MAX = 10;

/** The spec under which a schedule ticks. */
export function scheduleSpec(rows: Rows, row: ScheduleRow): ScheduleSpec {
  const { body } = present(rows.specs.get(row.spec_hash), `spec ${row.spec_hash} is kept`);
  if (body.kind === "schedule") return body;
  throw new PawlError("SCHEDULE_NOT_FOUND", `${row.spec_hash} is no schedule.`);
}

/** Has everything loaded at once that ticks of these schedules will ask for. */
export function needForTicks(rows: Rows, scheduleIds: readonly string[]): void {
  rows.schedules.need(scheduleIds.map((id) => [id]));
  const due = scheduleIds.flatMap((id) => rows.schedules.get(id) ?? []);
  rows.specs.need(due.map(({ spec_hash }) => [spec_hash]));
  rows.runKeys.need(
    due.flatMap(({ schedule_id, next_scheduled_for }) =>
      next_scheduled_for === null
        ? []
        : [[tickRunKey(tickIdOf(schedule_id, epochMsOf(next_scheduled_for)))]],
    ),
  );
}

/** Decides every time of an active schedule that is due: triggered, failed, or skipped with a reason. */
export function tickSchedule(rows: Rows, row: ScheduleRow, context: Context): NewEvent[] {
  if (row.state !== "ACTIVE") return [];
  const spec = scheduleSpec(rows, row);
  return tickDue(rows, row, spec, scheduleTimes(spec, row.schedule_id, context.hash), context);
}

/**
 * Decides every time of a schedule up to now, before it changes or goes: also what its jitter would
 * have put off. Past the budget of events, what is left is skipped by one event.
 */
export function closeTimes(
  rows: Rows,
  row: ScheduleRow,
  context: Context,
  isInBudget: boolean,
): NewEvent[] {
  const spec = { ...scheduleSpec(rows, row), jitter_ms: 0 };
  const listedMax = isInBudget ? SKIPS_LISTED_MAX : 1;
  if (row.state === "PAUSED") return skipDue(rows, row, spec, "paused", context, listedMax);
  if (row.state !== "ACTIVE") return [];
  if (!isInBudget) return skipDue(rows, row, spec, "catchup_limit", context, listedMax);
  const ticked = tickDue(
    rows,
    row,
    spec,
    scheduleTimes(spec, row.schedule_id, context.hash),
    context,
  );
  // What waits for a run to end, or for room, would wait under a definition that is gone.
  const waiting = { ...row, ticked_through: tickedThrough(ticked) ?? row.ticked_through };
  const reason = spec.overlap === "buffer_one" ? "overlap" : "catchup_limit";
  return [...ticked, ...skipDue(rows, waiting, spec, reason, context)];
}

function tickedThrough(events: readonly NewEvent[]): Instant | null {
  const last = events.findLast(
    ({ type }) => type === "ScheduleTicked" || type === "ScheduleTicksSkipped",
  );
  if (last?.type === "ScheduleTicked") return last.data.scheduled_for;
  return last?.type === "ScheduleTicksSkipped" ? last.data.through : null;
}

function tickDue(
  rows: Rows,
  row: ScheduleRow,
  spec: ScheduleSpec,
  times: ScheduleTimes,
  context: Context,
): NewEvent[] {
  const nowMs = epochMsOf(context.now);
  const due = dueStretch(times, epochMsOf(row.ticked_through), nowMs);
  if (due.throughMs <= due.afterMs) return [];
  const ticker = new Ticker(rows, row, spec, times, context);
  if (spec.overlap === "buffer_one") tickBuffered(ticker, row, due, nowMs);
  else {
    const { tooOld, tooMany, taken } = catchUp(times, spec, due, nowMs);
    ticker.skip(tooOld, "catchup_window");
    ticker.skip(tooMany, "catchup_limit");
    for (const at of taken) {
      ticker.tick(at);
      // What is left stays due.
      if (ticker.isFull) break;
    }
  }
  return ticker.events;
}

/**
 * One run at a time, and at most one time waits for it: of those that came while the last run went
 * on only the newest is acted on. What is due besides waits for the run that is asked for here.
 */
function tickBuffered(ticker: Ticker, row: ScheduleRow, due: TimeStretch, nowMs: number): void {
  if (row.active_runs > 0) return;
  const { times, spec } = ticker;
  const newest = newestWaiting(times, row, due, nowMs - windowMsOf(spec));
  if (newest !== null) {
    ticker.skip({ afterMs: due.afterMs, throughMs: newest - 1 }, "overlap");
    ticker.tick(newest);
  }
  if (ticker.hasRun) return;
  // A request that was refused is nothing to wait for: the next time has its turn.
  const left = { ...due, afterMs: newest ?? due.afterMs };
  const { tooOld, tooMany, taken } = catchUp(times, spec, left, nowMs);
  ticker.skip(tooOld, "catchup_window");
  ticker.skip(tooMany, "catchup_limit");
  for (const at of taken) if (!ticker.hasRun) ticker.tick(at);
}

/**
 * The newest due time that came before the last run ended. However long it waited for that, it has
 * been missed when the run ended before the given time: the schedule was paused meanwhile.
 */
function newestWaiting(
  times: ScheduleTimes,
  row: ScheduleRow,
  due: TimeStretch,
  missedMs: number,
): number | null {
  if (row.last_run_ended_at === null) return null;
  const endedMs = epochMsOf(row.last_run_ended_at);
  if (endedMs < missedMs) return null;
  const newest = times.cron.lastUpTo(Math.min(due.throughMs, endedMs - times.offsetMs));
  return newest !== null && newest > due.afterMs ? newest : null;
}

/** Skips all times up to now for one reason: what a pause or an edit does with what it leaves behind. */
export function skipDue(
  rows: Rows,
  row: ScheduleRow,
  spec: ScheduleSpec,
  reason: SkipReason,
  context: Context,
  listedMax?: number,
): NewEvent[] {
  const times = scheduleTimes(spec, row.schedule_id, context.hash);
  const nowMs = epochMsOf(context.now);
  const ticker = new Ticker(rows, row, spec, times, context);
  ticker.skip(dueStretch(times, epochMsOf(row.ticked_through), nowMs), reason, listedMax);
  return ticker.events;
}

type Ticked = EventData<"ScheduleTicked">;

/** Collects the events of one schedule's times, in order. */
class Ticker {
  readonly events: NewEvent[] = [];
  readonly times: ScheduleTimes;
  readonly spec: ScheduleSpec;
  readonly #rows: Rows;
  readonly #row: ScheduleRow;
  readonly #context: Context;
  readonly #used: RoomUsed;
  #isBusy: boolean;

  constructor(
    rows: Rows,
    row: ScheduleRow,
    spec: ScheduleSpec,
    times: ScheduleTimes,
    context: Context,
  ) {
    this.#rows = rows;
    this.#row = row;
    this.spec = spec;
    this.times = times;
    this.#context = context;
    this.#used = new RoomUsed(context.room);
    this.#isBusy = isBusy(rows, row);
  }

  /** Whether the runs that were asked for are all that one decision has room for. */
  get isFull(): boolean {
    return this.#used.isUp;
  }

  /** Whether a run was asked for. */
  get hasRun(): boolean {
    return this.events.some(({ type }) => type === "RunRequested");
  }

  /** Passes over all times in a stretch. */
  skip(
    { afterMs, throughMs }: TimeStretch,
    reason: SkipReason,
    listedMax = SKIPS_LISTED_MAX,
  ): void {
    if (throughMs <= afterMs) return;
    const { cron } = this.times;
    const count = cron.countBetween(afterMs, throughMs);
    if (count <= listedMax) {
      for (const at of cron.newestBetween(afterMs, throughMs, count)) this.#record(at, { reason });
      return;
    }
    const from = present(cron.nextAfter(afterMs), "a stretch with times has a first one");
    const through = present(cron.lastUpTo(throughMs), "a stretch with times has a last one");
    const { schedule_id, definition_version } = this.#row;
    this.events.push({
      type: "ScheduleTicksSkipped",
      idempotency_key: IDEMPOTENCY_KEYS.scheduleSkip(schedule_id, from, through),
      data: {
        schedule_id,
        from: instantOf(from),
        through: instantOf(through),
        count,
        reason,
        definition_version,
        next: nextTick(this.times, through),
      },
    });
  }

  /** Acts on one time. */
  tick(at: number): void {
    if (this.#overlaps) {
      this.#record(at, { reason: "overlap" });
      return;
    }
    const tick_id = tickIdOf(this.#row.schedule_id, at);
    try {
      const { said, request } = requestOfTick(
        this.#rows,
        this.#row,
        this.spec,
        { tick_id, scheduledForMs: at },
        contextAfter(this.#context, this.events.length + 1),
      );
      const ticked = [this.#ticked(at, said), ...request];
      // Refused when it is recorded, it would keep the schedule from ever getting past this time.
      for (const event of ticked) this.#used.add(tasksOf(event), eventBody(event).length);
      this.events.push(...ticked);
      if (request.length > 0) this.#isBusy = true;
    } catch (error) {
      if (!(error instanceof PawlError)) throw error;
      this.#record(at, { error: { class: error.code, message: error.message } });
    }
  }

  /** What is stale is looked for in the rows, where a backfill that is asked for here is not yet. */
  get #overlaps(): boolean {
    if (this.spec.overlap === "skip" && this.#isBusy) return true;
    return this.events.some(({ type }) => type === "BackfillCreated");
  }

  #record(at: number, said: Partial<Ticked>): void {
    this.events.push(this.#ticked(at, said));
  }

  #ticked(at: number, said: Partial<Ticked>): NewEvent {
    return scheduleTicked(this.#row, this.spec, this.#context, {
      tick_id: tickIdOf(this.#row.schedule_id, at),
      scheduled_for: instantOf(at),
      manual: false,
      next: nextTick(this.times, at),
      ...said,
    });
  }
}

/** The tasks that an event makes. */
function tasksOf(event: NewEvent): number {
  if (event.type !== "RunRequested") return 0;
  const { tasks, partition_selection } = event.data;
  return sizeOfRun(tasks, partition_selection?.length ?? 0).tasks;
}

/** Whether something that the schedule asked for is still going. */
export function isBusy(rows: Rows, row: ScheduleRow): boolean {
  if (row.active_runs > 0) return true;
  const asked = row.last_backfill_id === null ? [] : [row.last_backfill_id];
  // What crosses definitions is several backfills, one after the other.
  for (const id of asked) {
    const backfill = rows.backfills.get(id);
    if (backfill === null) continue;
    if (!isTerminalBackfill(backfill.state)) return true;
    asked.push(...backfill.followers);
  }
  return false;
}

/**
 * What a tick asks for: the events of the request, and what the tick says of it. The context is the
 * one after the tick.
 */
export function requestOfTick(
  rows: Rows,
  row: ScheduleRow,
  spec: ScheduleSpec,
  tick: { tick_id: string; scheduledForMs: number },
  context: Context,
): { said: Partial<Ticked>; request: readonly NewEvent[] } {
  if (spec.selection.type === "stale") {
    const { events, ...said } = staleRequest(rows, row, spec, spec.selection, tick, context);
    return { said, request: events };
  }
  const event = tickRunRequest(rows, row, spec, tick, context);
  const { run_key, run_id, request_fingerprint, asset_selection, partition_selection } = event.data;
  return {
    said: { run_key, run_id, request_fingerprint, asset_selection, partition_selection },
    request: [event],
  };
}

/** A decided time; triggered unless a reason or an error says otherwise. */
export function scheduleTicked(
  row: ScheduleRow,
  spec: ScheduleSpec,
  context: Context,
  said: Partial<Ticked> & Pick<Ticked, "tick_id" | "scheduled_for" | "manual" | "next">,
): NewEvent {
  const { reason = null, error = null } = said;
  return {
    type: "ScheduleTicked",
    idempotency_key: IDEMPOTENCY_KEYS.scheduleTick(said.tick_id),
    data: {
      schedule_id: row.schedule_id,
      definition_version: row.definition_version,
      spec_hash: row.spec_hash,
      zone_database: context.zoneDatabase,
      asset_selection: spec.asset_selection,
      partition_selection: null,
      status: error !== null ? "failed" : reason !== null ? "skipped" : "triggered",
      reason,
      error,
      run_key: null,
      run_id: null,
      request_fingerprint: null,
      backfill_id: null,
      stale: null,
      ...said,
    },
  };
}
