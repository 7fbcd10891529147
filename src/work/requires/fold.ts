import { assert, present } from "../../kernel/errors.ts";
import type { EventData } from "../events.ts";
import type { Folding, Touch } from "../fold.ts";
import { RunChange, touchesOfAssets, touchesOfTasks } from "../run/fold-tasks.ts";
import { isDeferred } from "../run/task-blocks.ts";
import { noteAwaited } from "./note-made.ts";
import { EVERY } from "./rows.ts";

function touchesOf(data: EventData<"TasksRequeued">): Touch[] {
  return [
    ["runs", [data.run_pos]],
    ...touchesOfAssets(data.run_pos, data.assets),
    ...data.tasks.flatMap((task) => touchesOfTasks(data.run_pos, task)),
  ];
}

const tasksDeferred: Folding<"TasksDeferred"> = {
  subject: ({ run_pos }) => run_pos,
  touches: (data) => [
    ...touchesOf(data),
    ...data.tasks.flatMap(({ asset_key, waits }): Touch[] => [
      // Of its own asset nothing is waited for, but what is published of it may change what it requires.
      ["awaitedAssets", [asset_key]],
      ["awaitedAssets", [waits.asset_key]],
    ]),
  ],
  apply(rows, event) {
    const change = new RunChange(rows, event, event.data);
    const awaited = new Map<string, Set<string>>();
    const awaitedOf = (assetKey: string): Set<string> => {
      const keys = awaited.get(assetKey) ?? new Set();
      awaited.set(assetKey, keys);
      return keys;
    };
    for (const { task_key, attempt, asset_index, asset_key, waits } of event.data.tasks) {
      const task = change.task(task_key);
      assert(task.attempt === attempt, `attempt ${attempt} was the last one`);
      assert(task.state !== "RUNNING", "what runs does not wait");
      change.leave(task, change.asset(asset_index));
      change.run.tasks_waiting += 1;
      change.tasks.put({
        ...task,
        state: "WAITING",
        retry_at: waits.until,
        waits: { ...waits, pos: event.pos },
      });
      awaitedOf(asset_key);
      awaitedOf(waits.asset_key).add(waits.partition_key);
    }
    change.writeTasks();
    for (const [assetKey, keys] of awaited) noteAwaited(rows, assetKey, [...keys]);
  },
};

const tasksRequeued: Folding<"TasksRequeued"> = {
  subject: ({ run_pos }) => run_pos,
  touches: touchesOf,
  apply(rows, event) {
    const change = new RunChange(rows, event, event.data);
    for (const { task_key, asset_index } of event.data.tasks) {
      const task = change.task(task_key);
      assert(isDeferred(task), `task ${task_key} waits for something`);
      const asset = change.asset(asset_index);
      change.leave(task, asset);
      // What was tried before may be suspected of something, and is found where that is looked for.
      if (task.attempt > 0) {
        change.run.tasks_retry_wait += 1;
        change.tasks.put({ ...task, state: "RETRY_WAIT", retry_at: event.occurred_at });
      } else {
        change.run.tasks_ready += 1;
        asset.ready += 1;
        change.tasks.put({ ...task, state: "READY", retry_at: null });
      }
    }
    change.writeTasks();
  },
};

const awaitedPartitionsMade: Folding<"AwaitedPartitionsMade"> = {
  // Found by where it stands.
  subject: (_data, pos) => pos,
  touches: ({ asset_key }) => [["awaitedAssets", [asset_key]]],
  apply(rows, { data }) {
    const { asset_key, partition_keys, none_left } = data;
    const row = present(rows.awaitedAssets.get(asset_key), "what was made is waited for");
    if (none_left) {
      rows.awaitedAssets.delete(asset_key);
      return;
    }
    const { arrived, awaited } = row;
    if (partition_keys === null || arrived === EVERY || arrived === null) {
      rows.awaitedAssets.put({ ...row, arrived: null });
      return;
    }
    const told = new Set(partition_keys);
    const again = new Set(data.awaited);
    const rest = arrived.filter((key) => !told.has(key));
    const left =
      awaited === EVERY ? awaited : awaited.filter((key) => !told.has(key) || again.has(key));
    rows.awaitedAssets.put({ ...row, awaited: left, arrived: rest.length === 0 ? null : rest });
  },
};

/** The foldings of tasks that wait for what they are made from. */
export const REQUIRES_FOLDS = {
  TasksDeferred: tasksDeferred,
  TasksRequeued: tasksRequeued,
  AwaitedPartitionsMade: awaitedPartitionsMade,
};
