import type { Engine } from "../engine/engine.ts";
import type { Reader } from "../store/store.ts";
import { present } from "../kernel/errors.ts";
import type { RecordedEvent } from "../work/envelope.ts";
import type { EventData } from "../work/events.ts";
import type { TaskResultField } from "../work/run/events.ts";
import { RUNS } from "../work/run/rows.ts";
import { eachResult, taskKeysOf } from "../work/run/tasks.ts";
import { readTasks } from "./routes/run-logs.ts";

/** What a server says of tasks in its own log. */
export type TaskLines = "off" | "failures" | "all";

/** A line about a task. */
export type TaskLine = { level: "info" | "warn" | "error"; fields: object; message: string };

/** Where lines about tasks go. */
export type TaskLog = Record<TaskLine["level"], (fields: object, message: string) => void>;

/** Most lines within a second: a log is no place for ten thousand failures at once. */
const LINES_MAX = 100;
const WINDOW_MS = 1_000;

/** Runs whose tasks' names are kept: those that begin tasks now. */
const RUNS_KEPT = 20;

/** What to call a task of a run. */
type TaskNames = (taskKey: number) => string;

/**
 * From now on, the log tells of tasks that fail or are tried again, and with `all` also of those that
 * start and succeed; in the order of the ledger, and without holding anything up.
 */
export function logTasks(engine: Engine, log: TaskLog, which: TaskLines): void {
  if (which === "off") return;
  const names = new Map<number, TaskNames>();
  const write = withinBounds(log);
  const namesOf = async (runPos: number): Promise<TaskNames> => {
    const known = names.get(runPos) ?? (await engine.read((reader) => readNames(reader, runPos)));
    names.delete(runPos);
    names.set(runPos, known);
    const [oldest] = names.keys();
    if (names.size > RUNS_KEPT && oldest !== undefined) names.delete(oldest);
    return known;
  };
  const tellStarts = async ({ data }: RecordedEvent): Promise<void> => {
    const { run_id, run_pos, tasks } = JSON.parse(data) as EventData<"TasksStarted">;
    const nameOf = await namesOf(run_pos);
    for (const entry of tasks) {
      for (const task of taskKeysOf(entry)) {
        const fields = { run: run_id, task, attempt: entry.attempt };
        write({ level: "info", fields, message: `${nameOf(task)} started.` });
      }
    }
  };
  const tellEnds = (event: RecordedEvent): void => {
    for (const line of endLines(event, which)) write(line);
  };
  // What tasks are called is read, so that ends wait for the starts before them.
  let told = Promise.resolve();
  const tellAll = async (events: readonly RecordedEvent[]): Promise<void> => {
    for (const event of events) {
      if (event.type === "TasksStarted") await tellStarts(event);
      else tellEnds(event);
    }
  };
  engine.onCommit((events) => {
    if (which === "failures") {
      for (const event of events) tellEnds(event);
      return;
    }
    // The server stops already, or cannot read its store, which others tell of.
    told = told.then(() => tellAll(events)).catch(() => undefined);
  });
}

async function readNames(reader: Reader, runPos: number): Promise<TaskNames> {
  const [run] = await reader.load(RUNS, [[runPos]]);
  const { labelOf } = await readTasks(reader, present(run, `the run at ${runPos} has a row`));
  return (taskKey) => {
    const { asset_key, partition_keys, partition_count } = labelOf(taskKey);
    return taskName(asset_key, partition_keys, partition_count);
  };
}

function taskName(asset: string, keys: readonly string[], count: number): string {
  const [first = ""] = keys;
  if (first === "") return asset;
  return count > 1 ? `${asset} ${first} … (${count})` : `${asset} ${first}`;
}

/** What a log says of the tasks that an event ends: of those that did not succeed, or of all. */
export function endLines(
  { type, data }: Pick<RecordedEvent, "type" | "data">,
  which: TaskLines,
): TaskLine[] {
  if (type !== "TasksFinished" && type !== "TaskLeaseExpired") return [];
  // Most have no failure, and need not be parsed to know.
  if (which === "failures" && !data.includes('"FAILED"')) return [];
  if (type === "TasksFinished") {
    const { run_id, results } = JSON.parse(data) as EventData<"TasksFinished">;
    return results.flatMap(eachResult).flatMap((result) => endLine(run_id, result, which) ?? []);
  }
  const { run_id, result } = JSON.parse(data) as EventData<"TaskLeaseExpired">;
  const line = endLine(run_id, result, which);
  return line === null ? [] : [line];
}

function endLine(run: string, result: TaskResultField, which: TaskLines): TaskLine | null {
  const { task_key: task, attempt, outcome, exceptions = [], partition_keys: keys } = result;
  const failed = exceptions.filter((each) => each.outcome === "FAILED");
  const name = taskName(result.asset_key, keys, keys.length);
  const fields = { run, task, attempt };
  // One that was given back, or never began, says nothing about itself.
  if (result.released === true || attempt === 0) return null;
  if (outcome !== "FAILED" && failed.length === 0) {
    const isTold = which === "all" && outcome === "SUCCEEDED";
    return isTold ? { level: "info", fields, message: `${name} succeeded.` } : null;
  }
  const error = result.error ?? failed[0]?.error ?? null;
  const some = outcome === "FAILED" ? "" : ` in ${failed.length} of ${keys.length} partitions`;
  const why = error === null ? "." : `: ${error.message}`;
  const { retry_at } = result;
  if (retry_at === undefined) {
    return { level: "error", fields, message: `${name} failed${some}${why}` };
  }
  const message = `${name} failed${some} and is tried again${why}`;
  return { level: "warn", fields: { ...fields, retry_at }, message };
}

/** Writes so many lines a second, and how many more there were. */
function withinBounds(log: TaskLog): (line: TaskLine) => void {
  let written = 0;
  let isOpen = false;
  const close = (): void => {
    const more = written - LINES_MAX;
    isOpen = false;
    written = 0;
    if (more > 0) log.warn({ lines: more }, "More lines about tasks were left out here.");
  };
  return ({ level, fields, message }) => {
    if (!isOpen) setTimeout(close, WINDOW_MS).unref();
    isOpen = true;
    written++;
    if (written <= LINES_MAX) log[level](fields, message);
  };
}
