import { describe, expect, test } from "vitest";
import { isNarrowMap, planMap } from "./map-plan.ts";

const one = (count: number) => [{ name: "", count, stride: 1 }];

describe("planMap", () => {
  test("shows days as weeks that begin on Monday", () => {
    // 2025-06-05 is a Thursday.
    const plan = planMap({ type: "daily", start: "2025-06-05", time_zone: "UTC" }, one(25));
    if (plan.kind !== "calendar") throw new Error(plan.kind);
    expect([plan.columns, plan.lead]).toEqual([7, 3]);
    expect([plan.rowLabel(0), plan.rowLabel(1)]).toEqual(["2025-06-02", "2025-06-09"]);
    expect(plan.columnLabel(3)).toBe("Th");
  });

  test("puts more weeks in a row where there are many", () => {
    const days = { type: "daily", start: "1969-12-31", time_zone: "UTC" } as const;
    const plan = planMap(days, one(700));
    if (plan.kind !== "calendar") throw new Error(plan.kind);
    expect([plan.columns, plan.lead]).toEqual([28, 2]);
    expect([plan.rowLabel(0), plan.rowLabel(1)]).toEqual(["1969-12-29", "1970-01-26"]);
    expect(plan.columnLabel(27)).toBe("Su");
    expect(planMap(days, one(5_000))).toMatchObject({ columns: 91 });
    expect([isNarrowMap(days, 700), isNarrowMap(days, 5_000)]).toEqual([true, false]);
  });

  test("shows hours by day", () => {
    const start = "2025-06-05T03:00";
    const plan = planMap({ type: "hourly", start, time_zone: "UTC" }, one(90));
    if (plan.kind !== "hours") throw new Error(plan.kind);
    expect([plan.columns, plan.lead]).toEqual([24, 3]);
    expect([plan.rowLabel(0), plan.columnLabel(3)]).toEqual(["2025-06-05", "03"]);
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
