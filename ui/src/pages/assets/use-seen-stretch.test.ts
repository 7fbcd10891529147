import { expect, test } from "vitest";
import { layoutOf } from "../../parts/map-geometry.ts";
import type { MapPlan } from "./map-plan.ts";
import { seenStretch } from "./use-seen-stretch.ts";

const VIEW = { fromRow: 2, toRow: 3, fromColumn: 5, toColumn: 6 };

function seen(plan: MapPlan, columns: number, lead = 0) {
  const layout = layoutOf({ cells: 100, columns, lead, size: 8, width: 400 });
  return seenStretch(VIEW, layout, plan, 1_000);
}

test("what is seen are whole rows, from the first ordinal of the map on", () => {
  expect(seen({ kind: "flow" }, 10)).toEqual({ from: 1_020, through: 1_040 });
  expect(seen({ kind: "flow" }, 10, 4)).toEqual({ from: 1_016, through: 1_036 });
  expect(seen({ kind: "flow" }, 30)).toEqual({ from: 1_060, through: 1_100 });
});

test("on a turned grid its columns are the rows", () => {
  const plan = { kind: "grid", columns: 4, rows: 25, isTurned: true } as const;
  expect(seen(plan, 25)).toEqual({ from: 1_020, through: 1_028 });
});
