import { expect, test } from "vitest";
import { pairsText } from "./pairs-text.ts";

test.each([
  [{ pairs: 28, keys: 28, assets: 1 }, "28 partitions"],
  [{ pairs: 1, keys: 1, assets: 1 }, "1 partition"],
  [{ pairs: 56, keys: 28, assets: 2 }, "56 partitions (28 keys × 2 assets)"],
  [{ pairs: 3, keys: 1, assets: 3 }, "3 partitions (1 key × 3 assets)"],
  [{ pairs: 2_400, keys: 2_000, assets: 2 }, "2,400 partitions (2,000 keys in 2 assets)"],
  [{ pairs: 9, keys: 9, assets: 2 }, "9 partitions"],
])("%o are %s", (pairs, text) => {
  expect(pairsText(pairs)).toBe(text);
});
