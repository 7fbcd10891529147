import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { instantOf } from "../../kernel/instant.ts";
import { WorkingSet } from "../working-set.ts";
import { TASK_BLOCKS, TASK_RETRIES, type TaskRow } from "./rows.ts";
import {
  BLOCK_TASKS,
  blockOfTask,
  deleteTasks,
  insertTasks,
  TaskChanges,
  taskIn,
  taskOf,
  tasksIn,
} from "./task-blocks.ts";

const RUN = 7;
const ASSETS = ["a", "b"];

function newTask(task_key: number, asset_index: number, partition_index: number | null): TaskRow {
  return {
    run_pos: RUN,
    task_key,
    asset_index,
    asset_key: ASSETS[asset_index] ?? "",
    partition_index,
    state: "READY",
    attempt: 0,
    failures: 0,
    lost_attempts: 0,
    lost_pos: null,
    worker_id: null,
    claimed_by: null,
    started_at: null,
    started_pos: null,
    retry_at: null,
    finished_at: null,
    unmet: null,
    downstream: null,
    error: null,
    waits: null,
    remaining: null,
    skipped: null,
  };
}

/** Tasks of two assets: the first has some of the partitions, with holes; the second is of one task. */
const COUNT = BLOCK_TASKS * 2 + 10;
const TASKS: TaskRow[] = Array.from({ length: COUNT }, (_, key) =>
  key < COUNT - 1
    ? { ...newTask(key, 0, key < 30 ? key : key + 5), downstream: key === 3 ? [COUNT - 1] : null }
    : { ...newTask(key, 1, null), state: "WAITING", unmet: [3] },
);

const STATES: Partial<TaskRow>[] = [
  { state: "RUNNING", attempt: 1, worker_id: "w", claimed_by: "t", started_pos: 9 },
  { state: "RUNNING", attempt: 2, worker_id: "w", claimed_by: null, started_pos: 10 },
  { state: "RETRY_WAIT", attempt: 1, retry_at: instantOf(5), error: { class: "x", message: "y" } },
  { state: "RETRY_WAIT", attempt: 1, retry_at: instantOf(6), lost_pos: 4, lost_attempts: 1 },
  { state: "SUCCEEDED", attempt: 1, finished_at: instantOf(7), skipped: [[1, 2]] },
  { state: "FAILED", attempt: 3, failures: 3, remaining: [[0, 0]] },
  { state: "SKIPPED" },
];

const events = fc.array(
  fc.array(fc.tuple(fc.nat(COUNT - 1), fc.nat(STATES.length - 1)), { maxLength: 20 }),
  { maxLength: 8 },
);

/** The rows of a run after events, each of which changes some of its tasks; and what is to be expected. */
function after(changes: readonly (readonly [number, number])[][]): {
  set: WorkingSet;
  expected: TaskRow[];
} {
  const set = new WorkingSet();
  insertTasks(set.rows, RUN, TASKS);
  const expected = [...TASKS];
  for (const event of changes) {
    const change = new TaskChanges(set.rows, RUN);
    for (const [key, state] of event) {
      const task = { ...(expected[key] as TaskRow), ...STATES[state] };
      change.put(task);
      expected[key] = task;
      expect(change.get(key)).toEqual(task);
    }
    change.write();
  }
  return { set, expected };
}

function blocksIn(set: WorkingSet) {
  const blocks = Array.from({ length: blockOfTask(COUNT - 1) + 1 }, (_, block) => {
    const row = set.rows.taskBlocks.get(RUN, block);
    if (row === null) throw new Error(`There is no block ${block}.`);
    return row;
  });
  return blocks;
}

describe("blocks of tasks", () => {
  test("give each task back as it was put", () => {
    fc.assert(
      fc.property(events, (changes) => {
        const { set, expected } = after(changes);
        const stored = JSON.parse(JSON.stringify(blocksIn(set))) as ReturnType<typeof blocksIn>;
        expect(stored.flatMap((block) => tasksIn(block))).toEqual(expected);
        for (const task of expected) expect(taskOf(set.rows, RUN, task.task_key)).toEqual(task);
        const running = expected.filter(({ state }) => state === "RUNNING");
        expect(stored.flatMap((block) => tasksIn(block, ["RUNNING"]))).toEqual(running);
        expect(taskIn(stored.at(-1) as (typeof stored)[number], COUNT)).toBeNull();
      }),
    );
  });

  test("I35: list what runs with its fence, for statements that guard it", () => {
    fc.assert(
      fc.property(events, (changes) => {
        const { set, expected } = after(changes);
        const held = blocksIn(set).flatMap((block) => block.held ?? []);
        const fences = held.flatMap(([from, to, attempt, claimed_by]) =>
          Array.from({ length: to - from + 1 }, (_, at) => [from + at, attempt, claimed_by]),
        );
        const running = expected.filter(({ state }) => state === "RUNNING");
        expect(fences).toEqual(
          running.map(({ task_key, attempt, claimed_by }) => [task_key, attempt, claimed_by]),
        );
        const failed = expected.filter(({ state }) => state === "FAILED" || state === "SKIPPED");
        expect(blocksIn(set).reduce((sum, block) => sum + block.failed, 0)).toBe(failed.length);
      }),
    );
  });

  test("list what waits to be tried again in rows of its own", () => {
    fc.assert(
      fc.property(events, (changes) => {
        const { set, expected } = after(changes);
        const found = set.changes().find(({ table }) => table === TASK_RETRIES)?.inserted ?? [];
        const waiting = expected.filter(({ state }) => state === "RETRY_WAIT");
        expect(new Set(found)).toEqual(
          new Set(
            waiting.map(({ run_pos, task_key, asset_key, retry_at }) => {
              return { run_pos, task_key, asset_key, retry_at };
            }),
          ),
        );
      }),
    );
  });

  test("I11: are the same rows however often they were changed on the way", () => {
    fc.assert(
      fc.property(events, (changes) => {
        const { set, expected } = after(changes);
        const once = new WorkingSet();
        insertTasks(once.rows, RUN, TASKS);
        const change = new TaskChanges(once.rows, RUN);
        for (const task of expected) change.put(task);
        change.write();
        expect(blocksIn(set)).toEqual(blocksIn(once));
      }),
    );
  });

  test("write once what neighbours have in common, and go with their run", () => {
    const set = new WorkingSet();
    insertTasks(
      set.rows,
      RUN,
      Array.from({ length: 50 }, (_, key) => newTask(key, 0, key)),
    );
    const row = set.rows.taskBlocks.get(RUN, 0);
    expect(row).toMatchObject({ groups: [[0, 49, 0, "a", 0]], places: [0, 49, 0], held: null });
    expect(row?.states).toHaveLength(1);
    deleteTasks(set.rows, RUN, 50);
    expect(set.rows.taskBlocks.get(RUN, 0)).toBeNull();
    expect(set.changes().find(({ table }) => table === TASK_BLOCKS)?.inserted).toEqual([]);
  });
});
