import { expect, test } from "vitest";
import type { PartitionMap } from "../../../../src/work/asset/api.ts";
import { mergedMaps } from "./merged-maps.ts";

function map(through: number, lengths: number[], from = 0): PartitionMap {
  const statuses = ["NEVER_MATERIALIZED", "MATERIALIZED", "STALE"] as const;
  const common = { asset_key: "a", total: 10, from, dimensions: [], pos: 1 };
  return { ...common, statuses: [...statuses], through, lengths };
}

test("a map that says what is stale goes on with one that does not", () => {
  const plain = map(10, [1, 6, 0, 4]);
  expect(mergedMaps(map(4, [1, 2, 2, 2]), plain).lengths).toEqual([1, 2, 2, 2, 1, 2, 0, 4]);
  expect(mergedMaps(map(10, [2, 6, 0, 4]), plain).lengths).toEqual([2, 6, 0, 4]);
  expect(mergedMaps(map(8, [2, 6, 0, 2]), plain).lengths).toEqual([2, 6, 0, 2, 0, 2]);
});

test("a map that says what is stale of a stretch has the other around it", () => {
  const plain = map(10, [1, 6, 0, 4]);
  expect(mergedMaps(map(5, [2, 3], 2), plain).lengths).toEqual([1, 2, 2, 3, 1, 1, 0, 4]);
  expect(mergedMaps(map(9, [2, 1, 0, 3], 5), plain).lengths).toEqual([1, 5, 2, 1, 0, 3, 0, 1]);
});

test("a map that goes further, after partitions were added, waits for the other", () => {
  const plain = map(8, [1, 8]);
  expect(mergedMaps(map(10, [2, 10]), plain)).toBe(plain);
});
