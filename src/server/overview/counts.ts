import type { OverviewCounts } from "../../work/server-api.ts";
import { BACKFILLS } from "../../work/backfill/rows.ts";
import { DEFINITIONS } from "../../work/definition/rows.ts";
import { MOVES } from "../../work/move/rows.ts";
import { SCHEDULES } from "../../work/schedule/rows.ts";
import { SENSORS } from "../../work/sensor/rows.ts";
import { SPLITS } from "../../work/split/rows.ts";
import { SYNCS } from "../../work/sync/rows.ts";
import type { AnyTable, Condition } from "../../kernel/table.ts";
import type { Reader } from "../../store/store.ts";
import { openTasks } from "../sampler.ts";

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
