import { PawlError } from "../../kernel/errors.ts";
import type { NewEvent } from "../events.ts";
import type { TaskResultField } from "./events.ts";
import {
  repeatedResults,
  assetsOfRun,
  keysOfTask,
  needTasks,
  runRef,
  sizeOfTask,
  tasksOfAsset,
} from "./tasks.ts";
import { addMs } from "../../kernel/instant.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import type { Rows } from "../rows.ts";
import { ACTIVE_RUNS, type RunRow, type RunState, type TaskRow } from "./rows.ts";
import type { Key } from "../../kernel/table.ts";
import { type Context, type Decide, RoomUsed, DECISION_EVENTS_MAX } from "../decision.ts";
import { lengthOf } from "./request.ts";
import type { BackfillRow } from "../backfill/rows.ts";

/** How long running tasks have to stop by themselves before they are closed. */
export const CANCEL_GRACE_MS = 30_000;

/** Cancels a run: what waits is closed at once, what runs hears of it and is closed after a grace time. */
export function cancelRun(input: { run_id: string; reason?: string | undefined }): Decide<{
  run_id: string;
  state: RunState;
}> {
  return (rows, context) => {
    const run = knownRun(rows, input.run_id);
    if (run.finished_at !== null) {
      throw new PawlError(
        "STATE_ILLEGAL",
        `Run ${run.run_id} is ${run.state}; only a run that has not ended can be cancelled.`,
        { details: { run_id: run.run_id, state: run.state } },
      );
    }
    const result = { run_id: run.run_id, state: run.state };
    if (run.cancel_requested_at !== null) return { events: [], result };
    const reason = input.reason ?? `${context.principal} asked for it`;
    return { events: cancelEvents(rows, run, reason, context), result };
  };
}

/** The run, or the refusal that there is none. */
export function knownRun(rows: Rows, runId: string): RunRow {
  const run = rows.runs.find([{ cell: "run_id", is: "=", value: runId }], [], 1)[0];
  if (run !== undefined) return run;
  throw runNotFound(runId);
}

/** The refusal of a run that there is not. */
export function runNotFound(runId: string): PawlError {
  return new PawlError(
    "RUN_NOT_FOUND",
    `There is no run ${JSON.stringify(runId)}. \`pawl run list\` shows those there are.`,
    { details: { run_id: runId } },
  );
}

/** Has loaded what cancelling these runs reads, with one load of each kind for all of them. */
export function needForCancel(rows: Rows, runs: readonly RunRow[]): void {
  const keys = runs.flatMap(({ run_pos, asset_selection }) =>
    asset_selection.map((_, index): Key => [run_pos, index]),
  );
  rows.runAssets.need(keys);
  needTasks(
    rows,
    keys.flatMap((key) => rows.runAssets.get(...key) ?? []),
  );
}

/** The events that ask a run to stop and close what has not started. */
export function cancelEvents(
  rows: Rows,
  run: RunRow,
  reason: string,
  context: Context,
): NewEvent[] {
  const events: NewEvent[] = [
    {
      type: "RunCancelRequested",
      idempotency_key: IDEMPOTENCY_KEYS.runCancel(run.run_id),
      data: { ...runRef(run), reason, deadline_at: addMs(context.now, CANCEL_GRACE_MS) },
    },
  ];
  const closed = closeTasks(rows, run, (task) => task.state !== "RUNNING", reason, context);
  return closed === null ? events : [...events, closed];
}

/**
 * The event that closes, as cancelled, the open tasks of a run that `picks` picks; of those that run,
 * as many as there is room for.
 */
export function closeTasks(
  rows: Rows,
  run: RunRow,
  picks: (task: TaskRow) => boolean,
  reason: string,
  context: Context,
): NewEvent | null {
  const assets = assetsOfRun(rows, run);
  const results: TaskResultField[] = [];
  const used = new RoomUsed(context.room);
  for (const asset of assets) {
    for (const task of tasksOfAsset(rows, asset)) {
      if (task.finished_at !== null || !picks(task)) continue;
      // Only what runs names its partitions, each of which has a row.
      const keys = task.state === "RUNNING" ? keysOfTask(run, asset, task) : [];
      if (keys.length > 0 && !used.take(keys.length, lengthOf(keys))) continue;
      results.push({
        task_key: task.task_key,
        attempt: task.attempt,
        asset_index: asset.asset_index,
        asset_key: asset.asset_key,
        outcome: "CANCELLED",
        partition_keys: keys,
        partitions: sizeOfTask(run, asset, task),
        code_version: null,
        error: { class: "cancelled", message: reason },
      });
    }
  }
  if (results.length === 0) return null;
  return {
    type: "TasksFinished",
    // Not "finished": a task that waits for its next attempt has finished this one already.
    idempotency_key: IDEMPOTENCY_KEYS.tasks(context.hash, run.run_id, results, "closed"),
    data: {
      ...runRef(run),
      assets: assets.map(({ asset_index, pool }) => ({ asset_index, pool })),
      results: repeatedResults(results),
    },
  };
}

/** Most runs that one decision looks at: the row of a run holds all keys of its partitions. */
const RUNS_READ_MAX = 100;

/**
 * Cancels runs of a backfill that nobody has cancelled yet, as many as one decision may hold; the
 * rest is for the next ones.
 */
export function cancelActiveRuns(rows: Rows, backfill: BackfillRow, context: Context): NewEvent[] {
  const where = [
    { cell: "backfill_id", is: "=", value: backfill.backfill_id },
    ACTIVE_RUNS,
    { cell: "cancel_requested_at", is: "null" },
  ] as const;
  const runs = rows.runs.find(where, [{ cell: "run_pos" }], RUNS_READ_MAX);
  const used = new RoomUsed(context.room);
  const reason = `backfill ${backfill.backfill_id} was cancelled`;
  const events: NewEvent[] = [];
  for (const run of runs) {
    if (!used.take(run.tasks_total, 0)) break;
    const cancelled = cancelEvents(rows, run, reason, context);
    // One place is left for the change of state that may come first.
    if (events.length + cancelled.length > DECISION_EVENTS_MAX - 1) break;
    events.push(...cancelled);
  }
  return events;
}
