import type { Tone } from "./status-look.ts";
import { rateText } from "./time-text.ts";

/** When a value was seen, in seconds since the start of 1970, and the value. */
export type PlotPoint = readonly [at: number, value: number];

/** One series of a plot. Bars stand on those before them; a line holds a value until the next. */
export type PlotSeries = {
  name: string;
  points: readonly PlotPoint[];
  kind?: "line" | "bar";
  /** What it means; series without one are told apart by colour and dashes. */
  tone?: Tone;
};

/** A table with the times once and a column for each series, as it is drawn. */
export type PlotTable = [times: number[], ...values: (number | null)[][]];

/** The series by their common times, between two times. */
export function tableOf(
  series: readonly PlotSeries[],
  from = Number.NEGATIVE_INFINITY,
  to = Number.POSITIVE_INFINITY,
): PlotTable {
  const within = series.map(
    ({ points }) => new Map(points.filter(([at]) => at >= from && at <= to)),
  );
  const times = [...new Set(within.flatMap((values) => [...values.keys()]))].toSorted(
    (a, b) => a - b,
  );
  return [times, ...within.map((values) => times.map((at) => values.get(at) ?? null))];
}

/** The same with each column of bars on top of those before it. */
export function stackedTable(table: PlotTable, series: readonly PlotSeries[]): PlotTable {
  const [times, ...columns] = table;
  const heights = times.map(() => 0);
  const stacked = columns.map((column, index) => {
    if (series[index]?.kind !== "bar") return column;
    return column.map((value, row) => {
      const height = (heights[row] ?? 0) + (value ?? 0);
      heights[row] = height;
      return value === null ? null : height;
    });
  });
  return [times, ...stacked];
}

/** The last, the least and the greatest value of a series; null when it has none. */
export type PlotSummary = { last: number; least: number; most: number } | null;

/** What a column of a table comes to. */
export function summaryOf(column: readonly (number | null)[]): PlotSummary {
  const values = column.filter((value) => value !== null);
  const last = values.at(-1);
  if (last === undefined) return null;
  let least = last;
  let most = last;
  for (const value of values) {
    if (value < least) least = value;
    if (value > most) most = value;
  }
  return { last, least, most };
}

/** A value with its unit: `1,204 ms`. */
export function valueText(value: number, unit: string): string {
  return unit === "" ? rateText(value) : `${rateText(value)} ${unit}`;
}

/** All that a plot shows, in a sentence, for those who cannot see it. */
export function plotText(
  label: string,
  unit: string,
  series: readonly PlotSeries[],
  table: PlotTable,
): string {
  const [, ...columns] = table;
  const told = series.map(({ name }, index) => {
    const summary = summaryOf(columns[index] ?? []);
    if (summary === null) return `${name}: nothing`;
    const { last, least, most } = summary;
    const range = `between ${valueText(least, unit)} and ${valueText(most, unit)}`;
    return `${name}: last ${valueText(last, unit)}, ${range}`;
  });
  return `${label}. ${told.join("; ")}.`;
}

/** A number on an axis in at most four letters: `950`, `1.2k`, `3M`. */
export function axisText(value: number): string {
  return value.toLocaleString("en-US", {
    notation: "compact",
    maximumFractionDigits: Math.abs(value) < 10 ? 2 : 1,
  });
}

/** The time of day on an axis, as the machine of whoever looks has it. */
export function clockText(atSeconds: number, hasSeconds = false): string {
  const date = new Date(atSeconds * 1_000);
  const two = (value: number): string => String(value).padStart(2, "0");
  const minutes = `${two(date.getHours())}:${two(date.getMinutes())}`;
  return hasSeconds ? `${minutes}:${two(date.getSeconds())}` : minutes;
}
