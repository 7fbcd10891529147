import { describe, expect, test } from "vitest";
import type { RunAssetField } from "../../work/run/events.ts";
import { partitionsOfTask, readyAt, shapeOfRun, RunAttempts } from "./run-timeline.ts";

function asset(more: Partial<RunAssetField> = {}): RunAssetField {
  return {
    asset_key: "a",
    spec_hash: "0".repeat(64),
    batch: false,
    pool: null,
    partition_indexes: null,
    upstream: [],
    ...more,
  };
}

const after = (index: number) => asset({ upstream: [{ asset: index, edges: "same" }] });

describe("shapeOfRun", () => {
  test("holds all tasks and edges of a small run", () => {
    const shape = shapeOfRun([asset(), after(0)], 2, 100, 100);
    expect(shape.tasks).toHaveLength(4);
    expect(shape.edges).toEqual([
      [0, 2],
      [1, 3],
    ]);
    expect(shape.isComplete).toBe(true);
  });

  test("ends within an asset, keeps the numbers, and says that there is more", () => {
    const shape = shapeOfRun([asset(), after(0), after(1)], 4, 6, 100);
    expect(shape.tasks.map(({ task_key }) => task_key)).toEqual([0, 1, 2, 3, 4, 5]);
    expect(shape.edges).toEqual([
      [0, 4],
      [1, 5],
    ]);
    expect(shape.isComplete).toBe(false);
  });

  test("is whole when the last task just fits", () => {
    expect(shapeOfRun([asset()], 3, 3, 10).isComplete).toBe(true);
    expect(shapeOfRun([asset(), asset({ batch: true })], 3, 3, 10).isComplete).toBe(false);
  });

  test("leaves out edges beyond their number", () => {
    const all = asset({ upstream: [{ asset: 0, edges: "all" }] });
    const shape = shapeOfRun([asset(), all], 10, 100, 7);
    expect(shape.edges).toHaveLength(7);
    expect(shape.isComplete).toBe(false);
  });
});

describe("partitionsOfTask", () => {
  const task = { task_key: 0, asset_index: 0, partition_index: null, unmet: [], downstream: [] };

  test("shows the first three of a batch and counts the rest", () => {
    const keys = ["a", "b", "c", "d", "e"];
    const batch = asset({ batch: true, partition_indexes: [[1, 4]] });
    expect(partitionsOfTask(task, [batch], keys)).toEqual({
      partition_keys: ["b", "c", "d"],
      partition_count: 4,
    });
  });

  test("has none for work without partitions", () => {
    expect(partitionsOfTask(task, [asset()], null)).toEqual({
      partition_keys: [],
      partition_count: 0,
    });
  });
});

describe("readyAt", () => {
  const task = { task_key: 2, asset_index: 1, partition_index: 0, unmet: [0, 1], downstream: [] };

  test("is the time of the last edge that was struck, once all are", () => {
    expect(readyAt(task, "start", undefined)).toBeNull();
    expect(readyAt(task, "start", ["one"])).toBeNull();
    expect(readyAt(task, "start", ["one", "two"])).toBe("two");
    expect(readyAt({ ...task, unmet: [] }, "start", undefined)).toBe("start");
  });
});

const ALL = { has: () => true, attemptsMax: 100 };

function started(occurred_at: string, tasks: object[], worker_id = "w") {
  return { type: "TasksStarted", occurred_at, data: JSON.stringify({ worker_id, tasks }) };
}

function finished(occurred_at: string, results: object[]) {
  const whole = results.map((result) => ({ outcome: "SUCCEEDED", partition_keys: [], ...result }));
  return { type: "TasksFinished", occurred_at, data: JSON.stringify({ results: whole }) };
}

const first = (task_key: number, more: object = {}) => ({
  task_key,
  attempt: 1,
  asset_index: 0,
  partitions: 1,
  ...more,
});

describe("RunAttempts", () => {
  test("spells out entries that stand for several tasks", () => {
    const history = new RunAttempts(ALL);
    history.add(started("1", [first(3, { count: 3 })]));
    history.add(finished("2", [first(3, { count: 2 })]));
    expect(history.attempts).toMatchObject([
      { task_key: 3, started_at: "1", ended_at: "2", outcome: "SUCCEEDED" },
      { task_key: 4, ended_at: "2" },
      { task_key: 5, ended_at: null, outcome: null },
    ]);
    expect([...history.ends.keys()]).toEqual([3, 4]);
  });

  test("leaves an attempt as it ended when the task is closed between two", () => {
    const history = new RunAttempts(ALL);
    history.add(started("1", [first(0)]));
    history.add(finished("2", [first(0, { outcome: "FAILED", retry_at: "9" })]));
    history.add(finished("3", [first(0, { outcome: "CANCELLED" })]));
    expect(history.attempts).toMatchObject([{ outcome: "FAILED", ended_at: "2", retry_at: "9" }]);
    expect(history.ends.get(0)).toEqual({ state: "CANCELLED", at: "3" });
  });

  test("looks only at the tasks that are wanted, but hears of them from others", () => {
    const history = new RunAttempts({ has: (key) => key === 1, attemptsMax: 100 });
    history.add(started("1", [first(0)]));
    history.add(finished("2", [first(0, { releases: [first(1), first(2)] })]));
    expect(history.attempts).toEqual([]);
    expect([...history.releases]).toEqual([[1, ["2"]]]);
  });

  test("says when there are more attempts than are kept", () => {
    const history = new RunAttempts({ ...ALL, attemptsMax: 2 });
    history.add(started("1", [first(0, { count: 2 })]));
    expect(history.isComplete).toBe(true);
    history.add(started("2", [first(2)]));
    expect(history.isComplete).toBe(false);
    expect(history.attempts).toHaveLength(2);
  });
});
