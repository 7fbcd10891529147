import type { NewEvent } from "../core/events/index.ts";
import { type Instant } from "../core/instant.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { TaskRow } from "../core/rows/run-rows.ts";
import type { Context } from "./decision.ts";
import { leaseExpired, needReported, RunClosings } from "./report-tasks.ts";
import { needTasks, tasksOfAsset } from "./run-lookup.ts";

/** A lease as far as its end matters. */
export type HeldLease = {
  lease_id: string;
  worker_id: string;
  expires_at: Instant;
  tasks: readonly { run_pos: number; task_key: number; attempt: number; deadline_at: Instant }[];
};

/** Most tasks that one decision takes back; the rest follow in the next. */
const TASKS_EXPIRED_MAX = 200;
/** Most assets of runs that are looked through for tasks without a lease. */
const ASSETS_READ_MAX = 100_000;
/** Assets of runs whose tasks are loaded at once. */
const ASSETS_LOADED = 400;

/** The tasks taken back, and the leases of which nothing is left. */
export type Expired = { events: NewEvent[]; ended: string[] };

/** Takes back the tasks of leases that ran out, and single tasks beyond their time. */
export function expireLeases(rows: Rows, leases: readonly HeldLease[], context: Context): Expired {
  const events: NewEvent[] = [];
  const ended: string[] = [];
  const closings = new RunClosings(rows, context);
  for (const lease of leases) {
    const isOver = lease.expires_at <= context.now;
    const due = lease.tasks.filter((task) => isOver || task.deadline_at <= context.now);
    needReported(rows, due);
    for (const { run_pos, task_key, attempt } of due) {
      const task = rows.tasks.get(run_pos, task_key);
      if (!isCurrent(task, attempt)) continue;
      if (events.length >= TASKS_EXPIRED_MAX) return { events, ended };
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

/** Takes back running tasks that no lease covers: lost lease rows cost a re-execution, no more. */
export function expireUncovered(
  rows: Rows,
  leases: readonly HeldLease[],
  context: Context,
): NewEvent[] {
  const covered = new Set<string>();
  for (const { tasks } of leases) {
    for (const { run_pos, task_key, attempt } of tasks) {
      covered.add(`${run_pos}/${task_key}/${attempt}`);
    }
  }
  const running = rows.runAssets.find(
    [{ cell: "running", is: ">", value: 0 }],
    [{ cell: "run_pos" }, { cell: "asset_index" }],
    ASSETS_READ_MAX,
  );
  const events: NewEvent[] = [];
  const closings = new RunClosings(rows, context);
  for (const [index, asset] of running.entries()) {
    // Each of them may have thousands of tasks, and most have one.
    if (index % ASSETS_LOADED === 0) needTasks(rows, running.slice(index, index + ASSETS_LOADED));
    for (const task of tasksOfAsset(rows, asset)) {
      const name = `${task.run_pos}/${task.task_key}/${task.attempt}`;
      if (task.state !== "RUNNING" || covered.has(name)) continue;
      if (events.length >= TASKS_EXPIRED_MAX) return events;
      const error = { class: "lease-lost", message: "its lease was lost" };
      events.push(leaseExpired(closings, task, error, true));
    }
  }
  return events;
}
