import { dueStretch, scheduleTimes } from "../controllers/schedule-times.ts";
import { scheduleSpec } from "../controllers/tick-schedule.ts";
import type { Context } from "../controllers/decision.ts";
import {
  type ScheduleDocument,
  TICK_KEYS_SHOWN_MAX,
  type TickDocument,
} from "../core/api/schedule-documents.ts";
import type { ScheduleSpec } from "../core/automation-specs.ts";
import type { EventData } from "../core/events/index.ts";
import { epochMsOf, type Instant, instantOf } from "../core/instant.ts";
import { NO_STALE_REASONS } from "../core/partitions/stale-reason.ts";
import { type BackfillRow, BACKFILLS } from "../core/rows/backfill-rows.ts";
import type { Rows } from "../core/rows/rows.ts";
import { type RunRow, RUNS } from "../core/rows/run-rows.ts";
import type { ScheduleRow, ScheduleTickRow } from "../core/rows/schedule-rows.ts";
import type { Key } from "../core/rows/table.ts";
import type { Reader } from "../store/store.ts";

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
      : ((await reader.find({
          table: RUNS,
          where: [{ cell: "run_id", is: "in", values: runIds }],
          order: [{ cell: "run_id" }],
          limit: runIds.length,
        })) as RunRow[]);
  const backfillKeys = keysOf(ticks.map(({ backfill_id }) => backfill_id));
  const backfills = (await reader.load(BACKFILLS, backfillKeys)) as BackfillRow[];
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
