const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** Distances between labels of an axis that read well. */
const STEPS_MS: readonly number[] = [
  ...[1, 5, 15, 30].map((seconds) => seconds * 1_000),
  ...[1, 5, 15, 30].map((minutes) => minutes * MINUTE_MS),
  ...[1, 3, 6, 12].map((hours) => hours * HOUR_MS),
  ...[1, 2, 7, 14, 30, 91, 365].map((days) => days * DAY_MS),
];

/** The room that a label takes. */
const LABEL_PIXELS = 84;

/** The room that a mark takes, in both directions. */
export const MARK_PIXELS = 22;

/** Marks that stand above each other; what does not fit is counted. */
export const LANES_MAX = 5;

/** The room that the number of those that do not fit takes. */
const CROWD_PIXELS = 40;

/** The part of time that is drawn, and how wide. */
export type Scale = { fromMs: number; toMs: number; width: number };

/** Where a moment lies, in pixels from the left; outside moments lie at the edges. */
export function leftOf(ms: number, { fromMs, toMs, width }: Scale): number {
  const part = (ms - fromMs) / Math.max(1, toMs - fromMs);
  return Math.min(1, Math.max(0, part)) * width;
}

/** A mark with its place: `lane` counts from the axis up. */
export type Placed<Mark> = { mark: Mark; left: number; lane: number };

/** A place where more marks are than can be drawn. */
export type Crowd = { left: number; count: number };

/** Places marks, the earliest first, so that none covers another: where it is tight they stack. */
export function placeMarks<Mark extends { at: string }>(
  marks: readonly Mark[],
  scale: Scale,
): { placed: Placed<Mark>[]; crowds: Crowd[]; lanes: number } {
  const ends: number[] = [];
  const placed: Placed<Mark>[] = [];
  const crowds: Crowd[] = [];
  for (const mark of marks) {
    const left = leftOf(Date.parse(mark.at), scale);
    const free = ends.findIndex((end) => left >= end);
    const lane = free < 0 ? ends.length : free;
    if (lane < LANES_MAX) {
      ends[lane] = left + MARK_PIXELS;
      placed.push({ mark, left, lane });
      continue;
    }
    const crowd = crowds.at(-1);
    if (crowd !== undefined && left - crowd.left < CROWD_PIXELS) crowd.count++;
    else crowds.push({ left, count: 1 });
  }
  return { placed, crowds, lanes: Math.max(1, ends.length) };
}

/** The labels of the axis, in the time zone of whoever looks. */
export function axisLabels(scale: Scale): { left: number; text: string }[] {
  const { fromMs, toMs, width } = scale;
  const roomMs = ((toMs - fromMs) * LABEL_PIXELS) / Math.max(1, width);
  const stepMs = STEPS_MS.find((step) => step >= roomMs) ?? STEPS_MS.at(-1) ?? DAY_MS;
  const awayMs = new Date(fromMs).getTimezoneOffset() * MINUTE_MS;
  const labels: { left: number; text: string }[] = [];
  for (
    let ms = Math.ceil((fromMs - awayMs) / stepMs) * stepMs + awayMs;
    ms <= toMs && labels.length < 100;
    ms += stepMs
  ) {
    labels.push({ left: leftOf(ms, scale), text: labelText(new Date(ms), stepMs) });
  }
  return labels;
}

function labelText(date: Date, stepMs: number): string {
  const isMidnight = date.getHours() === 0 && date.getMinutes() === 0 && date.getSeconds() === 0;
  if (stepMs >= 91 * DAY_MS) {
    return date.toLocaleDateString("en-US", { month: "short", year: "numeric" });
  }
  if (stepMs >= DAY_MS || isMidnight) {
    return date.toLocaleDateString("en-US", { month: "short", day: "numeric" });
  }
  const seconds = stepMs < MINUTE_MS ? ({ second: "2-digit" } as const) : {};
  return date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", ...seconds });
}
