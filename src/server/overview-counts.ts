import type { OverviewCounts } from "../core/api/overview-documents.ts";
import { BACKFILLS } from "../core/rows/backfill-rows.ts";
import { DEFINITIONS } from "../core/rows/definition-rows.ts";
import { MOVES } from "../core/rows/move-rows.ts";
import { SCHEDULES } from "../core/rows/schedule-rows.ts";
import { SENSORS } from "../core/rows/sensor-rows.ts";
import { SPLITS } from "../core/rows/split-rows.ts";
import { SYNCS } from "../core/rows/sync-rows.ts";
import type { AnyTable, Condition } from "../core/rows/table.ts";
import type { Reader } from "../store/store.ts";
import { openTasks } from "./sample-gauges.ts";

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
