import type { PlotPoint } from "../../parts/plot-data.ts";

const MINUTE = 60;

/** What buckets come to in each minute, also in those without one, as far as the time goes. */
export function samplesByMinute(
  points: readonly PlotPoint[],
  from: number,
  to: number,
): PlotPoint[] {
  const sums = new Map<number, number>();
  for (const [at, value] of points) {
    const minute = Math.floor(at / MINUTE) * MINUTE;
    sums.set(minute, (sums.get(minute) ?? 0) + value);
  }
  const minutes: PlotPoint[] = [];
  for (let minute = Math.ceil(from / MINUTE) * MINUTE; minute <= to; minute += MINUTE) {
    minutes.push([minute, sums.get(minute) ?? 0]);
  }
  return minutes;
}

/** The points of a value that holds until the next, up to the end of the time. */
export function heldUntil(points: readonly PlotPoint[], to: number): PlotPoint[] {
  const last = points.at(-1);
  return last === undefined || last[0] >= to ? [...points] : [...points, [to, last[1]]];
}
