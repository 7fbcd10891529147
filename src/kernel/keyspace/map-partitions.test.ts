import { describe, expect, test } from "vitest";
import type { DynamicKeys, Partitioned } from "./keyspace.ts";
import { keyspaceOf } from "./keyspace-of.ts";
import { mapSelectionDownstream } from "./map-partitions.ts";
import { PartitionDefinition } from "./definition.ts";
import { PartitionMapping } from "./mapping.ts";
import type { Selector } from "./selector.ts";

const noKeys: DynamicKeys = { count: () => 0, keyAt: () => "", indexOf: () => null };

function partitioned(definition: Record<string, unknown>): Partitioned {
  const parsed = PartitionDefinition.parse(definition);
  return {
    definition: parsed,
    keyspace: keyspaceOf(parsed, noKeys, "2025-07-01T00:00:00.000Z"),
  };
}

const days = partitioned({ type: "daily", start: "2025-01-01" });
const months = partitioned({ type: "monthly", start: "2025-01" });
const regions = { type: "static", keys: ["eu", "us-east", "us-west"] };
const grid = partitioned({
  type: "multi",
  dimensions: { day: { type: "daily", start: "2025-01-01" }, region: regions },
});

function map(
  mapping: Record<string, unknown>,
  upstream: Partitioned,
  selector: Selector,
  downstream: Partitioned,
): Selector {
  return mapSelectionDownstream(
    PartitionMapping.parse(mapping),
    { ...upstream, selector },
    downstream,
  );
}

describe("mapSelectionDownstream", () => {
  test("turns a range of days into the range of months they touch", () => {
    const selector: Selector = { type: "range", start: "2025-01-10", end: "2025-03-02" };

    expect(map({ type: "time_window" }, days, selector, months)).toEqual({
      type: "range",
      start: "2025-01",
      end: "2025-03",
    });
  });

  test("turns a month into all of its days", () => {
    const selector: Selector = { type: "explicit", partition_keys: ["2025-02"] };

    expect(map({ type: "time_window" }, months, selector, days)).toEqual({
      type: "range",
      start: "2025-02-01",
      end: "2025-02-28",
    });
  });

  test("reaches the days whose rolling window holds the selected one", () => {
    const selector: Selector = { type: "explicit", partition_keys: ["2025-02-10"] };

    expect(map({ type: "time_window", start_offset: -6 }, days, selector, days)).toEqual({
      type: "range",
      start: "2025-02-10",
      end: "2025-02-16",
    });
  });

  test("keeps the selector where partitions are the same", () => {
    const selector: Selector = { type: "filter", dimensions: { region: "us-*" } };

    expect(map({ type: "identity" }, grid, selector, grid)).toBe(selector);
  });

  test("leaves out what begins before the downstream asset does", () => {
    const later = partitioned({ type: "daily", start: "2025-06-01" });
    const selector: Selector = { type: "range", start: "2025-01-01", end: "2025-06-03" };

    expect(map({ type: "identity" }, days, selector, later)).toEqual({
      type: "range",
      start: "2025-06-01",
      end: "2025-06-03",
    });
  });

  test("projects several dimensions on the one that counts, and back", () => {
    const selector: Selector = {
      type: "filter",
      dimensions: { day: { start: "2025-01-03", end: "2025-01-05" }, region: "eu" },
    };
    const range: Selector = { type: "range", start: "2025-01-03", end: "2025-01-05" };
    const mapping = { type: "dimension", dimension: "day" };

    expect(map(mapping, grid, selector, days)).toEqual(range);
    expect(map(mapping, days, range, grid)).toEqual({
      type: "filter",
      dimensions: { day: { start: "2025-01-03", end: "2025-01-05" } },
    });
  });

  test("names the keys of a table one by one", () => {
    const mapping = { type: "table", map: { eu: ["2025-01-01"], "us-west": ["2025-01-02"] } };
    const selector: Selector = { type: "range", start: "2025-01-02", end: "2025-01-09" };

    expect(map(mapping, days, selector, partitioned(regions))).toEqual({
      type: "explicit",
      partition_keys: ["us-west"],
    });
  });

  test("selects all where everything depends on everything", () => {
    expect(map({ type: "all" }, days, { type: "all" }, months)).toEqual({ type: "all" });
  });

  test("says so when nothing downstream is touched", () => {
    const early = partitioned({ type: "daily", start: "2024-01-01" });
    const selector: Selector = { type: "range", start: "2024-01-01", end: "2024-01-09" };

    expect(() => map({ type: "time_window" }, early, selector, months)).toThrow(
      "No downstream partition",
    );
  });

  test("refuses more scattered partitions than can be named", () => {
    const hours = partitioned({ type: "hourly", start: "2020-01-01" });
    const longDays = partitioned({ type: "daily", start: "2020-01-01" });
    const firstDays: Selector = { type: "filter", dimensions: { partition: "*-01" } };
    const firstNineDays: Selector = { type: "filter", dimensions: { partition: "*-0?" } };

    expect(map({ type: "time_window" }, longDays, firstDays, hours).type).toBe("explicit");
    expect(() => map({ type: "time_window" }, longDays, firstNineDays, hours)).toThrow(
      "more than the 10000",
    );
  });
});
