import { describe, expect, test } from "vitest";
import { PartitionDefinition } from "../../kernel/keyspace/definition.ts";
import { partitionReaderOf } from "./runner.ts";

function readerOf(definition: object) {
  return partitionReaderOf("orders", PartitionDefinition.parse(definition));
}

const days = { type: "daily", start: "2025-01-01" };
const regions = { type: "static", keys: ["eu", "us, west"] };

describe("partitionReaderOf", () => {
  test("reads the values of every dimension", () => {
    const reader = readerOf({ type: "multi", dimensions: { day: days, region: regions } });

    expect(reader.valuesOf("day=2025-01-02,region=us%2C%20west")).toEqual({
      day: "2025-01-02",
      region: "us, west",
    });
  });

  test("has the window of the only dimension that is a time", () => {
    const window = { start: "2025-01-02T00:00:00.000Z", end: "2025-01-03T00:00:00.000Z" };
    const several = readerOf({ type: "multi", dimensions: { day: days, region: regions } });

    expect(readerOf(days).windowOf("2025-01-02")).toEqual(window);
    expect(several.windowOf("day=2025-01-02,region=eu")).toEqual(window);
    expect(readerOf(regions).windowOf("eu")).toBeNull();
  });

  test("takes keys of dynamic definitions as they come", () => {
    const reader = readerOf({ type: "dynamic", name: "customers" });

    expect(reader.valuesOf("acme")).toEqual({ partition: "acme" });
  });

  test("refuses a key that the definition does not have", () => {
    for (const [definition, key] of [
      [days, "2024-12-31"],
      [days, "tomorrow"],
      [{ ...days, end: "2025-02-01" }, "2025-02-01"],
      [regions, "asia"],
      [{ type: "integers", start: 0, end: 100, size: 10 }, "5-14"],
      [{ type: "multi", dimensions: { day: days, region: regions } }, "day=2025-01-02"],
    ] as const) {
      expect(() => readerOf(definition).valuesOf(key)).toThrow(/has no partition/);
    }
  });
});
