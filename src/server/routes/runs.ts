import { cancelRun, runNotFound } from "../../controllers/cancel-run.ts";
import { requestRun, type RunRequestResult } from "../../controllers/request-run.ts";
import { keysOfTask } from "../../controllers/run-lookup.ts";
import type { TaskDocument } from "../../core/api/run-documents.ts";
import { present } from "../../core/assert.ts";
import { PawlError } from "../../core/errors.ts";
import {
  RUN_ASSETS,
  type RunAssetRow,
  type RunRow,
  RUNS,
  type TaskRow,
  TASKS,
} from "../../core/rows/run-rows.ts";
import type { Condition, Key } from "../../core/rows/table.ts";
import { refoldRun } from "../../engine/refold-run.ts";
import type { Reader } from "../../store/store.ts";
import { type Call, type Handler, readAt, type Reply, submitted } from "../call.ts";
import { claimedLately } from "../claimed-lately.ts";
import { cursorOf, keyOfCursor } from "../cursor.ts";
import { listRuns } from "../list-runs.ts";

/** The run, or the refusal that there is none. */
export async function findRun(reader: Reader, runId: string): Promise<RunRow> {
  const where: Condition[] = [{ cell: "run_id", is: "=", value: runId }];
  const [run] = (await reader.find({ table: RUNS, where, order: [], limit: 1 })) as RunRow[];
  if (run !== undefined) return run;
  throw runNotFound(runId);
}

type TaskPage = { assets: RunAssetRow[]; tasks: TaskRow[] };

/** Tasks of a run that goes on: they have rows. */
async function openTasks(
  reader: Reader,
  run: RunRow,
  after: number,
  status: readonly string[] | undefined,
  limit: number,
): Promise<TaskPage> {
  const keys = run.asset_selection.map((_, index): Key => [run.run_pos, index]);
  const assets = (await reader.load(RUN_ASSETS, keys)) as RunAssetRow[];
  const where: Condition[] = [
    { cell: "run_pos", is: "=", value: run.run_pos },
    { cell: "task_key", is: ">", value: after },
  ];
  if (status !== undefined) where.push({ cell: "state", is: "in", values: status });
  const order = [{ cell: "task_key" }];
  return { assets, tasks: (await reader.find({ table: TASKS, where, order, limit })) as TaskRow[] };
}

/** Tasks of a run that has ended: only its events are left. */
async function endedTasks(
  reader: Reader,
  run: RunRow,
  after: number,
  status: readonly string[] | undefined,
  limit: number,
): Promise<TaskPage> {
  const { assets, tasks } = await refoldRun(reader, run);
  const matching = tasks.filter(
    ({ task_key, state }) => task_key > after && (status?.includes(state) ?? true),
  );
  return { assets, tasks: matching.slice(0, limit) };
}

/** The tasks of a run after a number, from its rows or, when it has ended, from its events. */
export function tasksAfter(
  reader: Reader,
  run: RunRow,
  after: number,
  status: readonly string[] | undefined,
  limit: number,
): Promise<TaskPage> {
  const read = run.finished_at === null ? openTasks : endedTasks;
  return read(reader, run, after, status, limit);
}

async function listTasks(call: Call<"listTasks">): Promise<Reply> {
  const { limit, cursor, status } = call.query;
  const after = cursor === undefined ? -1 : Number(keyOfCursor(cursor, ["int"])[0]);
  return readAt(call, async (reader) => {
    const run = await findRun(reader, call.params.run_id);
    const { assets, tasks } = await tasksAfter(reader, run, after, status, limit + 1);
    const page = tasks.slice(0, limit);
    const last = tasks.length > limit ? page.at(-1) : undefined;
    const { pos } = await reader.head();
    const claimed = claimedLately(call.engine, call.server.now());
    const answer = {
      items: await taskDocuments(reader, run, assets, page, claimed),
      next_cursor: last === undefined ? null : cursorOf([last.task_key]),
      pos,
    };
    return { answer, pos };
  });
}

/** Tasks as the API shows them. */
export async function taskDocuments(
  reader: Reader,
  run: RunRow,
  assets: readonly RunAssetRow[],
  tasks: readonly TaskRow[],
  claimed: ReadonlySet<string>,
): Promise<TaskDocument[]> {
  const assetAt = new Map(assets.map((asset) => [asset.asset_index, asset]));
  const progress = new Map((await reader.progress(run.run_pos)).map((row) => [row.task_key, row]));
  return tasks.map((task) => {
    const asset = present(assetAt.get(task.asset_index), "a task's asset is the run's");
    const said = progress.get(task.task_key);
    const isCurrent = said !== undefined && said.attempt === task.attempt;
    return {
      ...task,
      error: task.state === "RUNNING" ? null : task.error,
      run_id: run.run_id,
      asset_key: asset.asset_key,
      partition_keys: run.partition_keys === null ? [] : keysOfTask(run, asset, task),
      progress: isCurrent
        ? { done: said.done, total: said.total, note: said.note, at: said.at }
        : null,
      lacks_worker: task.state === "READY" && !claimed.has(asset.asset_key),
    } as TaskDocument;
  });
}

const REQUEST_MESSAGES = {
  created: "The run was requested.",
  existing: "An equal request had made this run already.",
  conflict:
    "Another request made the run of this key, which is the one answered: the conflict was " +
    "recorded, and no run was made.",
} as const;

/** The refusal of a request under the run key of another, with both fingerprints and the run there is. */
function runKeyConflict(result: RunRequestResult): PawlError {
  const { run_key, run_id, existing_fingerprint, request_fingerprint, existing_run } = result;
  return new PawlError(
    "RUN_KEY_CONFLICT",
    `The run key ${JSON.stringify(run_key)} belongs to another request, which made ${run_id}: the ` +
      "conflict was recorded, and no run was made. Use another run key, or ask for the existing " +
      'run with `on_conflict: "existing"`.',
    { details: { run_key, run_id, existing_fingerprint, request_fingerprint, existing_run } },
  );
}

/** What can be done with runs. */
export const RUN_HANDLERS: {
  listRuns: Handler<"listRuns">;
  requestRun: Handler<"requestRun">;
  getRun: Handler<"getRun">;
  listTasks: Handler<"listTasks">;
  cancelRun: Handler<"cancelRun">;
} = {
  listRuns,
  requestRun: (call) => {
    const { on_conflict, ...wish } = call.body;
    const request_id = wish.request_id ?? call.idempotency?.key ?? "";
    return submitted(
      call,
      requestRun({ ...wish, request_id }),
      ({ run_id, run_key, outcome, request_fingerprint, existing_fingerprint }) => ({
        message: REQUEST_MESSAGES[outcome],
        run_id,
        run_key,
        outcome,
        request_fingerprint,
        existing_fingerprint,
      }),
      (result) =>
        result.outcome === "conflict" && on_conflict === "refuse" ? runKeyConflict(result) : null,
    );
  },
  getRun: (call) =>
    readAt(call, async (reader) => {
      const answer = await findRun(reader, call.params.run_id);
      return { answer, pos: (await reader.head()).pos };
    }),
  listTasks,
  cancelRun: (call) =>
    submitted(call, cancelRun({ ...call.body, run_id: call.params.run_id }), (result) => ({
      message: "The run was told to stop.",
      ...result,
    })),
};
