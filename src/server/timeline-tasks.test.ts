import { describe, expect, test } from "vitest";
import type { RunAssetField } from "../core/events/run-events.ts";
import { partitionsOfTask, readyAt, shapeOfRun } from "./timeline-tasks.ts";

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
