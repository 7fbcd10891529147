import type { AnswerOf } from "../../../../src/work/operations.ts";
import type { ProgressPart } from "../../parts/progress.tsx";

/** A run as the API shows it. */
export type Run = AnswerOf<"getRun">;

/** A task of a run as the API lists it. */
export type Task = AnswerOf<"listTasks">["items"][number];

/** Where the page of a run is. */
export function runHref(runId: string): string {
  return `/runs/${encodeURIComponent(runId)}`;
}

/** Where the page of a task is. */
export function taskHref(runId: string, taskKey: number): string {
  return `${runHref(runId)}/tasks/${taskKey}`;
}

/** Some names in a few words: the first, and how many more there are. */
export function someText(names: readonly string[]): string {
  const [first = ""] = names;
  return names.length > 1 ? `${first} and ${names.length - 1} more` : first;
}

/** The tasks of a run by where they stand, those that are settled first. */
export function taskParts(run: Run): ProgressPart[] {
  return [
    { state: "SUCCEEDED", count: run.tasks_succeeded },
    { state: "SKIPPED", count: run.tasks_skipped },
    { state: "FAILED", count: run.tasks_failed },
    { state: "CANCELLED", count: run.tasks_cancelled },
    { state: "RUNNING", count: run.tasks_running },
    { state: "RETRY_WAIT", count: run.tasks_retry_wait },
  ];
}

/** How many tasks of a run have ended. */
export function settledTasks(run: Run): number {
  return run.tasks_succeeded + run.tasks_skipped + run.tasks_failed + run.tasks_cancelled;
}

/** What cancelling a run does, with the numbers of this one. */
export function cancelConsequence(run: Run): string {
  const idle = run.tasks_waiting + run.tasks_ready + run.tasks_retry_wait;
  const closed = idle === 0 ? "" : `${tasks(idle)} will not start. `;
  const told =
    run.tasks_running === 0
      ? ""
      : `${tasks(run.tasks_running)} running now will be stopped, after a grace period at the latest. `;
  const kept =
    run.tasks_succeeded === 0 ? "" : `The results of ${tasks(run.tasks_succeeded)} stay. `;
  return `${closed}${told}${kept}A cancelled run cannot be resumed; request a new run instead.`;
}

function tasks(count: number): string {
  return count === 1 ? "1 task" : `${count} tasks`;
}

/** What asked within a schedule or a sensor, by its id: nothing where that is only a number of ours. */
export function partOf(noun: string, id: string): string {
  const own = id.split(":").slice(1).join(":");
  return own === "" || /^(?:\w+:)?\d+(?::\d+)?$/.test(own) ? "" : `${noun} ${own}`;
}
