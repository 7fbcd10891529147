import { describe, expect, test } from "vitest";
import type { DynamicKeys } from "../core/partitions/keyspace.ts";
import { keyspaceOf } from "../core/partitions/keyspace-of.ts";
import { PartitionDefinition } from "../core/partitions/partition-definition.ts";
import type { Selector } from "../core/partitions/selector.ts";
import { instantOf } from "../core/instant.ts";
import { uniteSelectors } from "./unite-selectors.ts";

const NO_KEYS: DynamicKeys = {
  count: () => 0,
  keyAt: () => "",
  indexOf: () => null,
  prefetch: () => undefined,
};

function partitions(shape: object) {
  const definition = PartitionDefinition.parse(shape);
  return { definition, keyspace: keyspaceOf(definition, NO_KEYS, instantOf(0)) };
}

const NUMBERS = partitions({ type: "integers", start: 0, end: 99_999 });

function range(start: number, end: number): Selector {
  return { type: "range", start: String(start), end: String(end) };
}

describe("uniteSelectors", () => {
  test("is the one selector there is, and all when one of them is all", () => {
    expect(uniteSelectors([range(1, 2)], NUMBERS)).toEqual(range(1, 2));
    expect(uniteSelectors([range(1, 2), { type: "all" }], NUMBERS)).toEqual({ type: "all" });
  });

  test("is a range where they touch and a list of keys where they do not", () => {
    expect(uniteSelectors([range(1, 5), range(4, 9)], NUMBERS)).toEqual(range(1, 9));
    expect(uniteSelectors([range(7, 7), range(1, 2)], NUMBERS)).toEqual({
      type: "explicit",
      partition_keys: ["1", "2", "7"],
    });
  });

  test("is the range around them when they are too many to be listed", () => {
    expect(uniteSelectors([range(0, 9_999), range(50_000, 50_000)], NUMBERS)).toEqual(
      range(0, 50_000),
    );
  });

  test("is the ranges around them in several dimensions when they are too many", () => {
    const numbers = { type: "integers", start: 0, end: 999 };
    const pairs = partitions({ type: "multi", dimensions: { x: numbers, y: numbers } });
    const filter = (x: object, y: object) => ({ type: "filter", dimensions: { x, y } }) as Selector;
    const one = filter({ start: "0", end: "199" }, { start: "0", end: "99" });
    const other = filter({ start: "400", end: "400" }, { start: "7", end: "200" });
    expect(uniteSelectors([one, other], pairs)).toEqual(
      filter({ start: "0", end: "400" }, { start: "0", end: "200" }),
    );
  });
});
