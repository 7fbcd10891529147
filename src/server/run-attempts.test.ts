import { describe, expect, test } from "vitest";
import { RunAttempts } from "./run-attempts.ts";

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
