import type { BackfillRow } from "../core/rows/backfill-rows.ts";
import type { RunRow } from "../core/rows/run-rows.ts";
import type { ScheduleTickRow } from "../core/rows/schedule-rows.ts";
import { TABLES } from "../core/rows/tables.ts";
import type { Reader } from "../store/store.ts";

const TICK_ID = /^([0-9A-HJKMNP-TV-Z]{26}):(?:manual:)?\d{1,15}(?::\d{1,6})?$/;

/** The decided time that a tick id names; null when it names none. */
export async function findTick(reader: Reader, tickId: string): Promise<ScheduleTickRow | null> {
  const scheduleId = TICK_ID.exec(tickId)?.[1];
  if (scheduleId === undefined) return null;
  const [tick] = (await reader.find({
    table: TABLES.scheduleTicks,
    where: [
      { cell: "schedule_id", is: "=", value: scheduleId },
      { cell: "tick_id", is: "=", value: tickId },
    ],
    order: [{ cell: "pos", descending: true }],
    limit: 1,
  })) as ScheduleTickRow[];
  return tick ?? null;
}

/** The position of the run or the backfill that a tick asked for; null when it asked for none. */
export async function requestOfTick(
  reader: Reader,
  tick: ScheduleTickRow,
): Promise<{ pos: number } | null> {
  if (tick.backfill_id !== null) {
    const [backfill] = (await reader.load(TABLES.backfills, [[tick.backfill_id]])) as BackfillRow[];
    return backfill === undefined ? null : { pos: backfill.created_pos };
  }
  if (tick.run_id === null) return null;
  const [run] = (await reader.find({
    table: TABLES.runs,
    where: [{ cell: "run_id", is: "=", value: tick.run_id }],
    order: [],
    limit: 1,
  })) as RunRow[];
  return run === undefined ? null : { pos: run.run_pos };
}
