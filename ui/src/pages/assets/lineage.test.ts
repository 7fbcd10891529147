import { expect, test } from "vitest";
import { lineageOf } from "./lineage.ts";

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
