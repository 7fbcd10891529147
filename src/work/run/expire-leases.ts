import type { NewEvent } from "../events.ts";
import { type Instant } from "../../kernel/instant.ts";
import type { Rows } from "../rows.ts";
import type { RunAssetRow, TaskRow } from "./rows.ts";
import type { Condition } from "../../kernel/table.ts";
import { type Context, RoomUsed } from "../decision.ts";
import { leaseExpired, needReported, RunClosings } from "./report.ts";
import { taskOf } from "./task-blocks.ts";
import { runningTasks } from "./tasks.ts";

/** A lease as far as its end matters. */
export type HeldLease = {
  lease_id: string;
  worker_id: string;
  expires_at: Instant;
  tasks: readonly { run_pos: number; task_key: number; attempt: number; deadline_at: Instant }[];
};

/** Most tasks that one decision takes back; the rest follow in the next. */
const TASKS_EXPIRED_MAX = 200;
/** Assets of runs that one look-up for tasks without a lease brings. */
const ASSETS_READ_MAX = 400;
/** What a row costs that the database passes over, as part of one that is read. */
const PASSED_COST = 1 / 20;

/** The tasks taken back, and the leases of which nothing is left. */
export type Expired = { events: NewEvent[]; ended: string[] };

/** Takes back the tasks of leases that ran out, and single tasks beyond their time. */
export function expireLeases(rows: Rows, leases: readonly HeldLease[], context: Context): Expired {
  const events: NewEvent[] = [];
  const ended: string[] = [];
  const closings = new RunClosings(rows, context);
  const used = new RoomUsed(context.room);
  for (const lease of leases) {
    const isOver = lease.expires_at <= context.now;
    const due = lease.tasks.filter((task) => isOver || task.deadline_at <= context.now);
    needReported(rows, due);
    for (const { run_pos, task_key, attempt } of due) {
      const task = taskOf(rows, run_pos, task_key);
      if (!isCurrent(task, attempt)) continue;
      const isRoom = events.length < TASKS_EXPIRED_MAX && closings.of(run_pos).takeRoom(used, task);
      if (!isRoom) return { events, ended };
      const error = isOver
        ? { class: "lease-lost", message: `worker ${lease.worker_id} was not heard of in time` }
        : { class: "timeout", message: "the attempt took longer than its timeout" };
      events.push(leaseExpired(closings, task, error, isOver));
    }
    if (isOver) ended.push(lease.lease_id);
  }
  return { events, ended };
}

function isCurrent(task: TaskRow | null, attempt: number): task is TaskRow {
  return task !== null && task.state === "RUNNING" && task.attempt === attempt;
}

/** An asset of a run, as the place from where a search goes on. */
export type AssetPlace = { run_pos: number; asset_index: number };

/** Tasks without a lease, and where to go on looking for more; null when that was all. */
export type Uncovered = { events: NewEvent[]; next: AssetPlace | null };

/**
 * Takes back running tasks that no lease covers: lost lease rows cost a re-execution, no more. Looks
 * at as many as there is room for, from the given place on.
 */
export function expireUncovered(
  rows: Rows,
  leases: readonly HeldLease[],
  after: AssetPlace | null,
  context: Context,
): Uncovered {
  const covered = new Set<string>();
  for (const { tasks } of leases) {
    for (const { run_pos, task_key, attempt } of tasks) {
      covered.add(`${run_pos}/${task_key}/${attempt}`);
    }
  }
  const assets = runningAssets(rows, after);
  const looked = withinRoom(assets, context);
  const events: NewEvent[] = [];
  const closings = new RunClosings(rows, context);
  const used = new RoomUsed(context.room);
  for (const task of runningTasks(rows, looked)) {
    const { run_pos, task_key, attempt } = task;
    if (covered.has(`${run_pos}/${task_key}/${attempt}`)) continue;
    const isRoom = events.length < TASKS_EXPIRED_MAX && closings.of(run_pos).takeRoom(used, task);
    // From the same place once more: what was taken back is not running then.
    if (!isRoom) return { events, next: after ?? BEFORE_ALL };
    const error = { class: "lease-lost", message: "its lease was lost" };
    events.push(leaseExpired(closings, task, error, true));
  }
  const last = looked.at(-1);
  const isAll = looked.length === assets.length && assets.length < ASSETS_READ_MAX;
  if (isAll || last === undefined) return { events, next: null };
  return { events, next: { run_pos: last.run_pos, asset_index: last.asset_index } };
}

const BEFORE_ALL: AssetPlace = { run_pos: 0, asset_index: 0 };

function runningAssets(rows: Rows, after: AssetPlace | null): RunAssetRow[] {
  const where: Condition[] = [{ cell: "running", is: ">", value: 0 }];
  if (after !== null) {
    const cells = ["run_pos", "asset_index"];
    where.push({ cells, is: "after", key: [after.run_pos, after.asset_index] });
  }
  const order = [{ cell: "run_pos" }, { cell: "asset_index" }];
  return rows.runAssets.find(where, order, ASSETS_READ_MAX);
}

/** The first of them, as far as their tasks may be looked through: at least one. */
function withinRoom(assets: readonly RunAssetRow[], context: Context): readonly RunAssetRow[] {
  const used = new RoomUsed(context.room);
  const end = assets.findIndex(
    ({ running, task_count }) => !used.take(running + task_count * PASSED_COST, 0),
  );
  return end < 0 ? assets : assets.slice(0, end);
}
