import { describe, expect, test } from "vitest";
import { type Axis, beginAlike, cutInMiddle, placedLabels } from "./map-axes.tsx";

test("a label that is too long keeps its beginning and its end", () => {
  expect(cutInMiddle("eu-west-1", 9)).toBe("eu-west-1");
  expect(cutInMiddle("customer-0000000001", 9)).toBe("cust…0001");
  expect(cutInMiddle("customer-0000000002", 10)).toBe("custo…0002");
});

test("labels that are too long are cut where they are alike, so that what differs is seen", () => {
  const cut = (labels: readonly string[], letters: number) =>
    labels.map((label) => cutInMiddle(label, letters, beginAlike(labels)));
  const warehouses = ["warehouse-north-01-europe", "warehouse-north-02-europe"];
  expect(cut(warehouses, 14)).toEqual(["wareh…1-europe", "wareh…2-europe"]);
  // What differs is seen at the beginning, or at the end, as it is.
  expect(cut(["a-customer-of-ours", "b-customer-of-ours"], 10)).toEqual([
    "a-cus…ours",
    "b-cus…ours",
  ]);
  expect(cut(["customer-0000000001", "customer-0000000002"], 9)).toEqual([
    "cust…0001",
    "cust…0002",
  ]);
  // Much follows what differs.
  const files = ["reports/of/eu/and/all/its/shops", "reports/of/us/and/all/its/shops"];
  expect(cut(files, 12)).toEqual(["…eu/and/all…", "…us/and/all…"]);
  expect(cut(["warehouse-north-01-europe"], 14)).toEqual(["warehou…europe"]);
  expect(beginAlike([])).toBe(0);
});

describe("placedLabels", () => {
  const shown = (axis: Partial<Axis>, length: number) => {
    const whole = { size: 12, from: 0, to: 24, scrolled: 0, extent: 300, apart: 72, ...axis };
    const labels = placedLabels(whole, () => length);
    for (const { offset } of labels) {
      expect(offset).toBeGreaterThanOrEqual(0);
      expect(offset + length).toBeLessThanOrEqual(Math.max(length, whole.extent));
    }
    return labels.map(({ place, offset }) => [place, offset]);
  };

  test("a label that the edge would cut is left out where it has no room beside the one before", () => {
    // The one of column 24 would begin 12 pixels before the edge.
    expect(shown({}, 70)).toEqual([
      [0, 0],
      [6, 72],
      [12, 144],
      [18, 216],
    ]);
  });

  test("a label that the edge would cut is moved inside where there is room", () => {
    expect(shown({ to: 3, extent: 48, size: 12, apart: 24 }, 14)).toEqual([
      [0, 0],
      [2, 24],
    ]);
    expect(shown({ to: 24 }, 30).at(-1)).toEqual([24, 270]);
    // Three rows of 8 pixels: the last has its label too.
    expect(shown({ to: 2, extent: 24, size: 8, apart: 12 }, 12)).toEqual([
      [0, 0],
      [2, 12],
    ]);
  });

  test("labels stay inside wherever the map is scrolled to, and one is always seen", () => {
    for (let scrolled = 0; scrolled < 500; scrolled += 7) {
      for (const extent of [40, 60, 100, 300]) {
        const from = Math.floor(scrolled / 12);
        const to = Math.ceil((scrolled + extent) / 12) - 1;
        const labels = shown({ from, to, scrolled, extent }, 70);
        const isAnyDue = Math.ceil(from / 6) * 6 <= to;
        expect(labels.length > 0).toBe(isAnyDue);
      }
    }
  });
});
