import { expect, test } from "vitest";
import { graphOfRun } from "./graph-of-run.ts";
import type { Timeline } from "./timeline-rows.ts";

function timeline(assets: Record<string, number>, edges: [number, number][]): Timeline {
  const keys = Object.entries(assets).flatMap(([asset, count]) => Array<string>(count).fill(asset));
  return {
    run_id: "run",
    requested_at: "",
    finished_at: null,
    tasks: keys.map((asset_key, task_key) => ({
      task_key,
      asset_key,
      partition_keys: [String(task_key)],
      partition_count: 1,
      state: task_key === 1 ? "FAILED" : "SUCCEEDED",
      ready_at: null,
      finished_at: null,
    })),
    edges,
    attempts: [],
    complete: true,
    pos: 1,
  };
}

test("a small run has a node for each task", () => {
  const { nodes, edges, isByAsset } = graphOfRun(timeline({ a: 2, b: 1 }, [[0, 2]]));
  expect(nodes.map(({ id, text, href }) => [id, text, href])).toEqual([
    ["0", "a", "/runs/run/tasks/0"],
    ["1", "a", "/runs/run/tasks/1"],
    ["2", "b", "/runs/run/tasks/2"],
  ]);
  expect(edges).toEqual([["0", "2"]]);
  expect(isByAsset).toBe(false);
});

test("a large run has a node for each asset, which tells what its tasks came to", () => {
  const many: [number, number][] = [
    [0, 50],
    [1, 51],
    [2, 3],
  ];
  const { nodes, edges, isByAsset } = graphOfRun(timeline({ a: 50, b: 50 }, many));
  expect(nodes).toMatchObject([
    { id: "a", state: "FAILED", detail: "49 succeeded, 1 failed" },
    { id: "b", state: "SUCCEEDED", detail: "50 succeeded" },
  ]);
  expect(edges).toEqual([["a", "b"]]);
  expect(isByAsset).toBe(true);
});
