import { describe, expect, test } from "vitest";
import { layoutGraph, NODE_HEIGHT, NODE_WIDTH, pathOf } from "./graph-layout.ts";

const DIAMOND = [
  ["a", "b"],
  ["a", "c"],
  ["b", "d"],
  ["c", "d"],
  ["a", "gone"],
] as const;

function placesOf(ids: string[], direction: "right" | "down") {
  const { nodes, ...rest } = layoutGraph(ids, DIAMOND, direction);
  return { ...rest, at: new Map(nodes.map((node) => [node.id, node])) };
}

describe("layoutGraph", () => {
  test.each(["right", "down"] as const)("puts what comes after further %s", (direction) => {
    const many = Array.from({ length: 500 }, (_, index) => `n${index}`);
    for (const ids of [
      ["a", "b", "c", "d"],
      ["a", "b", "c", "d", ...many],
    ]) {
      const { at, edges, width, height } = placesOf(ids, direction);
      const along = (id: string) => at.get(id)?.[direction === "right" ? "x" : "y"] ?? NaN;
      expect(along("a")).toBeLessThan(along("b"));
      expect(along("b")).toBe(along("c"));
      expect(along("c")).toBeLessThan(along("d"));
      expect(edges).toHaveLength(4);
      for (const { x, y } of at.values()) {
        expect(x).toBeGreaterThanOrEqual(NODE_WIDTH / 2);
        expect(x).toBeLessThanOrEqual(width - NODE_WIDTH / 2);
        expect(y).toBeGreaterThanOrEqual(NODE_HEIGHT / 2);
        expect(y).toBeLessThanOrEqual(height - NODE_HEIGHT / 2);
      }
    }
  });

  test("takes no room for nothing", () => {
    const nothing = { nodes: [], edges: [], width: 0, height: 0 };
    expect(layoutGraph([], DIAMOND, "right")).toEqual(nothing);
  });

  test("lays no two boxes over each other", () => {
    const { nodes } = layoutGraph(["a", "b", "c", "d", "e"], DIAMOND, "right");
    for (const one of nodes) {
      for (const other of nodes) {
        if (one === other) continue;
        const apart =
          Math.abs(one.x - other.x) >= NODE_WIDTH || Math.abs(one.y - other.y) >= NODE_HEIGHT;
        expect(apart, `${one.id} and ${other.id}`).toBe(true);
      }
    }
  });
});

describe("pathOf", () => {
  test("begins and ends where the line does", () => {
    const points = [
      { x: 0, y: 1 },
      { x: 10, y: 5 },
    ];
    expect(pathOf(points, "right")).toBe("M0,1C5,1 5,5 10,5");
    expect(pathOf(points, "down")).toBe("M0,1C0,3 10,3 10,5");
    expect(pathOf([], "down")).toBe("");
  });
});
