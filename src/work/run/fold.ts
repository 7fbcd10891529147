import { assert, present } from "../../kernel/errors.ts";
import { compareText } from "../../kernel/table.ts";
import type { Folding, Recorded, Touch } from "../fold.ts";
import { KINDS } from "../kinds.ts";
import type { Rows } from "../rows.ts";
import type { RunRef } from "../kind.ts";
import type { RunAssetRow, RunRow, TaskRow } from "./rows.ts";
import { deleteTasks, insertTasks } from "./task-blocks.ts";
import { type ExpandedTask, expandTasks, indexesOf, isWhole } from "./tasks.ts";

/** The rows of a run, and of what it is part of. */
export function touchesOfRun(ref: RunRef): Touch[] {
  const touches: Touch[] = [["runs", [ref.run_pos]]];
  for (const { runs } of KINDS) {
    const own = runs.touches?.(ref);
    if (own !== undefined) for (const touch of own) touches.push(touch);
  }
  return touches;
}

/** A run that an event is about, which therefore exists. */
export function runOf(rows: Rows, runPos: number): RunRow {
  return present(rows.runs.get(runPos), () => `run ${runPos} exists`);
}

const runRequested: Folding<"RunRequested"> = {
  subject: (_data, pos) => pos,
  touches: (data) => [
    ["runKeys", [data.run_key]],
    ...KINDS.flatMap(({ runs }) => runs.touchesAsked?.(data) ?? []),
  ],
  apply(rows, event) {
    const { data, pos } = event;
    const known = rows.runKeys.get(data.run_key);
    if (known !== null) {
      assert(
        known.request_fingerprint !== data.request_fingerprint,
        "an equal request is not recorded again",
      );
      rows.runKeyConflicts.insert({
        pos,
        run_key: data.run_key,
        run_id: known.run_id,
        run_pos: known.run_pos,
        request_fingerprint: known.request_fingerprint,
        conflicting_fingerprint: data.request_fingerprint,
        conflicting_event_id: event.event_id,
        detected_at: event.occurred_at,
      });
      return;
    }
    const { run_key, run_id, request_fingerprint } = data;
    rows.runKeys.put({ run_key, run_pos: pos, run_id, request_fingerprint });
    insertRun(rows, event);
    for (const { runs } of KINDS) runs.queued?.(rows, event);
  },
};

type RunRequest = Recorded<"RunRequested">;

function insertRun(rows: Rows, event: RunRequest): void {
  const { data } = event;
  const tasks = expandTasks(data.tasks, data.partition_selection?.length ?? 0);
  const counts = data.tasks.map(() => ({ tasks: 0, ready: 0 }));
  const taskRows: TaskRow[] = [];
  for (const task of tasks) {
    const count = present(counts[task.asset_index], "a task has its asset");
    count.tasks += 1;
    if (task.unmet.length === 0) count.ready += 1;
    taskRows.push(taskRow(event, task));
  }
  insertTasks(rows, event.pos, taskRows);
  let firstTask = 0;
  let ready = 0;
  for (const [index, count] of counts.entries()) {
    rows.runAssets.insert(assetRow(event, index, firstTask, count));
    firstTask += count.tasks;
    ready += count.ready;
  }
  rows.runs.insert(runRow(event, { tasks: tasks.length, ready }));
}

function taskRow({ data, pos }: RunRequest, task: ExpandedTask): TaskRow {
  const isReady = task.unmet.length === 0;
  return {
    run_pos: pos,
    task_key: task.task_key,
    asset_index: task.asset_index,
    asset_key: present(data.tasks[task.asset_index], "a task has its asset").asset_key,
    partition_index: task.partition_index,
    state: isReady ? "READY" : "WAITING",
    attempt: 0,
    failures: 0,
    lost_attempts: 0,
    lost_pos: null,
    worker_id: null,
    claimed_by: null,
    started_at: null,
    started_pos: null,
    retry_at: null,
    finished_at: null,
    unmet: isReady ? null : task.unmet,
    downstream: task.downstream.length === 0 ? null : task.downstream,
    error: null,
    waits: null,
    remaining: null,
    skipped: null,
  };
}

/** How many tasks there are, and how many of them are ready. */
type TaskCounts = { tasks: number; ready: number };

function assetRow(
  { data, pos }: RunRequest,
  asset_index: number,
  first_task: number,
  count: TaskCounts,
): RunAssetRow {
  const asset = present(data.tasks[asset_index], "the run has the asset");
  const keys = data.partition_selection;
  return {
    run_pos: pos,
    asset_index,
    asset_key: asset.asset_key,
    spec_hash: asset.spec_hash,
    pool: asset.pool,
    batch: isWhole(asset, keys?.length ?? 0) ? 1 : 0,
    partition_indexes: asset.partition_indexes,
    first_task,
    task_count: count.tasks,
    ready: count.ready,
    running: 0,
    ...keySpan(keys, asset.partition_indexes),
    class: data.class,
    priority: data.priority,
  };
}

function runRow({ data, pos, occurred_at }: RunRequest, count: TaskCounts): RunRow {
  return {
    run_pos: pos,
    run_id: data.run_id,
    run_key: data.run_key,
    state: "PENDING",
    trigger_source_ref: data.trigger_source_ref,
    backfill_id: data.backfill_id,
    chunk_index: data.chunk_index,
    asset_selection: data.asset_selection,
    partition_keys: data.partition_selection,
    config: data.config,
    labels: data.labels,
    code_version: data.code_version,
    class: data.class,
    priority: data.priority,
    retry: data.retry,
    tasks_total: count.tasks,
    tasks_waiting: count.tasks - count.ready,
    tasks_ready: count.ready,
    tasks_running: 0,
    tasks_retry_wait: 0,
    tasks_succeeded: 0,
    tasks_failed: 0,
    tasks_cancelled: 0,
    tasks_skipped: 0,
    cancel_requested_at: null,
    cancel_deadline_at: null,
    cancel_reason: null,
    first_error: null,
    requested_at: occurred_at,
    started_at: null,
    finished_at: null,
    row_version: pos,
  };
}

function keySpan(
  keys: readonly string[] | null,
  indexes: RunAssetRow["partition_indexes"],
): { first_key: string; last_key: string } {
  if (keys === null) return { first_key: "", last_key: "" };
  let first: string | undefined;
  let last: string | undefined;
  for (const index of indexesOf(indexes, keys.length)) {
    const key = present(keys[index], "an asset's partitions are among the run's");
    if (first === undefined || compareText(key, first) < 0) first = key;
    if (last === undefined || compareText(key, last) > 0) last = key;
  }
  return { first_key: first ?? "", last_key: last ?? "" };
}

const runStarted: Folding<"RunStarted"> = {
  subject: ({ run_pos }) => run_pos,
  touches: touchesOfRun,
  apply(rows, event) {
    const { data, pos, occurred_at } = event;
    const run = runOf(rows, data.run_pos);
    assert(run.state === "PENDING", () => `${run.run_id} is pending when it starts`);
    rows.runs.put({ ...run, state: "RUNNING", started_at: occurred_at, row_version: pos });
    for (const { runs } of KINDS) runs.runStarted?.(rows, event);
  },
};

const runCancelRequested: Folding<"RunCancelRequested"> = {
  subject: ({ run_pos }) => run_pos,
  touches: ({ run_pos }) => [["runs", [run_pos]]],
  apply(rows, { data, pos, occurred_at }) {
    const run = runOf(rows, data.run_pos);
    assert(run.finished_at === null, () => `${run.run_id} has not ended when it is cancelled`);
    rows.runs.put({
      ...run,
      cancel_requested_at: occurred_at,
      cancel_deadline_at: data.deadline_at,
      cancel_reason: data.reason,
      row_version: pos,
    });
  },
};

const runFinished: Folding<"RunFinished"> = {
  subject: ({ run_pos }) => run_pos,
  touches: (data) => [
    ...touchesOfRun(data),
    ...KINDS.flatMap(({ runs }) => runs.touchesEnded?.(data) ?? []),
  ],
  apply(rows, event) {
    const { data, pos, occurred_at } = event;
    const run = runOf(rows, data.run_pos);
    assert(run.finished_at === null, () => `${run.run_id} ends once`);
    assert(
      run.tasks_waiting + run.tasks_ready + run.tasks_running + run.tasks_retry_wait === 0,
      () => `${run.run_id} ends when all its tasks have ended`,
    );
    rows.runs.put({ ...run, state: data.outcome, finished_at: occurred_at, row_version: pos });
    deleteTasks(rows, data.run_pos, data.task_count);
    for (let asset = 0; asset < data.asset_count; asset++) {
      rows.runAssets.delete(data.run_pos, asset);
    }
    for (const { runs } of KINDS) runs.finished?.(rows, run, event);
  },
};

/** The foldings of runs. */
export const RUN_FOLDS = {
  RunRequested: runRequested,
  RunStarted: runStarted,
  RunCancelRequested: runCancelRequested,
  RunFinished: runFinished,
};
