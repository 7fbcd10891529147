import { numberText } from "../../../src/kernel/metadata-value.ts";
import { visibleText } from "./visible-text.ts";

/** A number, and what it is of. */
export type ChartValue = { readonly key: string; readonly name: string; readonly value: number };

/** The least and the greatest that a chart shows, and how high a value stands in it, from 0 to 1. */
export type ValueScale = { least: number; most: number; heightAt: (value: number) => number };

/** From nothing to the greatest value; from the least where that is below nothing, or all are far above it. */
export function scaleOf(values: readonly number[]): ValueScale {
  const lowest = values.reduce((least, value) => Math.min(least, value), Number.POSITIVE_INFINITY);
  const most = values.reduce(
    (highest, value) => Math.max(highest, value),
    Number.NEGATIVE_INFINITY,
  );
  // Values that hardly differ would be a line along the top.
  const isFarUp = lowest > 0 && most - lowest < lowest / 2;
  const least = isFarUp || lowest < 0 ? lowest : 0;
  const span = most - least;
  return {
    least,
    most,
    heightAt: (value) => (span > 0 ? (value - least) / span : 0.5),
  };
}

/** All that a chart shows, in a sentence, for those who cannot see it. */
export function chartText(
  label: string,
  unit: string | undefined,
  values: readonly ChartValue[],
): string {
  const last = values.at(-1);
  const all = values.map(({ value }) => value);
  if (last === undefined) return `${label}: nothing`;
  const text = (value: number): string => numberText(value, unit);
  const least = all.reduce((one, other) => Math.min(one, other));
  const most = all.reduce((one, other) => Math.max(one, other));
  const count = `${values.length} ${values.length === 1 ? "value" : "values"}`;
  return visibleText(
    `${label}: ${count} between ${text(least)} and ${text(most)}, the last ${text(last.value)} (${last.name})`,
  );
}
