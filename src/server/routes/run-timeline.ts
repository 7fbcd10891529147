import type { Json } from "../../kernel/canonical.ts";
import type {
  AttemptDocument,
  TaskDetailDocument,
  TimelineTaskDocument,
  RunTimelineDocument,
} from "../../work/run/api.ts";
import { countIntervals, expandIntervals } from "../../kernel/intervals.ts";
import { checkDocument, placesOf, worstOf } from "../../work/asset/checks.ts";
import type { RecordedEvent } from "../../work/envelope.ts";
import type { EventData } from "../../work/events.ts";
import type { TaskResultField, RunAssetField } from "../../work/run/events.ts";
import {
  eachResult,
  taskKeysOf,
  type ExpandedTask,
  expandTasks,
  indexesOf,
  isWhole,
} from "../../work/run/tasks.ts";
import type { Instant } from "../../kernel/instant.ts";
import { setImmediate as nextTurn } from "node:timers/promises";
import { tasksIn } from "../../work/run/task-blocks.ts";
import type { RunRow, TaskRow } from "../../work/run/rows.ts";
import type { Reader } from "../../store/store.ts";
import { PawlError, present } from "../../kernel/errors.ts";
import { type Call, type Handlers, readAt, type Reply } from "../http/call.ts";
import { claimedLately } from "../look-ups.ts";
import { findRun, taskBlocksFrom, taskDocuments, tasksAfter } from "./runs.ts";

/** How a task ended. */
export type TaskEnd = { state: TimelineTaskDocument["state"]; at: Instant };

/** Which tasks are of interest, and how many attempts. */
export type AttemptsWanted = { has: (taskKey: number) => boolean; attemptsMax: number };

/**
 * The attempts at the tasks of a run, gathered from its events in order. Rows hold only the newest
 * attempt, and go when the run ends; the events hold each of them.
 */
export class RunAttempts {
  readonly attempts: AttemptDocument[] = [];
  readonly ends = new Map<number, TaskEnd>();
  /** For each task, when each of its edges was struck. */
  readonly releases = new Map<number, Instant[]>();
  /** What the newest success among the wanted tasks said of what it made. */
  metadata: Json = null;
  /** What the checks of the wanted tasks found. */
  readonly checks: TaskDetailDocument["checks"] = [];
  isComplete = true;
  readonly #wanted: AttemptsWanted;
  readonly #open = new Map<number, AttemptDocument>();

  constructor(wanted: AttemptsWanted) {
    this.#wanted = wanted;
  }

  add({ type, occurred_at: at, data }: Pick<RecordedEvent, "type" | "occurred_at" | "data">): void {
    if (type === "TasksStarted") this.#start(JSON.parse(data) as EventData<"TasksStarted">, at);
    if (type === "TasksFinished") {
      const { results } = JSON.parse(data) as EventData<"TasksFinished">;
      for (const result of results.flatMap(eachResult)) this.#end(result, outcomeOf(result), at);
    }
    if (type === "TaskLeaseExpired") {
      const { result } = JSON.parse(data) as EventData<"TaskLeaseExpired">;
      this.#end(result, "LEASE_EXPIRED", at);
    }
  }

  #start({ tasks, worker_id }: EventData<"TasksStarted">, at: Instant): void {
    for (const entry of tasks) {
      for (const taskKey of taskKeysOf(entry)) {
        if (!this.#wanted.has(taskKey)) continue;
        if (this.attempts.length >= this.#wanted.attemptsMax) {
          this.isComplete = false;
          return;
        }
        const attempt = newAttempt(taskKey, entry.attempt, worker_id, at, entry.partitions);
        this.attempts.push(attempt);
        this.#open.set(taskKey, attempt);
      }
    }
  }

  #end(result: TaskResultField, outcome: AttemptDocument["outcome"], at: Instant): void {
    for (const { task_key } of result.releases ?? []) {
      if (!this.#wanted.has(task_key)) continue;
      const before = this.releases.get(task_key);
      if (before === undefined) this.releases.set(task_key, [at]);
      else before.push(at);
    }
    for (const { task_key } of result.skips ?? []) {
      if (this.#wanted.has(task_key)) this.ends.set(task_key, { state: "SKIPPED", at });
    }
    if (!this.#wanted.has(result.task_key)) return;
    const failed = countOf(result, "FAILED");
    if (result.retry_at === undefined) {
      const state = failed > 0 ? "FAILED" : result.outcome;
      this.ends.set(result.task_key, { state, at });
    }
    // A task that is closed between two attempts, or before its first, has none that goes on.
    const attempt = this.#open.get(result.task_key);
    if (attempt === undefined) return;
    this.#open.delete(result.task_key);
    if (result.metadata !== undefined) this.metadata = result.metadata;
    if (result.checks !== undefined) {
      attempt.check_status = worstOf(result.checks);
      this.checks.push(...taskChecks(result));
    }
    attempt.ended_at = at;
    attempt.outcome = outcome;
    attempt.error = result.error ?? firstFailure(result);
    attempt.retry_at = result.retry_at ?? null;
    attempt.partitions_failed = failed;
    attempt.partitions_skipped = countOf(result, "SKIPPED");
  }
}

function newAttempt(
  task_key: number,
  attempt: number,
  worker_id: string,
  started_at: Instant,
  partitions: number,
): AttemptDocument {
  return {
    task_key,
    attempt,
    worker_id,
    started_at,
    ended_at: null,
    outcome: null,
    error: null,
    retry_at: null,
    partitions,
    partitions_failed: 0,
    partitions_skipped: 0,
    check_status: null,
  };
}

function outcomeOf(result: TaskResultField): AttemptDocument["outcome"] {
  if (result.released === true) return "RELEASED";
  return countOf(result, "FAILED") > 0 ? "FAILED" : result.outcome;
}

/** What checks found, with the first of the partitions that each result is about. */
function taskChecks({
  checks = [],
  partition_keys,
}: TaskResultField): TaskDetailDocument["checks"] {
  return checks.map((check) => {
    const places = placesOf(check, partition_keys.length);
    const first = expandIntervals(places, 0, KEYS_SHOWN_MAX);
    const keys = first.flatMap((place) => partition_keys[place] ?? []);
    const partition_count = countIntervals(places);
    return { ...checkDocument(check), partition_count, partition_keys: keys };
  });
}

function countOf({ exceptions = [] }: TaskResultField, outcome: "FAILED" | "SKIPPED"): number {
  return exceptions.filter((exception) => exception.outcome === outcome).length;
}

function firstFailure({ exceptions = [] }: TaskResultField): AttemptDocument["error"] {
  return exceptions.find(({ outcome }) => outcome === "FAILED")?.error ?? null;
}

/** Partition keys of a batch task that are shown. */
const KEYS_SHOWN_MAX = 3;

/** The shape of a run: its tasks and what they wait for. */
export type RunShape = {
  tasks: ExpandedTask[];
  edges: [number, number][];
  isComplete: boolean;
};

/** The first tasks of a run and the edges between them, up to so many of each. */
export function shapeOfRun(
  assets: readonly RunAssetField[],
  partitionCount: number,
  tasksMax: number,
  edgesMax: number,
): RunShape {
  const first = firstTasks(assets, partitionCount, tasksMax);
  const tasks = expandTasks(first.assets, partitionCount);
  const edges: [number, number][] = [];
  for (const { task_key, downstream } of tasks) {
    for (const to of downstream) {
      if (edges.length >= edgesMax) return { tasks, edges, isComplete: false };
      edges.push([task_key, to]);
    }
  }
  return { tasks, edges, isComplete: first.isComplete };
}

/** Tasks are numbered asset by asset, so a run's first tasks are those of its first assets. */
function firstTasks(
  assets: readonly RunAssetField[],
  partitionCount: number,
  tasksMax: number,
): { assets: RunAssetField[]; isComplete: boolean } {
  const kept: RunAssetField[] = [];
  let left = tasksMax;
  for (const asset of assets) {
    if (left === 0) return { assets: kept, isComplete: false };
    if (isWhole(asset, partitionCount)) {
      kept.push(asset);
      left -= 1;
      continue;
    }
    const indexes = indexesOf(asset.partition_indexes, partitionCount);
    if (indexes.length > left) {
      const partition_indexes = indexes
        .slice(0, left)
        .map((index): [number, number] => [index, index]);
      return { assets: [...kept, { ...asset, partition_indexes }], isComplete: false };
    }
    kept.push(asset);
    left -= indexes.length;
  }
  return { assets: kept, isComplete: true };
}

/** The partitions of a task: the first few, and how many there are. */
export function partitionsOfTask(
  task: ExpandedTask,
  assets: readonly RunAssetField[],
  partitionKeys: readonly string[] | null,
): Pick<TimelineTaskDocument, "partition_keys" | "partition_count"> {
  if (partitionKeys === null) return { partition_keys: [], partition_count: 0 };
  if (task.partition_index !== null) {
    const key = present(partitionKeys[task.partition_index], "a task's partition is the run's");
    return { partition_keys: [key], partition_count: 1 };
  }
  const asset = present(assets[task.asset_index], "a task's asset is the run's");
  const indexes = indexesOf(asset.partition_indexes, partitionKeys.length);
  const partition_keys = indexes
    .slice(0, KEYS_SHOWN_MAX)
    .map((index) => present(partitionKeys[index], "a batch task's partitions are the run's"));
  return { partition_keys, partition_count: indexes.length };
}

/** When the last edge to a task was struck; null when one is left. */
export function readyAt(
  { unmet }: ExpandedTask,
  requestedAt: Instant,
  releases: readonly Instant[] | undefined,
): Instant | null {
  if (unmet.length === 0) return requestedAt;
  if (releases === undefined || releases.length < unmet.length) return null;
  return releases.at(-1) ?? null;
}

/** Tasks of a run that its timeline shows: more do not fit on a page that anybody reads. */
const TASKS_MAX = 2_000;
const EDGES_MAX = 20_000;
const ATTEMPTS_MAX = 10_000;

/** Events of a run that are looked through: each may hold hundreds of attempts. */
const EVENTS_MAX = 20_000;

/** Events that are read between two turns of the process. */
const PAGE_EVENTS = 100;

/** What happened in a run, as far as a page can show it. */
export async function runTimeline(
  reader: Reader,
  run: RunRow,
): Promise<Omit<RunTimelineDocument, "pos">> {
  const assets = await assetsAtRequest(reader, run);
  const partitionCount = run.partition_keys?.length ?? 0;
  const shape = shapeOfRun(assets, partitionCount, TASKS_MAX, EDGES_MAX);
  const shown = shape.tasks.length;
  const history = new RunAttempts({ has: (key) => key < shown, attemptsMax: ATTEMPTS_MAX });
  const areAllRead = await readHistory(reader, run, history);
  const rows = run.finished_at === null ? await openTaskRows(reader, run, shown) : null;
  const tasks = shape.tasks.map((task): TimelineTaskDocument => {
    const end = history.ends.get(task.task_key);
    const row = rows?.get(task.task_key);
    return {
      task_key: task.task_key,
      asset_key: present(assets[task.asset_index], "a task's asset is the run's").asset_key,
      ...partitionsOfTask(task, assets, run.partition_keys),
      state: row?.state ?? end?.state ?? "WAITING",
      ready_at: readyAt(task, run.requested_at, history.releases.get(task.task_key)),
      finished_at: end?.at ?? null,
    };
  });
  return {
    run_id: run.run_id,
    requested_at: run.requested_at,
    finished_at: run.finished_at,
    tasks,
    edges: shape.edges,
    attempts: history.attempts,
    complete: shape.isComplete && history.isComplete && areAllRead,
  };
}

/** The attempts at one task, and whether these are all. */
export async function attemptsAtTask(
  reader: Reader,
  run: RunRow,
  taskKey: number,
): Promise<Pick<TaskDetailDocument, "attempts" | "metadata" | "checks" | "complete">> {
  const has = (key: number): boolean => key === taskKey;
  const history = new RunAttempts({ has, attemptsMax: ATTEMPTS_MAX });
  const areAllRead = await readHistory(reader, run, history);
  const { attempts, metadata, checks } = history;
  return { attempts, metadata, checks, complete: history.isComplete && areAllRead };
}

/** The assets of a run as they were asked for: their rows go when it ends, the request stays. */
export async function assetsAtRequest(reader: Reader, run: RunRow): Promise<RunAssetField[]> {
  const at = { after: run.run_pos - 1, through: run.run_pos, limit: 1 };
  const [event] = await reader.events(at);
  const { data } = present(event, `the request at ${run.run_pos} is in the ledger`);
  return (JSON.parse(data) as EventData<"RunRequested">).tasks;
}

/** Gathers what the events of a run say; answers whether those were all. */
async function readHistory(reader: Reader, run: RunRow, history: RunAttempts): Promise<boolean> {
  const types = ["TasksStarted", "TasksFinished", "TaskLeaseExpired"];
  let after = run.run_pos;
  for (let read = 0; read < EVENTS_MAX; read += PAGE_EVENTS) {
    const events = await reader.events({
      after,
      subjects: [run.run_pos],
      types,
      limit: PAGE_EVENTS,
    });
    for (const event of events) history.add(event);
    const last = events.at(-1);
    if (events.length < PAGE_EVENTS || last === undefined) return true;
    after = last.pos;
    await nextTurn();
  }
  return false;
}

async function openTaskRows(
  reader: Reader,
  run: RunRow,
  count: number,
): Promise<Map<number, TaskRow>> {
  const rows = new Map<number, TaskRow>();
  for await (const block of taskBlocksFrom(reader, run, 0)) {
    for (const task of tasksIn(block)) if (task.task_key < count) rows.set(task.task_key, task);
    if (rows.size >= count) break;
  }
  return rows;
}

function getRunTimeline(call: Call<"getRunTimeline">): Promise<Reply> {
  return readAt(call, async (reader) => {
    const run = await findRun(reader, call.params.run_id);
    const timeline = await runTimeline(reader, run);
    const { pos } = await reader.head();
    return { answer: { ...timeline, pos }, pos };
  });
}

function getTask(call: Call<"getTask">): Promise<Reply> {
  const { run_id, task_key } = call.params;
  return readAt(call, async (reader) => {
    const run = await findRun(reader, run_id);
    if (task_key >= run.tasks_total) throw taskNotFound(run, task_key);
    const { assets, tasks } = await tasksAfter(reader, run, task_key - 1, undefined, 1);
    const claimed = claimedLately(call.engine, call.server.now());
    const [document] = await taskDocuments(reader, run, assets, tasks, claimed);
    const { pos } = await reader.head();
    const answer = {
      ...document,
      checkpoint: await checkpointOf(reader, tasks[0]),
      ...(await attemptsAtTask(reader, run, task_key)),
      pos,
    };
    return { answer, pos };
  });
}

async function checkpointOf(reader: Reader, task: TaskRow | undefined) {
  if (task === undefined) return null;
  const { run_pos, task_key } = task;
  const [kept] = await reader.checkpoints([{ run_pos, task_key }]);
  if (kept === undefined) return null;
  return { attempt: kept.attempt, value: kept.value, saved_at: kept.saved_at };
}

/** The refusal of a task that a run has not. */
export function taskNotFound(run: RunRow, taskKey: number): PawlError {
  return new PawlError(
    "TASK_NOT_FOUND",
    `The run ${run.run_id} has no task ${taskKey}: its tasks are numbered from 0 to ` +
      `${run.tasks_total - 1}. \`pawl run show\` lists them.`,
    { details: { run_id: run.run_id, task_key: taskKey, tasks_total: run.tasks_total } },
  );
}

/** What can be asked about how a run went. */
export const RUN_TIMELINE_HANDLERS = { getRunTimeline, getTask } satisfies Handlers;
