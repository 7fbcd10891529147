import type { AttemptDocument, TimelineTaskDocument } from "../core/api/run-timeline-documents.ts";
import type { RecordedEvent } from "../core/events/envelope.ts";
import type { EventData } from "../core/events/index.ts";
import type { TaskResultField } from "../core/events/run-events.ts";
import { eachResult, taskKeysOf } from "../core/fold/repeated-entries.ts";
import type { Instant } from "../core/instant.ts";

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
  };
}

function outcomeOf(result: TaskResultField): AttemptDocument["outcome"] {
  if (result.released === true) return "RELEASED";
  return countOf(result, "FAILED") > 0 ? "FAILED" : result.outcome;
}

function countOf({ exceptions = [] }: TaskResultField, outcome: "FAILED" | "SKIPPED"): number {
  return exceptions.filter((exception) => exception.outcome === outcome).length;
}

function firstFailure({ exceptions = [] }: TaskResultField): AttemptDocument["error"] {
  return exceptions.find(({ outcome }) => outcome === "FAILED")?.error ?? null;
}
