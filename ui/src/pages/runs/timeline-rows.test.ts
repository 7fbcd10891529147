import { describe, expect, test } from "vitest";
import { attemptText, partitionsText, type Timeline, timelineRows } from "./timeline-rows.ts";

const at = (seconds: number): string => new Date(seconds * 1_000).toISOString();

type Task = Timeline["tasks"][number];
type Attempt = Timeline["attempts"][number];

const task = (more: Partial<Task> = {}): Task => ({
  task_key: 0,
  asset_key: "a",
  partition_keys: [],
  partition_count: 0,
  state: "SUCCEEDED",
  ready_at: at(0),
  finished_at: null,
  ...more,
});

const attempt = (more: Partial<Attempt> = {}): Attempt => ({
  task_key: 0,
  attempt: 1,
  worker_id: "one",
  started_at: at(1),
  ended_at: at(2),
  outcome: "SUCCEEDED",
  error: null,
  retry_at: null,
  partitions: 1,
  partitions_failed: 0,
  partitions_skipped: 0,
  check_status: null,
  ...more,
});

const timeline = (more: Partial<Timeline>): Timeline => ({
  run_id: "run",
  requested_at: at(0),
  finished_at: null,
  tasks: [task()],
  edges: [],
  attempts: [],
  complete: true,
  pos: 1,
  ...more,
});

const rows = (more: Partial<Timeline>) => timelineRows(timeline(more), (key) => `/tasks/${key}`);

const waits = (more: Partial<Timeline>) =>
  rows(more)[0]?.waits?.map(({ fromMs, toMs, kind }) => [
    kind,
    fromMs / 1_000,
    toMs === null ? null : toMs / 1_000,
  ]);

describe("timelineRows", () => {
  test("shows what began first on top, and what never began last", () => {
    const tasks = [0, 1, 2].map((task_key) => task({ task_key }));
    const attempts = [
      attempt({ task_key: 1, started_at: at(5) }),
      attempt({ task_key: 2, started_at: at(3) }),
    ];
    expect(rows({ tasks, attempts }).map(({ id }) => id)).toEqual(["2", "1", "0"]);
  });

  test("shows the wait for upstream, for a worker and for a retry", () => {
    const failed = attempt({
      started_at: at(4),
      ended_at: at(5),
      outcome: "FAILED",
      retry_at: at(8),
    });
    const again = attempt({ attempt: 2, started_at: at(9), ended_at: at(12) });
    const tasks = [task({ ready_at: at(2), finished_at: at(12) })];
    expect(waits({ tasks, attempts: [failed, again] })).toEqual([
      ["upstream", 0, 2],
      ["worker", 2, 4],
      ["retry", 5, 8],
      ["worker", 8, 9],
    ]);
  });

  test("leaves the wait of what is not over open", () => {
    expect(waits({ tasks: [task({ state: "READY" })] })).toEqual([["worker", 0, null]]);
    const waiting = task({ state: "WAITING", ready_at: null });
    expect(waits({ tasks: [waiting] })).toEqual([["upstream", 0, null]]);
  });

  test("ends the wait of what was closed before its retry", () => {
    const failed = attempt({ ended_at: at(2), outcome: "FAILED", retry_at: at(60) });
    const tasks = [task({ state: "CANCELLED", finished_at: at(3) })];
    expect(waits({ tasks, attempts: [failed] })).toEqual([
      ["worker", 0, 1],
      ["retry", 2, 3],
    ]);
  });
});

describe("attemptText", () => {
  test("says how it ended, how long it took, where it ran and why it failed", () => {
    const error = { class: "user", message: "no rows" };
    expect(attemptText(attempt({ outcome: "FAILED", error }))).toBe(
      "Attempt 1 failed after 1 s on one: no rows",
    );
    expect(attemptText(attempt({ ended_at: null, outcome: null }))).toBe(
      "Attempt 1 running on one",
    );
  });
});

describe("partitionsText", () => {
  test("counts what it leaves out", () => {
    expect(partitionsText({ partition_keys: ["a", "b", "c"], partition_count: 7 })).toBe(
      "a and 6 more",
    );
    expect(partitionsText({ partition_keys: ["a"], partition_count: 1 })).toBe("a");
    expect(partitionsText({ partition_keys: [], partition_count: 0 })).toBe("");
  });
});
