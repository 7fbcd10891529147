import type { FoldedRuns } from "../kind.ts";
import { assert, present } from "../../kernel/errors.ts";
import type { ScheduleSpec } from "../definition/spec.ts";
import type { EventData } from "../events.ts";
import type { Instant } from "../../kernel/instant.ts";
import type { Rows } from "../rows.ts";
import type { ScheduleRow } from "./rows.ts";
import { entitySubject } from "../keys.ts";
import type { Folding, Recorded, Touch } from "../fold.ts";

type Entry = EventData<"DefinitionsPublished">["specs"][number];

/** Makes or changes the schedule that a publish is about; all its times so far are decided. */
export function publishSchedule(
  rows: Rows,
  { spec_hash, entity }: Entry,
  spec: ScheduleSpec,
  { data, pos, occurred_at }: Recorded<"DefinitionsPublished">,
): void {
  const { id, next } = present(entity ?? null, "a schedule has an id");
  const before = rows.schedules.get(id);
  assert(before?.state !== "DELETED", `${spec.name} is not deleted when it is published`);
  const published = {
    spec_hash,
    origin: data.origin,
    definition_version: data.definition_version,
    overlap: spec.overlap,
    activated_at: occurred_at,
    row_version: pos,
  };
  if (before !== null) {
    const through = later(before.ticked_through, occurred_at);
    const state_version = before.state_version + 1;
    putSchedule(
      rows,
      { ...before, ...published, state_version, ticked_through: through, stale_place: null },
      next,
    );
    return;
  }
  putSchedule(
    rows,
    {
      ...published,
      schedule_id: id,
      name: spec.name,
      state: spec.enabled ? "ACTIVE" : "PAUSED",
      state_version: 1,
      reason: null,
      paused_at: spec.enabled ? null : occurred_at,
      ticked_through: occurred_at,
      last_scheduled_for: null,
      last_tick_id: null,
      last_run_key: null,
      last_run_id: null,
      last_backfill_id: null,
      next_scheduled_for: null,
      next_due_at: null,
      due_at: null,
      active_runs: 0,
      last_run_ended_at: null,
      ticks_triggered: 0,
      ticks_skipped: 0,
      ticks_failed: 0,
      stale_place: null,
      created_at: occurred_at,
      created_pos: pos,
    },
    next,
  );
}

/** Ends the schedule that a publish removes; what it did stays. */
export function removeSchedule(rows: Rows, id: string, pos: number): void {
  const row = scheduleOf(rows, id);
  assert(row.state !== "DELETED", `${row.name} is deleted once`);
  const state_version = row.state_version + 1;
  putSchedule(rows, { ...row, state: "DELETED", state_version, row_version: pos }, null);
}

/** Runs of schedules, which are counted in, and out again when they end. */
export const SCHEDULE_RUNS: FoldedRuns = {
  touchesAsked: ({ trigger_source_ref: source }) =>
    source.type === "schedule" ? [["schedules", [source.schedule_id]]] : [],
  touchesEnded: ({ schedule_id }) =>
    schedule_id === undefined ? [] : [["schedules", [schedule_id]]],
  queued(rows, { data: { trigger_source_ref: source } }) {
    if (source.type !== "schedule") return;
    const row = scheduleOf(rows, source.schedule_id);
    putSchedule(rows, { ...row, active_runs: row.active_runs + 1 });
  },
  finished(rows, _run, { data: { schedule_id }, occurred_at }) {
    if (schedule_id === undefined) return;
    const row = scheduleOf(rows, schedule_id);
    assert(row.active_runs > 0, `${row.name} has a run when one ends`);
    putSchedule(rows, {
      ...row,
      active_runs: row.active_runs - 1,
      last_run_ended_at: occurred_at,
    });
  },
};

function later(one: Instant, other: Instant): Instant {
  return one > other ? one : other;
}

function scheduleOf(rows: Rows, id: string): ScheduleRow {
  return present(rows.schedules.get(id), `schedule ${id} exists`);
}

type Next = EventData<"ScheduleTicked">["next"];

/** Writes the row, with when it has to be looked at next. */
function putSchedule(rows: Rows, row: ScheduleRow, next?: Next): void {
  const times =
    next === undefined
      ? { next_scheduled_for: row.next_scheduled_for, next_due_at: row.next_due_at }
      : { next_scheduled_for: next?.scheduled_for ?? null, next_due_at: next?.due_at ?? null };
  const { next_scheduled_for } = times;
  assert(
    next_scheduled_for === null || next_scheduled_for > row.ticked_through,
    `${row.name} goes on after what is decided`,
  );
  // One that buffers decides nothing while its run goes on; the run's end wakes it.
  const waits = row.overlap === "buffer_one" && row.active_runs > 0;
  const due_at = row.state === "ACTIVE" && !waits ? times.next_due_at : null;
  rows.schedules.put({ ...row, ...times, due_at });
}

const COUNTERS = {
  triggered: "ticks_triggered",
  skipped: "ticks_skipped",
  failed: "ticks_failed",
} as const;

function touches({ schedule_id }: { schedule_id: string }): Touch[] {
  return [["schedules", [schedule_id]]];
}

function subject({ schedule_id }: { schedule_id: string }): number {
  return entitySubject(schedule_id);
}

const scheduleTicked: Folding<"ScheduleTicked"> = {
  subject,
  touches,
  apply(rows, { data, pos, occurred_at }) {
    const row = scheduleOf(rows, data.schedule_id);
    rows.scheduleTicks.insert({
      schedule_id: data.schedule_id,
      pos,
      tick_id: data.tick_id,
      scheduled_for: data.scheduled_for,
      through: data.scheduled_for,
      count: 1,
      manual: data.manual ? 1 : 0,
      status: data.status,
      reason: data.reason,
      error: data.error,
      run_key: data.run_key,
      run_id: data.run_id,
      backfill_id: data.backfill_id,
      partition_keys: data.partition_selection,
      stale_reasons: data.stale?.reasons ?? null,
      definition_version: data.definition_version,
      decided_at: occurred_at,
    });
    const counter = COUNTERS[data.status];
    const ticked = {
      ...row,
      [counter]: row[counter] + 1,
      last_tick_id: data.tick_id,
      last_run_key: data.run_key ?? row.last_run_key,
      last_run_id: data.run_id ?? row.last_run_id,
      last_backfill_id: data.backfill_id ?? row.last_backfill_id,
      stale_place: data.stale === null ? row.stale_place : data.stale.next,
      row_version: pos,
    };
    if (data.manual) {
      putSchedule(rows, ticked);
      return;
    }
    assert(data.scheduled_for > row.ticked_through, `${data.tick_id} was not decided before`);
    putSchedule(
      rows,
      { ...ticked, ticked_through: data.scheduled_for, last_scheduled_for: data.scheduled_for },
      data.next,
    );
  },
};

const scheduleTicksSkipped: Folding<"ScheduleTicksSkipped"> = {
  subject,
  touches,
  apply(rows, { data, pos, occurred_at }) {
    const row = scheduleOf(rows, data.schedule_id);
    assert(data.from > row.ticked_through, "times are skipped once");
    assert(data.from <= data.through, "a stretch of times runs forward");
    rows.scheduleTicks.insert({
      schedule_id: data.schedule_id,
      pos,
      tick_id: null,
      scheduled_for: data.from,
      through: data.through,
      count: data.count,
      manual: 0,
      status: "skipped",
      reason: data.reason,
      error: null,
      run_key: null,
      run_id: null,
      backfill_id: null,
      partition_keys: null,
      stale_reasons: null,
      definition_version: data.definition_version,
      decided_at: occurred_at,
    });
    const ticks_skipped = row.ticks_skipped + data.count;
    putSchedule(
      rows,
      { ...row, ticks_skipped, ticked_through: data.through, row_version: pos },
      data.next,
    );
  },
};

const schedulePaused: Folding<"SchedulePaused"> = {
  subject,
  touches,
  apply(rows, { data, pos, occurred_at }) {
    const row = scheduleOf(rows, data.schedule_id);
    assert(row.state === "ACTIVE", `${row.name} is active when it is paused`);
    assert(data.state_version === row.state_version + 1, "state versions grow by one");
    const { state_version, reason } = data;
    putSchedule(rows, {
      ...row,
      state: "PAUSED",
      state_version,
      reason,
      paused_at: occurred_at,
      row_version: pos,
    });
  },
};

const scheduleResumed: Folding<"ScheduleResumed"> = {
  subject,
  touches,
  apply(rows, { data, pos }) {
    const row = scheduleOf(rows, data.schedule_id);
    assert(row.state === "PAUSED", `${row.name} is paused when it is resumed`);
    assert(data.state_version === row.state_version + 1, "state versions grow by one");
    const { state_version } = data;
    putSchedule(
      rows,
      { ...row, state: "ACTIVE", state_version, reason: null, paused_at: null, row_version: pos },
      data.next,
    );
  },
};

/** The foldings of schedules. */
export const SCHEDULE_FOLDS = {
  ScheduleTicked: scheduleTicked,
  ScheduleTicksSkipped: scheduleTicksSkipped,
  SchedulePaused: schedulePaused,
  ScheduleResumed: scheduleResumed,
};
