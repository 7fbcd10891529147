import { durationText } from "./time-text.ts";

/** A stretch of time that is drawn from left to right. */
export type GanttScale = { fromMs: number; toMs: number };

/** Steps between two marks that people count in: seconds, minutes, hours, days. */
const STEPS_MS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 120_000,
  300_000, 600_000, 900_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000, 43_200_000, 86_400_000,
];

const DAY_MS = 86_400_000;

/** Where a moment stands on the scale, in percent of its width; what is outside stands at its ends. */
export function placeOn(scale: GanttScale, atMs: number): number {
  const lengthMs = Math.max(1, scale.toMs - scale.fromMs);
  return (Math.min(Math.max(atMs - scale.fromMs, 0), lengthMs) / lengthMs) * 100;
}

/** Times since the beginning at which the scale is marked: at most so many, evenly spaced. */
export function marksOf(scale: GanttScale, marksMax: number): number[] {
  const lengthMs = Math.max(1, scale.toMs - scale.fromMs);
  const least = lengthMs / Math.max(1, marksMax);
  const stepMs = STEPS_MS.find((step) => step >= least) ?? Math.ceil(least / DAY_MS) * DAY_MS;
  return Array.from({ length: Math.floor(lengthMs / stepMs) + 1 }, (_, index) => index * stepMs);
}

/** A time since the beginning, as a mark tells it: `500 ms`, `1.5 s`, `2 min`. */
export function markText(ms: number): string {
  if (ms === 0) return "0";
  const isBroken = ms > 1_000 && ms < 60_000 && ms % 1_000 !== 0;
  return isBroken ? `${ms / 1_000} s` : durationText(ms);
}
