import { describe, expect, test } from "vitest";
import type { DynamicKeys } from "./keyspace.ts";
import { keyspaceOf } from "./keyspace-of.ts";
import { PartitionDefinition } from "./definition.ts";
import { PartitionMapping } from "./mapping.ts";
import { upstreamOrdinals } from "./map-partitions.ts";

const noKeys: DynamicKeys = { count: () => 0, keyAt: () => "", indexOf: () => null };

function keyspace(definition: Record<string, unknown>) {
  return keyspaceOf(PartitionDefinition.parse(definition), noKeys, "2025-07-01T00:00:00.000Z");
}

const days = keyspace({ type: "daily", start: "2025-01-01" });
const months = keyspace({ type: "monthly", start: "2025-01" });
const grid = keyspace({
  type: "multi",
  dimensions: {
    day: { type: "daily", start: "2025-01-01" },
    region: { type: "static", keys: ["eu", "us"] },
  },
});

describe("upstreamOrdinals", () => {
  test("makes a month from its days", () => {
    expect(
      upstreamOrdinals(PartitionMapping.parse({ type: "time_window" }), months, days, 1),
    ).toEqual([[31, 58]]);
  });

  test("makes a local day from the hours of its own zone", () => {
    const local = keyspace({ type: "daily", start: "2025-03-30", time_zone: "Europe/Berlin" });
    const hours = keyspace({ type: "hourly", start: "2025-03-29T23:00Z" });

    expect(
      upstreamOrdinals(PartitionMapping.parse({ type: "time_window" }), local, hours, 0),
    ).toEqual([[0, 22]]);
  });

  test("has nothing before the first partition", () => {
    const before = PartitionMapping.parse({ type: "offset", by: -1 });

    expect(upstreamOrdinals(before, days, days, 0)).toEqual([]);
    expect(upstreamOrdinals(before, days, days, 1)).toEqual([[0, 0]]);
  });

  test("follows one dimension in both directions", () => {
    const byDay = PartitionMapping.parse({ type: "dimension", dimension: "day" });
    const byRegion = PartitionMapping.parse({ type: "dimension", dimension: "region" });
    const regions = keyspace({ type: "static", keys: ["us", "eu"] });

    expect(upstreamOrdinals(byDay, grid, days, 5)).toEqual([[2, 2]]);
    expect(upstreamOrdinals(byDay, days, grid, 2)).toEqual([[4, 5]]);
    expect(upstreamOrdinals(byRegion, regions, grid, 0).slice(0, 2)).toEqual([
      [1, 1],
      [3, 3],
    ]);
  });

  test("looks keys up in a table", () => {
    const table = PartitionMapping.parse({
      type: "table",
      map: { "2025-02": ["2025-01-03", "2025-01-01"] },
    });

    expect(upstreamOrdinals(table, months, days, 1)).toEqual([
      [0, 0],
      [2, 2],
    ]);
    expect(upstreamOrdinals(table, months, days, 0)).toEqual([]);
  });
});
