import { expect, test } from "vitest";
import { layoutOf } from "../../parts/map-geometry.ts";
import { seenStretch } from "./use-seen-stretch.ts";

const VIEW = { fromRow: 2, toRow: 3, fromColumn: 5, toColumn: 6 };

function seen(lines: { columns?: number; down?: number; lead?: number }) {
  const layout = layoutOf({ cells: 100, ...lines, size: 8, width: 400 });
  return seenStretch(VIEW, layout, 1_000);
}

test("what is seen are whole rows, from the first ordinal of the map on", () => {
  expect(seen({ columns: 10 })).toEqual({ from: 1_020, through: 1_040 });
  expect(seen({ columns: 10, lead: 4 })).toEqual({ from: 1_016, through: 1_036 });
  expect(seen({ columns: 30 })).toEqual({ from: 1_060, through: 1_100 });
});

test("where cells follow each other down, whole columns are seen", () => {
  expect(seen({ down: 4 })).toEqual({ from: 1_020, through: 1_028 });
  expect(seen({ down: 4, lead: 3 })).toEqual({ from: 1_017, through: 1_025 });
});
