import type { RunRow, TaskRow } from "../../core/rows/run-rows.ts";
import { PawlError } from "../../core/errors.ts";
import type { Reader } from "../../store/store.ts";
import { type Call, type Handler, readAt, type Reply } from "../call.ts";
import { claimedLately } from "../claimed-lately.ts";
import { cursorOf, keyOfCursor } from "../cursor.ts";
import { attemptsAtTask, runTimeline } from "../run-timeline.ts";
import { findRun, taskDocuments, tasksAfter } from "./runs.ts";

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

function taskNotFound(run: RunRow, taskKey: number): PawlError {
  return new PawlError(
    "TASK_NOT_FOUND",
    `The run ${run.run_id} has no task ${taskKey}: its tasks are numbered from 0 to ` +
      `${run.tasks_total - 1}. \`pawl run show\` lists them.`,
    { details: { run_id: run.run_id, task_key: taskKey, tasks_total: run.tasks_total } },
  );
}

async function listTaskLogs(call: Call<"listTaskLogs">): Promise<Reply> {
  const { task_key } = call.params;
  const { limit, cursor, after = 0 } = call.query;
  if (cursor !== undefined && call.query.after !== undefined) throw twoPlaces();
  const from = cursor === undefined ? after : Number(keyOfCursor(cursor, ["int"])[0]);
  return readAt(call, async (reader) => {
    const { run_pos } = await findRun(reader, call.params.run_id);
    const lines = await reader.logs(run_pos, task_key, from, limit + 1);
    const items = lines
      .slice(0, limit)
      .map(({ line, attempt, at, message, fields }) => ({ line, attempt, at, message, fields }));
    const last = lines.length > limit ? items.at(-1) : undefined;
    const next_cursor = last === undefined ? null : cursorOf([last.line]);
    const known = lines.at(-1)?.line ?? 0;
    const isEnd = last === undefined && (known > 0 || from === 0);
    const last_line = isEnd ? known : await lastLine(reader, run_pos, task_key, known);
    const { pos } = await reader.head();
    return { answer: { items, next_cursor, last_line, pos }, pos };
  });
}

/** Lines are numbered without a hole, so the last one is found by halving. */
async function lastLine(
  reader: Reader,
  runPos: number,
  taskKey: number,
  known: number,
): Promise<number> {
  const isThere = async (line: number): Promise<boolean> =>
    (await reader.logs(runPos, taskKey, line - 1, 1)).length > 0;
  let there = known;
  let step = 1;
  while (await isThere(there + step)) {
    there += step;
    step *= 2;
  }
  let beyond = there + step;
  while (beyond - there > 1) {
    const middle = Math.floor((there + beyond) / 2);
    if (await isThere(middle)) there = middle;
    else beyond = middle;
  }
  return there;
}

function twoPlaces(): PawlError {
  return new PawlError(
    "INPUT_INVALID",
    "The request says both `cursor` and `after`, which are two places to go on from. Leave one out.",
  );
}

/** What can be asked about how a run went. */
export const RUN_TIMELINE_HANDLERS: {
  getRunTimeline: Handler<"getRunTimeline">;
  getTask: Handler<"getTask">;
  listTaskLogs: Handler<"listTaskLogs">;
} = { getRunTimeline, getTask, listTaskLogs };
