import type { AnswerOf } from "../../../../src/work/operations.ts";
import type { GanttBar, GanttRow, GanttWait } from "../../parts/gantt.tsx";
import { lookOf } from "../../parts/status-look.ts";
import { durationText } from "../../parts/time-text.ts";

/** What happened in a run. */
export type Timeline = AnswerOf<"getRunTimeline">;

type Task = Timeline["tasks"][number];
type Attempt = Timeline["attempts"][number];

/** The partitions of a task in a few words. */
export function partitionsText({
  partition_keys: keys,
  partition_count: count,
}: Pick<Task, "partition_keys" | "partition_count">): string {
  const [first = ""] = keys;
  return count > 1 ? `${first} and ${count - 1} more` : first;
}

/** The tasks of a run as rows of a chart, those that began first on top. */
export function timelineRows(timeline: Timeline, hrefOf: (taskKey: number) => string): GanttRow[] {
  const attempts = Map.groupBy(timeline.attempts, ({ task_key }) => task_key);
  const beganAt = ({ task_key }: Task): string => attempts.get(task_key)?.[0]?.started_at ?? "~";
  return timeline.tasks
    .toSorted((a, b) => compare(beganAt(a), beganAt(b)) || a.task_key - b.task_key)
    .map((task) => rowOf(timeline, task, attempts.get(task.task_key) ?? [], hrefOf(task.task_key)));
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

function rowOf(
  timeline: Timeline,
  task: Task,
  attempts: readonly Attempt[],
  href: string,
): GanttRow {
  return {
    id: String(task.task_key),
    text: task.asset_key,
    detail: partitionsText(task),
    state: task.state,
    href,
    bars: attempts.map(barOf),
    waits: waitsOf(timeline, task, attempts),
  };
}

function barOf(attempt: Attempt): GanttBar {
  const fromMs = Date.parse(attempt.started_at);
  const toMs = attempt.ended_at === null ? null : Date.parse(attempt.ended_at);
  return { fromMs, toMs, state: attempt.outcome ?? "RUNNING", title: attemptText(attempt) };
}

/** An attempt in one sentence: how it ended, where it ran, why it failed. */
export function attemptText(attempt: Attempt): string {
  const { ended_at, outcome, worker_id, error } = attempt;
  const tookMs = ended_at === null ? null : Date.parse(ended_at) - Date.parse(attempt.started_at);
  const ended =
    tookMs === null
      ? `running on ${worker_id}`
      : `${lookOf(outcome ?? "RUNNING").word} after ${durationText(tookMs)} on ${worker_id}`;
  const why = error === null ? "" : `: ${error.message}`;
  return `Attempt ${attempt.attempt} ${ended}${why}`;
}

/** What a task waited for, from the request of the run to its end. */
function waitsOf(timeline: Timeline, task: Task, attempts: readonly Attempt[]): GanttWait[] {
  const requestedMs = Date.parse(timeline.requested_at);
  const endedAt = task.finished_at ?? timeline.finished_at;
  const endMs = endedAt === null ? null : Date.parse(endedAt);
  const readyMs = task.ready_at === null ? null : Date.parse(task.ready_at);
  const waits: GanttWait[] = [];
  if (readyMs === null || readyMs > requestedMs) {
    waits.push({ fromMs: requestedMs, toMs: readyMs ?? endMs, kind: "upstream" });
  }
  let freeMs = readyMs;
  for (const attempt of attempts) {
    const startedMs = Date.parse(attempt.started_at);
    if (freeMs !== null) waits.push({ fromMs: freeMs, toMs: startedMs, kind: "worker" });
    freeMs = null;
    if (attempt.ended_at === null || attempt.retry_at === null) continue;
    const failedMs = Date.parse(attempt.ended_at);
    const againMs = Date.parse(attempt.retry_at);
    freeMs = endMs === null ? againMs : Math.min(againMs, endMs);
    waits.push({ fromMs: failedMs, toMs: freeMs, kind: "retry" });
  }
  if (freeMs !== null) waits.push({ fromMs: freeMs, toMs: endMs, kind: "worker" });
  return waits.filter(({ fromMs, toMs }) => toMs === null || toMs > fromMs);
}
