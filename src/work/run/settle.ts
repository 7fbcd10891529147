import { countIntervals, intervalsOf } from "../../kernel/intervals.ts";
import type { Context, Controller } from "../decision.ts";
import type { EventData, NewEvent } from "../events.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import type { ControlledWork, WorkKind } from "../kind.ts";
import { kindOf } from "../kinds.ts";
import type { Rows } from "../rows.ts";
import { closeTasks } from "./cancel.ts";
import { ACTIVE_RUNS, type RunAssetRow, type RunRow } from "./rows.ts";
import { assetsOfRun, outcomes, runRef, tasksOfAsset } from "./tasks.ts";

/** Most runs that one look-up brings: the row of a run holds all keys of its partitions. */
const RUNS_PAGE = 100;

/** Ends a run whose tasks have all ended, and closes what a cancel could not stop in time. */
export const settleRun: Controller<RunRow> = (rows, run, context) => {
  if (run.finished_at !== null) return [];
  const open = run.tasks_waiting + run.tasks_ready + run.tasks_running + run.tasks_retry_wait;
  if (open === 0) return finishRun(rows, run, context);
  return closeOverdue(rows, run, context);
};

const WORK: ControlledWork<"runs"> = {
  table: "runs",
  advance: settleRun,
  weight: 15,
  rounds: 1,
  open: [
    {
      where: [
        ACTIVE_RUNS,
        { cell: "tasks_ready", is: "=", value: 0 },
        { cell: "tasks_running", is: "=", value: 0 },
        // What waits goes on by its time, or when what it waits for is there.
        { cell: "tasks_waiting", is: "=", value: 0 },
        { cell: "tasks_retry_wait", is: "=", value: 0 },
      ],
    },
  ],
  page: RUNS_PAGE,
  due: {
    cell: "cancel_deadline_at",
    where: [ACTIVE_RUNS],
    order: [{ cell: "run_pos" }],
    limit: RUNS_PAGE,
    hasTimer: false,
  },
  changed(run, now) {
    const open = run.tasks_waiting + run.tasks_ready + run.tasks_running + run.tasks_retry_wait;
    const isOverdue = run.cancel_deadline_at !== null && run.cancel_deadline_at <= now;
    return run.finished_at === null && (open === 0 || isOverdue) ? [run.run_pos] : [];
  },
};

/** How runs end. */
export const RUN: Pick<WorkKind, "name" | "work"> = { name: "run", work: WORK };

function closeOverdue(rows: Rows, run: RunRow, context: Context): NewEvent[] {
  if (run.cancel_deadline_at === null || run.cancel_deadline_at > context.now) return [];
  const reason = run.cancel_reason ?? "cancelled";
  const closed = closeTasks(rows, run, () => true, reason, context);
  return closed === null ? [] : [closed];
}

type Finished = EventData<"RunFinished">;

function finishRun(rows: Rows, run: RunRow, context: Context): NewEvent[] {
  const assets = assetsOfRun(rows, run);
  const lists = { failed: [], cancelled: [], skipped: [] } as Pick<
    Finished,
    "failed" | "cancelled" | "skipped"
  >;
  const counts = { succeeded: 0, failed: 0, cancelled: 0, skipped: 0 };
  const clean = run.tasks_succeeded === run.tasks_total;
  for (const asset of assets) {
    const pairs = countOfAsset(run, asset);
    counts.succeeded += pairs;
    const tasks = clean && asset.batch === 0 ? [] : tasksOfAsset(rows, asset);
    if (tasks.every((task) => task.state === "SUCCEEDED" && task.skipped === null)) continue;
    const places = outcomes(run, asset, tasks);
    for (const outcome of ["failed", "cancelled", "skipped"] as const) {
      const own = places[outcome];
      if (own.length === 0) continue;
      counts.succeeded -= own.length;
      counts[outcome] += own.length;
      const indexes = intervalsOf(own).map(([from, to]): [number, number] => [from, to]);
      lists[outcome].push({ asset: asset.asset_index, indexes });
    }
  }
  const outcome =
    run.tasks_cancelled > 0 ? "CANCELLED" : counts.failed > 0 ? "FAILED" : "SUCCEEDED";
  const ended = { run, assets, outcome, failed: lists.failed } as const;
  const { fields, after = [] } = kindOf(run)?.runs.ended?.(rows, ended, context) ?? {};
  const finished: NewEvent = {
    type: "RunFinished",
    idempotency_key: IDEMPOTENCY_KEYS.run(run.run_id, "finished"),
    data: {
      ...runRef(run),
      outcome,
      asset_count: assets.length,
      task_count: run.tasks_total,
      counts,
      ...lists,
      splits: false,
      ...fields,
    },
  };
  return [finished, ...after];
}

/** How many partitions of the run an asset has; one for an asset without partitions. */
function countOfAsset(run: RunRow, asset: RunAssetRow): number {
  if (run.partition_keys === null) return 1;
  if (asset.partition_indexes === null) return run.partition_keys.length;
  return countIntervals(asset.partition_indexes);
}
