import type { Condition } from "../../kernel/table.ts";
import { type Context, DECISION_EVENTS_MAX, RoomUsed } from "../decision.ts";
import type { NewEvent } from "../events.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import type { ControlledWork, WorkKind } from "../kind.ts";
import type { Rows } from "../rows.ts";
import { present } from "../../kernel/errors.ts";
import { assetsOfRun, runRef } from "../run/tasks.ts";
import { needTasksAt, taskOf } from "../run/task-blocks.ts";
import { type AwaitedAssetRow, EVERY, type WaitingTaskRow } from "./rows.ts";

/** Most tasks that one decision lets go on: the row of each of their runs holds all keys of its partitions. */
const REQUEUED_MAX = 200;
/** Most partitions that one decision tells of. */
const KEYS_TOLD_MAX = 500;

const ORDER = [{ cell: "run_pos" }, { cell: "task_key" }];

/** Lets go on, to be judged again, what waits for partitions that were made since; some at a time. */
export function wakeWaiting(rows: Rows, row: AwaitedAssetRow, context: Context): NewEvent[] {
  const { asset_key, arrived, arrived_pos } = row;
  if (arrived === null) return [];
  const keys = arrived === EVERY ? null : arrived.slice(0, KEYS_TOLD_MAX);
  const before: Condition = { cell: "deferred_pos", is: "<", value: arrived_pos };
  const asked = questions(asset_key, keys);
  for (const where of asked) {
    const waiting = rows.waitingTasks.find([...where, before], ORDER, REQUEUED_MAX);
    if (waiting.length > 0) return requeued(rows, waiting, context);
  }
  const again = rows.waitingTasks.find(asked[0] ?? [], ORDER, REQUEUED_MAX);
  const awaited =
    again.length < REQUEUED_MAX ? again.map((each) => each.awaited_key) : (keys ?? []);
  const isLeft = questions(asset_key, null).some(
    (where) => rows.waitingTasks.find(where, ORDER, 1).length > 0,
  );
  return [
    {
      type: "AwaitedPartitionsMade",
      idempotency_key: IDEMPOTENCY_KEYS.awaitedMade(asset_key, context.nextPos),
      data: {
        asset_key,
        partition_keys: keys,
        awaited: [...new Set(awaited)],
        none_left: !isLeft,
      },
    },
  ];
}

/** What waits for these partitions of an asset; for every one also what the asset itself waits for. */
function questions(assetKey: string, keys: readonly string[] | null): Condition[][] {
  const awaited: Condition = { cell: "awaited_asset", is: "=", value: assetKey };
  if (keys !== null) return [[awaited, { cell: "awaited_key", is: "in", values: keys }]];
  return [[awaited], [{ cell: "asset_key", is: "=", value: assetKey }]];
}

function requeued(rows: Rows, waiting: readonly WaitingTaskRow[], context: Context): NewEvent[] {
  rows.runs.need(waiting.map(({ run_pos }) => [run_pos]));
  needTasksAt(rows, waiting);
  const used = new RoomUsed(context.room);
  const events: NewEvent[] = [];
  for (const [runPos, tasks] of Map.groupBy(waiting, ({ run_pos }) => run_pos)) {
    const run = present(rows.runs.get(runPos), "a task has its run");
    const keys = run.partition_keys?.length ?? 1;
    if (events.length === DECISION_EVENTS_MAX || !used.take(tasks.length + keys, 0)) break;
    const indexes = new Set(tasks.map(({ asset_index }) => asset_index));
    events.push({
      type: "TasksRequeued",
      idempotency_key: IDEMPOTENCY_KEYS.tasksWaiting(run.run_id, "requeued", context.nextPos),
      data: {
        ...runRef(run),
        assets: assetsOfRun(rows, run)
          .filter(({ asset_index }) => indexes.has(asset_index))
          .map(({ asset_index, pool }) => ({ asset_index, pool })),
        tasks: tasks.map(({ task_key, asset_index }) => {
          const task = present(taskOf(rows, runPos, task_key), "what waits is there");
          return { task_key, attempt: task.attempt, asset_index };
        }),
      },
    });
  }
  return events;
}

const WORK: ControlledWork<"awaitedAssets"> = {
  table: "awaitedAssets",
  advance: wakeWaiting,
  weight: 10,
  rounds: 3,
  repeats: true,
  open: [{ where: [{ cell: "arrived", is: "not null" }] }],
  page: 100,
  changed: ({ asset_key, arrived }) => (arrived === null ? [] : [asset_key]),
};

/** How tasks that wait for what they are made from go on. */
export const REQUIRES: Pick<WorkKind, "name" | "work"> = { name: "requires", work: WORK };
