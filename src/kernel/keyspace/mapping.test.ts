import { describe, expect, test } from "vitest";
import { defaultMapping, isOneToOne, mappingFault, PartitionMapping } from "./mapping.ts";
import { PartitionDefinition } from "./definition.ts";

const define = (definition: unknown) => PartitionDefinition.parse(definition);
const mapping = (value: unknown) => PartitionMapping.parse(value);

const daily = define({ type: "daily", start: "2025-01-01" });
const laterDaily = define({ type: "daily", start: "2025-02-01" });
const monthly = define({ type: "monthly", start: "2025-01" });
const regions = define({ type: "static", keys: ["eu", "us"] });
const grid = define({ type: "multi", dimensions: { day: daily, region: regions } });

describe("mappingFault", () => {
  test("finds nothing wrong with mappings that fit", () => {
    expect(mappingFault(mapping({ type: "identity" }), daily, laterDaily)).toBeNull();
    expect(mappingFault(mapping({ type: "time_window" }), monthly, daily)).toBeNull();
    expect(mappingFault(mapping({ type: "offset", by: -1 }), daily, laterDaily)).toBeNull();
    expect(mappingFault(mapping({ type: "dimension", dimension: "day" }), grid, daily)).toBeNull();
    expect(mappingFault(mapping({ type: "all" }), null, grid)).toBeNull();
    expect(mappingFault(mapping({ type: "identity" }), null, null)).toBeNull();
  });

  test("says what does not fit", () => {
    expect(mappingFault(mapping({ type: "identity" }), daily, monthly)).toContain(
      "not daily and monthly",
    );
    expect(mappingFault(mapping({ type: "time_window" }), grid, daily)).toContain("time_window");
    expect(mappingFault(mapping({ type: "offset", by: 1 }), grid, grid)).toContain("one dimension");
    expect(mappingFault(mapping({ type: "dimension", dimension: "dya" }), grid, daily)).toContain(
      "There is no dimension dya in multi (day: daily, region: static) (perhaps day is meant).",
    );
    expect(mappingFault(mapping({ type: "time_window" }), daily, null)).toContain('use "all"');
  });
});

describe("isOneToOne", () => {
  test("holds only where the same ordinals mean the same partitions", () => {
    expect(isOneToOne(mapping({ type: "identity" }), daily, daily)).toBe(true);
    expect(isOneToOne(mapping({ type: "time_window" }), daily, daily)).toBe(true);
    expect(isOneToOne(mapping({ type: "identity" }), daily, laterDaily)).toBe(false);
    expect(isOneToOne(mapping({ type: "offset", by: -1 }), daily, daily)).toBe(false);
    expect(isOneToOne(mapping({ type: "time_window" }), monthly, daily)).toBe(false);
  });
});

describe("defaultMapping", () => {
  test("takes what is plainly meant and leaves the rest to a person", () => {
    expect(defaultMapping(daily, daily)).toEqual({ type: "identity" });
    expect(defaultMapping(monthly, daily)).toMatchObject({ type: "time_window" });
    expect(defaultMapping(grid, daily)).toEqual({ type: "dimension", dimension: "day" });
    expect(defaultMapping(laterDaily, grid)).toEqual({ type: "dimension", dimension: "day" });
    expect(defaultMapping(null, daily)).toEqual({ type: "all" });
    expect(defaultMapping(daily, regions)).toBeNull();
  });
});
