import { describe, expect, test } from "vitest";
import type { PartitionDefinition } from "../../../../src/kernel/keyspace/definition.ts";
import { isNarrowMap, newestEnd, planMap } from "./map-plan.ts";

const one = (count: number) => [{ name: "", count, stride: 1 }];

describe("planMap", () => {
  test("shows days as weeks that begin on Monday and lie along the page", () => {
    // 2025-06-05 is a Thursday.
    const days = { type: "daily", start: "2025-06-05", time_zone: "UTC" } as const;
    const plan = planMap(days, one(25));
    if (plan.kind !== "calendar") throw new Error(plan.kind);
    expect([plan.down, plan.lead]).toEqual([7, 3]);
    expect([plan.columnLabel(0), plan.columnLabel(1)]).toEqual(["2025-06-02", "2025-06-09"]);
    expect(plan.rowLabel(3)).toBe("Th");
    expect([isNarrowMap(days, 100), isNarrowMap(days, 700)]).toEqual([true, false]);
  });

  test("shows hours by day, and days along the page", () => {
    const start = "2025-06-05T03:00";
    const plan = planMap({ type: "hourly", start, time_zone: "UTC" }, one(90));
    if (plan.kind !== "hours") throw new Error(plan.kind);
    expect([plan.down, plan.lead]).toEqual([24, 3]);
    expect([plan.columnLabel(0), plan.rowLabel(3)]).toEqual(["2025-06-05", "03"]);
  });

  test("has time along the page, whichever dimension it is, however many the others are", () => {
    const days = { type: "daily", start: "2025-06-05", time_zone: "UTC" } as const;
    const shops = { type: "static" as const, keys: ["a", "b"] };
    const first = {
      type: "multi",
      dimensions: { day: days, shop: shops },
    } satisfies PartitionDefinition;
    const last = {
      type: "multi",
      dimensions: { shop: shops, zday: days },
    } satisfies PartitionDefinition;
    const counts = (rows: number, columns: number) => [
      { name: "", count: rows, stride: columns },
      { name: "", count: columns, stride: 1 },
    ];
    const turned = planMap(first, counts(10, 400));
    expect(turned).toMatchObject({ columns: 400, isTurned: true });
    const straight = planMap(last, counts(400, 10));
    expect(straight).toMatchObject({ columns: 10, isTurned: false });
    expect([newestEnd(first, turned), newestEnd(last, straight)]).toEqual(["right", "right"]);
    // Too many to be turned.
    const many = planMap(first, counts(5_000, 400));
    expect(newestEnd(first, many)).toBe("bottom");
    expect(newestEnd(shops, planMap(shops, one(2)))).toBeNull();
  });

  test("sets the last of several dimensions against the others, and lets all else flow", () => {
    const dimensions = [
      { name: "day", count: 9, stride: 6 },
      { name: "kind", count: 2, stride: 3 },
      { name: "region", count: 3, stride: 1 },
    ];
    const definition = { type: "multi", dimensions: {} } as const;
    expect(planMap(definition, dimensions)).toEqual({
      kind: "grid",
      columns: 3,
      rows: 18,
      isTurned: true,
    });
    const wide = [...dimensions.slice(0, 2), { name: "shop", count: 40, stride: 1 }];
    expect(planMap(definition, wide)).toMatchObject({ columns: 40, isTurned: false });
    expect(planMap({ type: "integers", start: 0, size: 1 }, one(9))).toEqual({ kind: "flow" });
    const local = { type: "hourly", start: "2025-06-05", time_zone: "Europe/Berlin" } as const;
    expect(planMap(local, one(9))).toEqual({ kind: "flow" });
  });
});
