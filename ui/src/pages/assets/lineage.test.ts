import { expect, test } from "vitest";
import { lineageEdges, lineageOf } from "./lineage.ts";

test("lineage is what an asset is made from and what is made from it, not its siblings", () => {
  const edges = [
    ["raw", "clean"],
    ["clean", "daily"],
    ["clean", "weekly"],
    ["daily", "report"],
    ["other", "report"],
  ] as const;
  expect([...lineageOf("daily", edges)].toSorted()).toEqual(["clean", "daily", "raw", "report"]);
  expect([...lineageOf("raw", edges)].toSorted()).toEqual([
    "clean",
    "daily",
    "raw",
    "report",
    "weekly",
  ]);
  expect([...lineageOf("alone", edges)]).toEqual(["alone"]);
});

test("an asset that is made from its own earlier partitions has no line to itself", () => {
  const spec = (asset_key: string, upstream: string[]) => ({
    spec: {
      asset_key,
      upstream: upstream.map((key) => ({ asset_key: key, mapping: { type: "identity" as const } })),
    },
  });
  const assets = [spec("balance", ["balance", "orders"]), spec("orders", [])];
  expect(lineageEdges(assets)).toEqual([["orders", "balance"]]);
});
