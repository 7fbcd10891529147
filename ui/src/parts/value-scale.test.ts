import { expect, test } from "vitest";
import { chartText, scaleOf } from "./value-scale.ts";

test("a chart begins at nothing, but where values are below it or hardly differ", () => {
  expect(scaleOf([1, 4])).toMatchObject({ least: 0, most: 4 });
  expect(scaleOf([-2, 4])).toMatchObject({ least: -2, most: 4 });
  expect(scaleOf([1_000, 1_010])).toMatchObject({ least: 1_000, most: 1_010 });
});

test("heights go from 0 to 1, and equal values stand in the middle", () => {
  const { heightAt } = scaleOf([0, 5, 10]);
  expect([0, 5, 10].map(heightAt)).toEqual([0, 0.5, 1]);
  expect(scaleOf([7, 7]).heightAt(7)).toBe(0.5);
});

test("a sentence says what a chart shows", () => {
  const values = [
    { key: "a", name: "2026-01-01", value: 3 },
    { key: "b", name: "2026-01-02", value: 1_200 },
  ];
  expect(chartText("rows", "rows", values)).toBe(
    "rows: 2 values between 3 rows and 1,200 rows, the last 1,200 rows (2026-01-02)",
  );
});
