import { describe, expect, test } from "vitest";
import type { Selector } from "../../kernel/keyspace/selector.ts";
import { keysOf, type SelectorFlags, selectorOfFlags } from "./selector-flags.ts";

describe("selectorOfFlags", () => {
  test.each<[SelectorFlags, Selector]>([
    [
      { start: "a", end: "b" },
      { type: "range", start: "a", end: "b" },
    ],
    [{ partitions: "a,b" }, { type: "explicit", partition_keys: ["a", "b"] }],
    [{ all: true }, { type: "all" }],
    [{ stale: true }, { type: "stale", limit: 10_000 }],
    [
      { stale: true, reason: ["CODE_CHANGED"], limit: 5 },
      { type: "stale", reasons: ["CODE_CHANGED"], limit: 5 },
    ],
    [{ filter: ["region=us-*"] }, { type: "filter", dimensions: { region: "us-*" } }],
    [
      { filter: ["region=eu,us", "day=2026-01-01..2026-01-31"] },
      {
        type: "filter",
        dimensions: { region: ["eu", "us"], day: { start: "2026-01-01", end: "2026-01-31" } },
      },
    ],
  ])("makes of %j", (flags, selector) => {
    expect(selectorOfFlags(flags)).toEqual(selector);
  });

  test.each<[SelectorFlags, string]>([
    [{}, "or --stale, got nothing."],
    [{ stale: true, start: "a" }, "got --start and --end together with --stale."],
    [{ all: true, limit: 5 }, "--limit: expected only together with --stale, got it with --all."],
    [{ partitions: "a", reason: ["CODE_CHANGED"] }, "--reason: expected only together with"],
    [{ all: true, partitions: "a" }, "got --partitions together with --all."],
    [{ start: "a" }, "--end: expected the last partition key of the range, got nothing."],
    [{ end: "a" }, "--start: expected the first partition key of the range, got nothing."],
    [{ partitions: "a,,b" }, '--partitions: expected keys separated by commas, got "a,,b".'],
    [{ filter: ["us-*"] }, '--filter: expected dimension=pattern such as region=us-*, got "us-*".'],
    [{ filter: ["r=a", "r=b"] }, "--filter: expected each dimension once, got r twice."],
  ])("refuses %j", (flags, message) => {
    expect(() => selectorOfFlags(flags)).toThrow(message);
  });
});

describe("keysOf", () => {
  test("tells the commas between keys from those within", () => {
    expect(keysOf("day=1,region=eu,day=2,region=us")).toEqual([
      "day=1,region=eu",
      "day=2,region=us",
    ]);
    expect(keysOf("day=1,region=eu;day=2,region=us")).toEqual([
      "day=1,region=eu",
      "day=2,region=us",
    ]);
  });

  test("takes blanks around keys for typing", () => {
    expect(keysOf("a, b")).toEqual(["a", "b"]);
  });
});

test("takes a dimension of any name for one, also one that every object has", () => {
  const names = ["__proto__", "constructor", "toString", "hasOwnProperty"];
  const selector = selectorOfFlags({ filter: names.map((name) => `${name}=x`) });
  if (selector.type !== "filter") throw new Error("A filter was asked for.");
  expect(Object.keys(selector.dimensions)).toEqual(names);
});
