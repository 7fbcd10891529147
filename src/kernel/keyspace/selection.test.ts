import { describe, expect, test } from "vitest";
import type { DynamicKeys } from "./keyspace.ts";
import { keyspaceOf } from "./keyspace-of.ts";
import { PartitionDefinition } from "./definition.ts";
import { resolveSelector } from "./resolve-selector.ts";
import { type SelectedPartitions, selectionsOverlap } from "./selection.ts";
import type { Selector } from "./selector.ts";

const noKeys: DynamicKeys = { count: () => 0, keyAt: () => "", indexOf: () => null };

function selected(definition: Record<string, unknown>, selector: Selector): SelectedPartitions {
  const parsed = PartitionDefinition.parse(definition);
  const keyspace = keyspaceOf(parsed, noKeys, "2025-07-01T00:00:00.000Z");
  return { definition: parsed, keyspace, selection: resolveSelector(parsed, keyspace, selector) };
}

const DAILY = { type: "daily", start: "2025-01-01" };
const range = (start: string, end: string): Selector => ({ type: "range", start, end });

describe("selectionsOverlap", () => {
  test("sees a shared day and a gap between ranges", () => {
    const january = selected(DAILY, range("2025-01-01", "2025-01-31"));

    expect(selectionsOverlap(january, selected(DAILY, range("2025-01-31", "2025-02-05")))).toBe(
      true,
    );
    expect(selectionsOverlap(january, selected(DAILY, range("2025-02-01", "2025-02-05")))).toBe(
      false,
    );
  });

  test("compares days, not ordinals, when the definition has another start now", () => {
    const moved = { ...DAILY, start: "2024-06-01" };
    const january = selected(DAILY, range("2025-01-01", "2025-01-31"));

    expect(selectionsOverlap(january, selected(moved, range("2025-01-15", "2025-01-15")))).toBe(
      true,
    );
    expect(selectionsOverlap(january, selected(moved, range("2024-06-01", "2024-06-30")))).toBe(
      false,
    );
  });

  test("takes everything of an asset without partitions to overlap", () => {
    expect(selectionsOverlap(null, null)).toBe(true);
  });

  test("says yes when the dimensions are not comparable", () => {
    const grid = {
      type: "multi",
      dimensions: { day: DAILY, region: { type: "static", keys: ["eu"] } },
    };

    expect(
      selectionsOverlap(selected(grid, { type: "all" }), selected(DAILY, { type: "all" })),
    ).toBe(true);
  });

  test("says yes when too many keys would have to be compared one by one", () => {
    const berlin = { type: "hourly", start: "2020-01-01", time_zone: "Europe/Berlin" };
    const utc = { type: "hourly", start: "2020-01-01" };

    expect(
      selectionsOverlap(selected(berlin, { type: "all" }), selected(utc, { type: "all" })),
    ).toBe(true);
  });
});
