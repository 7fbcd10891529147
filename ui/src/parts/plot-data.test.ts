import { describe, expect, test } from "vitest";
import {
  axisText,
  plotText,
  type PlotSeries,
  stackedTable,
  summaryOf,
  tableOf,
} from "./plot-data.ts";

const DONE: PlotSeries = {
  name: "done",
  kind: "bar",
  points: [
    [10, 2],
    [30, 4],
  ],
};
const FAILED: PlotSeries = {
  name: "failed",
  kind: "bar",
  points: [
    [20, 1],
    [30, 3],
  ],
};

describe("tableOf", () => {
  test("has each time once, in order, and nothing where a series has no word", () => {
    expect(tableOf([DONE, FAILED])).toEqual([
      [10, 20, 30],
      [2, null, 4],
      [null, 1, 3],
    ]);
  });

  test("leaves out what lies outside of the time that is shown", () => {
    expect(tableOf([DONE, FAILED], 20, 29)).toEqual([[20], [null], [1]]);
  });

  test("of nothing is empty", () => {
    expect(tableOf([{ name: "none", points: [] }])).toEqual([[], []]);
    expect(tableOf([])).toEqual([[]]);
  });
});

describe("stackedTable", () => {
  test("puts bars on the bars before them and leaves lines alone", () => {
    const line: PlotSeries = { name: "line", points: [[30, 7]] };
    const series = [DONE, line, FAILED];
    expect(stackedTable(tableOf(series), series)).toEqual([
      [10, 20, 30],
      [2, null, 4],
      [null, null, 7],
      [null, 1, 7],
    ]);
  });
});

describe("what a plot says", () => {
  test("is the last, the least and the greatest value", () => {
    expect(summaryOf([null, 3, 1, 2, null])).toEqual({ last: 2, least: 1, most: 3 });
    expect(summaryOf([null])).toBe(null);
  });

  test("is a sentence for each series, also of one without a value", () => {
    const series = [DONE, { name: "late", points: [] }];
    expect(plotText("Tasks", "per minute", series, tableOf(series))).toBe(
      "Tasks. done: last 4 per minute, between 2 per minute and 4 per minute; late: nothing.",
    );
  });

  test("is short on an axis", () => {
    expect([0, 0.25, 950, 1_234, 3_000_000].map(axisText)).toEqual([
      "0",
      "0.25",
      "950",
      "1.2K",
      "3M",
    ]);
  });
});
