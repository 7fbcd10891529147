import { present, assert } from "../../kernel/errors.ts";
import type { TaskResultField } from "./events.ts";
import type { Instant } from "../../kernel/instant.ts";
import type { Rows } from "../rows.ts";
import { verdictOf } from "../asset/checks.ts";
import { BlockChanges, recordAttempts, touchesOfPartitions } from "../asset/fold-partitions.ts";
import { blockOfTask, isDeferred, TaskChanges } from "./task-blocks.ts";
import type { RunRow, TaskRow, RunAssetRow } from "./rows.ts";
import { intervalsOf } from "../../kernel/intervals.ts";
import { CRASH_CLASS } from "./protocol.ts";
import { noteMade } from "../requires/note-made.ts";
import { runOf, touchesOfRun } from "./fold.ts";
import { KINDS } from "../kinds.ts";
import type { PartitionCounts, RunRef } from "../kind.ts";
import type { Folding, Touch } from "../fold.ts";
import { eachResult, taskKeysOf, indexesOf } from "./tasks.ts";

type AssetRef = { asset_index: number; pool: string | null };

/** The rows that a run's task events change together; written once at the end of an event. */
export class RunChange {
  readonly rows: Rows;
  readonly pos: number;
  readonly at: Instant;
  run: RunRow;
  readonly #ref: RunRef;
  readonly counts: PartitionCounts = {
    planned: 0,
    running: 0,
    succeeded: 0,
    failed: 0,
    cancelled: 0,
    skipped: 0,
  };
  readonly assets: Map<number, RunAssetRow>;
  readonly pools = new Map<string, number>();
  /** Partitions that were made, by asset. */
  readonly made = new Map<string, string[]>();
  readonly blocks: BlockChanges;
  readonly tasks: TaskChanges;

  constructor(
    rows: Rows,
    event: { pos: number; occurred_at: Instant },
    data: RunRef & { assets: AssetRef[] },
  ) {
    this.rows = rows;
    this.pos = event.pos;
    this.at = event.occurred_at;
    this.run = { ...runOf(rows, data.run_pos), row_version: event.pos };
    this.#ref = data;
    this.blocks = new BlockChanges(rows);
    this.tasks = new TaskChanges(rows, data.run_pos);
    this.assets = new Map(
      data.assets.map(({ asset_index }) => [
        asset_index,
        { ...present(rows.runAssets.get(data.run_pos, asset_index), "the run has the asset") },
      ]),
    );
  }

  asset(assetIndex: number): RunAssetRow {
    return present(this.assets.get(assetIndex), "the event names the assets it touches");
  }

  task(taskKey: number): TaskRow {
    return present(this.tasks.get(taskKey), () => `task ${taskKey} exists`);
  }

  /** Counts a running task of the asset in (1) or out (-1). */
  countRunning(asset: RunAssetRow, by: 1 | -1): void {
    asset.running += by;
    this.run.tasks_running += by;
    if (asset.pool !== null) this.pools.set(asset.pool, (this.pools.get(asset.pool) ?? 0) + by);
  }

  /** Counts a task out of the state it is in; the caller counts it into the next. */
  leave(task: TaskRow, asset: RunAssetRow): void {
    switch (task.state) {
      case "RUNNING":
        this.countRunning(asset, -1);
        break;
      case "READY":
        asset.ready -= 1;
        this.run.tasks_ready -= 1;
        break;
      case "WAITING":
        this.run.tasks_waiting -= 1;
        break;
      case "RETRY_WAIT":
        this.run.tasks_retry_wait -= 1;
        break;
      default:
        assert(false, `task ${task.task_key} has not ended`);
    }
  }

  write(): void {
    this.writeTasks();
    const at = { pos: this.pos, occurred_at: this.at };
    for (const { runs } of KINDS) runs.counted?.(this.rows, this.#ref, this.counts, at);
  }

  /** Writes all but what the kinds of work count, where no partition came into another state. */
  writeTasks(): void {
    this.blocks.write();
    this.tasks.write();
    this.rows.runs.put(this.run);
    for (const asset of this.assets.values()) {
      assert(asset.ready >= 0 && asset.running >= 0, "an asset's tasks add up");
      this.rows.runAssets.put(asset);
    }
    for (const [pool, by] of this.pools) {
      const running = (this.rows.pools.get(pool)?.running ?? 0) + by;
      assert(running >= 0, () => `the tasks of pool ${pool} add up`);
      this.rows.pools.put({ pool, running });
    }
    for (const [asset_key, keys] of this.made) {
      this.rows.assetStatus.put({
        asset_key,
        last_materialization_at: this.at,
        last_materialization_pos: this.pos,
      });
      noteMade(this.rows, asset_key, keys, this.pos);
    }
  }
}

/** The rows of a run's assets, and of their pools. */
export function touchesOfAssets(runPos: number, assets: readonly AssetRef[]): Touch[] {
  const touches: Touch[] = [];
  for (const { asset_index, pool } of assets) {
    touches.push(["runAssets", [runPos, asset_index]]);
    if (pool !== null) touches.push(["pools", [pool]]);
  }
  return touches;
}

/** The blocks that tasks of a run are in. */
export function touchesOfTasks(
  runPos: number,
  entry: { task_key: number; count?: number | undefined },
): Touch[] {
  const first = blockOfTask(entry.task_key);
  const last = blockOfTask(entry.task_key + (entry.count ?? 1) - 1);
  const touches: Touch[] = [];
  for (let block = first; block <= last; block++) touches.push(["taskBlocks", [runPos, block]]);
  return touches;
}

const tasksStarted: Folding<"TasksStarted"> = {
  subject: ({ run_pos }) => run_pos,
  touches: (data) => [
    ...touchesOfRun(data),
    ...touchesOfAssets(data.run_pos, data.assets),
    ...data.tasks.flatMap((entry) => touchesOfTasks(data.run_pos, entry)),
  ],
  apply(rows, event) {
    const { data, pos, occurred_at } = event;
    const change = new RunChange(rows, event, data);
    for (const started of data.tasks) {
      const asset = change.asset(started.asset_index);
      for (const taskKey of taskKeysOf(started)) {
        const task = change.task(taskKey);
        assert(
          task.state === "READY" || task.state === "RETRY_WAIT" || isDeferred(task),
          () => `task ${taskKey} is free when it starts`,
        );
        assert(started.attempt === task.attempt + 1, "each attempt has the next number");
        change.leave(task, asset);
        change.countRunning(asset, 1);
        change.tasks.put({
          ...task,
          state: "RUNNING",
          attempt: started.attempt,
          worker_id: data.worker_id,
          claimed_by: data.claimed_by ?? null,
          started_at: occurred_at,
          started_pos: pos,
          retry_at: null,
          lost_pos: null,
          waits: null,
        });
        change.counts.planned -= started.partitions;
        change.counts.running += started.partitions;
      }
      const attempt = { attempt: started.attempt, worker_id: data.worker_id };
      for (const { runs } of KINDS) runs.attemptStarted?.(rows, data, attempt, event);
    }
    change.write();
  },
};

type Results = { run_pos: number; results: readonly TaskResultField[] };

function touchesOfResults({ run_pos, results }: Results): Touch[] {
  const assets = new Set(results.map(({ asset_key }) => asset_key));
  const touches = [...assets].flatMap((asset_key): Touch[] => [
    ["assetStatus", [asset_key]],
    ["awaitedAssets", [asset_key]],
  ]);
  for (const result of results) {
    touches.push(...touchesOfTasks(run_pos, result));
    touches.push(...touchesOfPartitions(result));
    for (const { task_key } of result.releases ?? []) {
      touches.push(["taskBlocks", [run_pos, blockOfTask(task_key)]]);
    }
    for (const { task_key } of result.skips ?? []) {
      touches.push(["taskBlocks", [run_pos, blockOfTask(task_key)]]);
    }
  }
  return touches;
}

const tasksFinished: Folding<"TasksFinished"> = {
  subject: ({ run_pos }) => run_pos,
  touches: (data) => [
    ...touchesOfRun(data),
    ...touchesOfAssets(data.run_pos, data.assets),
    ...touchesOfResults(data),
  ],
  apply(rows, event) {
    const change = new RunChange(rows, event, event.data);
    for (const result of event.data.results.flatMap(eachResult)) {
      applyResult(change, result);
      for (const { runs } of KINDS) runs.attemptEnded?.(rows, event.data, result, event);
    }
    change.write();
  },
};

const taskLeaseExpired: Folding<"TaskLeaseExpired"> = {
  subject: ({ run_pos }) => run_pos,
  touches: (data) => [
    ...touchesOfRun(data),
    ...touchesOfAssets(data.run_pos, data.assets),
    ...touchesOfResults({ run_pos: data.run_pos, results: [data.result] }),
  ],
  apply(rows, event) {
    const change = new RunChange(rows, event, event.data);
    assert(change.task(event.data.task_key).state === "RUNNING", "only a running task has a lease");
    const { result } = event.data;
    applyResult(change, result);
    const task = change.task(event.data.task_key);
    if (task.state === "RETRY_WAIT") change.tasks.put({ ...task, lost_pos: event.pos });
    for (const { runs } of KINDS) runs.attemptEnded?.(rows, event.data, result, event);
    change.write();
  },
};

function applyResult(change: RunChange, result: TaskResultField): void {
  const task = change.task(result.task_key);
  const asset = change.asset(result.asset_index);
  const wasRunning = task.state === "RUNNING";
  assert(task.attempt === result.attempt, () => `attempt ${result.attempt} is the current one`);
  change.leave(task, asset);

  const exceptions = exceptionsOf(result);
  let failed = 0;
  for (const { outcome } of exceptions.values()) if (outcome === "FAILED") failed += 1;
  const skipped = exceptions.size - failed;
  // A task that was given back was not tried: its partitions are as they were.
  if (wasRunning && result.released !== true) recordAttempts(change, task, result, exceptions);
  countPartitions(change, result, { wasRunning, failed, skipped });

  const next = nextState(result, failed);
  if (next === "FAILED") change.run.first_error ??= failureOf(result);
  countTask(change, next);
  change.tasks.put({
    ...task,
    state: next,
    failures: task.failures + (isFailure(result, failed) ? 1 : 0),
    lost_attempts: lostAttempts(task, result),
    retry_at: result.retry_at ?? null,
    waits: null,
    finished_at: next === "RETRY_WAIT" ? null : change.at,
    error: lastError(task, result),
    ...partialOutcome(task, result),
  });
  for (const { task_key, asset_index } of result.releases ?? []) {
    release(change, task_key, asset_index, result.task_key);
  }
  for (const skip of result.skips ?? []) skipTask(change, skip, result);
}

type Exceptions = ReadonlyMap<number, NonNullable<TaskResultField["exceptions"]>[number]>;

/** Most results have none. */
const NO_EXCEPTIONS: Exceptions = new Map();

function exceptionsOf({ exceptions }: TaskResultField): Exceptions {
  if (exceptions === undefined) return NO_EXCEPTIONS;
  return new Map(exceptions.map((item) => [item.index, item]));
}

/** What a task that failed for good failed with: as a whole, or in the first of its partitions. */
function failureOf({ error, exceptions }: TaskResultField): RunRow["first_error"] {
  return error ?? exceptions?.find(({ outcome }) => outcome === "FAILED")?.error ?? null;
}

function isFailure(result: TaskResultField, failed: number): boolean {
  if (result.released === true || result.lost_attempts !== undefined) return false;
  return result.outcome === "FAILED" || failed > 0;
}

/** An attempt that came to an end of its own begins the row anew; one that was given back says nothing. */
function lostAttempts(task: TaskRow, { lost_attempts, released }: TaskResultField): number {
  return lost_attempts ?? (released === true ? task.lost_attempts : 0);
}

/** What is given back says nothing of the task: what crashed before is still suspected. */
function lastError(task: TaskRow, { error, released }: TaskResultField): TaskRow["error"] {
  if (released === true && task.error?.class === CRASH_CLASS) return task.error;
  return error ?? null;
}

function nextState(result: TaskResultField, failed: number): TaskRow["state"] {
  if (result.retry_at !== undefined) return "RETRY_WAIT";
  return failed > 0 ? "FAILED" : result.outcome;
}

/** What a batch task still has to do, and what its function skipped, by place. */
function partialOutcome(
  task: TaskRow,
  result: TaskResultField,
): Pick<TaskRow, "remaining" | "skipped"> {
  if (result.exceptions === undefined || result.exceptions.length === 0) {
    return { remaining: task.remaining, skipped: task.skipped };
  }
  // Places, within the task's partitions, of those that this attempt worked on.
  const places = indexesOf(task.remaining, result.partition_keys.length);
  const placesWith = (outcome: string): number[] =>
    (result.exceptions ?? [])
      .filter((item) => item.outcome === outcome)
      .map((item) => present(places[item.index], "an exception is about one of the partitions"));
  const before = indexesOf(task.skipped ?? [], 0);
  const skipped = [...before, ...placesWith("SKIPPED")].toSorted((a, b) => a - b);
  const failed = placesWith("FAILED").toSorted((a, b) => a - b);
  return {
    remaining: failed.length > 0 ? intervalsOf(failed) : task.remaining,
    skipped: skipped.length > 0 ? intervalsOf(skipped) : null,
  };
}

function countTask({ run }: RunChange, state: TaskRow["state"]): void {
  switch (state) {
    case "RETRY_WAIT":
      run.tasks_retry_wait += 1;
      break;
    case "SUCCEEDED":
      run.tasks_succeeded += 1;
      break;
    case "FAILED":
      run.tasks_failed += 1;
      break;
    case "CANCELLED":
      run.tasks_cancelled += 1;
      break;
    case "SKIPPED":
      run.tasks_skipped += 1;
      break;
    default:
      assert(false, `${state} is no end of an attempt`);
  }
}

function countPartitions(
  { counts }: RunChange,
  result: TaskResultField,
  { wasRunning, failed, skipped }: { wasRunning: boolean; failed: number; skipped: number },
): void {
  const { partitions, outcome } = result;
  if (wasRunning) counts.running -= partitions;
  else counts.planned -= partitions;
  const rest = partitions - failed - skipped;
  if (outcome === "SUCCEEDED") counts.succeeded += rest;
  if (outcome === "SKIPPED") {
    counts.succeeded += rest;
    counts.skipped += rest;
  }
  if (outcome === "CANCELLED") counts.cancelled += rest;
  counts.succeeded += skipped;
  counts.skipped += skipped;
  const again = result.retry_at !== undefined;
  const lost = failed + (outcome === "FAILED" ? rest : 0);
  if (again) counts.planned += lost;
  else counts.failed += lost;
}

/** Strikes one edge; the task is ready when it was the last. */
function release(change: RunChange, taskKey: number, assetIndex: number, by: number): void {
  const task = change.task(taskKey);
  if (task.state !== "WAITING") return;
  const unmet = (task.unmet ?? []).filter((upstream) => upstream !== by);
  if (unmet.length > 0) {
    change.tasks.put({ ...task, unmet });
    return;
  }
  change.run.tasks_waiting -= 1;
  change.run.tasks_ready += 1;
  change.asset(assetIndex).ready += 1;
  change.tasks.put({ ...task, state: "READY", unmet: null });
}

function skipTask(
  change: RunChange,
  { task_key, partitions }: { task_key: number; partitions: number },
  result: TaskResultField,
): void {
  const task = change.task(task_key);
  assert(task.state === "WAITING", () => `task ${task_key} waits when its upstream fails`);
  change.run.tasks_waiting -= 1;
  change.run.tasks_skipped += 1;
  // Of an asset that is made from its own earlier partitions, the one that all that follows waited for.
  const own = task.asset_index === result.asset_index ? ` ${result.partition_keys[0] ?? ""}` : "";
  change.tasks.put({
    ...task,
    state: "SKIPPED",
    unmet: null,
    finished_at: change.at,
    error: { class: "upstream", message: whyNotThere(`${result.asset_key}${own}`, result) },
  });
  change.counts.planned -= partitions;
  change.counts.failed += partitions;
}

/** Why what a task makes is not there for those that wait for it. */
function whyNotThere(what: string, { checks = [] }: TaskResultField): string {
  const blocking = checks.find((check) => verdictOf(check) === "BLOCKED");
  if (blocking === undefined) return `${what} failed`;
  return `${what} did not pass its check ${blocking.name}`;
}

/** The foldings of tasks. */
export const TASK_FOLDS = {
  TasksStarted: tasksStarted,
  TasksFinished: tasksFinished,
  TaskLeaseExpired: taskLeaseExpired,
};
