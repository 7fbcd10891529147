import { setImmediate as nextTurn } from "node:timers/promises";
import type {
  AttemptDocument,
  RunTimelineDocument,
  TimelineTaskDocument,
} from "../core/api/run-timeline-documents.ts";
import { present } from "../core/assert.ts";
import type { EventData } from "../core/events/index.ts";
import type { RunAssetField } from "../core/events/run-events.ts";
import { type RunRow, type TaskRow, TASKS } from "../core/rows/run-rows.ts";
import type { Condition } from "../core/rows/table.ts";
import type { Reader } from "../store/store.ts";
import { RunAttempts } from "./run-attempts.ts";
import { partitionsOfTask, readyAt, shapeOfRun } from "./timeline-tasks.ts";

/** Tasks of a run that its timeline shows: more do not fit on a page that anybody reads. */
const TASKS_MAX = 2_000;
const EDGES_MAX = 20_000;
const ATTEMPTS_MAX = 10_000;

/** Events of a run that are looked through: each may hold hundreds of attempts. */
const EVENTS_MAX = 20_000;

/** Rows and events that are read between two turns of the process. */
const PAGE_ROWS = 500;
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
): Promise<{ attempts: AttemptDocument[]; complete: boolean }> {
  const has = (key: number): boolean => key === taskKey;
  const history = new RunAttempts({ has, attemptsMax: ATTEMPTS_MAX });
  const areAllRead = await readHistory(reader, run, history);
  return { attempts: history.attempts, complete: history.isComplete && areAllRead };
}

/** The assets of a run as they were asked for: their rows go when it ends, the request stays. */
async function assetsAtRequest(reader: Reader, run: RunRow): Promise<RunAssetField[]> {
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
  for (let from = 0; from < count; from += PAGE_ROWS) {
    const where: Condition[] = [
      { cell: "run_pos", is: "=", value: run.run_pos },
      { cell: "task_key", is: ">=", value: from },
    ];
    const order = [{ cell: "task_key" }];
    const limit = Math.min(PAGE_ROWS, count - from);
    const page = (await reader.find({ table: TASKS, where, order, limit })) as TaskRow[];
    for (const row of page) rows.set(row.task_key, row);
    if (page.length < limit) break;
    await nextTurn();
  }
  return rows;
}
