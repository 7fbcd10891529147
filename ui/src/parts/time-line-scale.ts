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

/** How far the clocks of whoever looks are behind UTC at a moment. */
function awayOf(ms: number): number {
  return new Date(ms).getTimezoneOffset() * MINUTE_MS;
}

/** The labels of the axis, in the time zone of whoever looks. */
export function axisLabels(
  scale: Scale,
  awayMsOf: (ms: number) => number = awayOf,
): { left: number; text: string }[] {
  const { fromMs, toMs, width } = scale;
  const roomMs = ((toMs - fromMs) * LABEL_PIXELS) / Math.max(1, width);
  const stepMs = STEPS_MS.find((step) => step >= roomMs) ?? STEPS_MS.at(-1) ?? DAY_MS;
  const awayMs = awayMsOf(fromMs);
  const labels: { left: number; text: string }[] = [];
  for (let shown = Math.ceil((fromMs - awayMs) / stepMs) * stepMs; labels.length < 100; ) {
    // Where clocks were changed since, midnight is still midnight.
    const ms = shown + (stepMs > HOUR_MS ? awayMsOf(shown + awayMs) : awayMs);
    if (ms > toMs) break;
    const text = labelText(new Date(ms - awayMsOf(ms)), stepMs);
    labels.push({ left: leftOf(ms, scale), text });
    shown += stepMs;
  }
  return labels;
}

/** What clocks show, as a time of UTC, in as few words as the distance between labels needs. */
function labelText(shown: Date, stepMs: number): string {
  const timeZone = "UTC";
  if (stepMs >= 91 * DAY_MS) {
    return shown.toLocaleDateString("en-US", { timeZone, month: "short", year: "numeric" });
  }
  if (stepMs >= DAY_MS || shown.getTime() % DAY_MS === 0) {
    return shown.toLocaleDateString("en-US", { timeZone, month: "short", day: "numeric" });
  }
  const seconds = stepMs < MINUTE_MS ? ({ second: "2-digit" } as const) : {};
  const time = { hour: "2-digit", minute: "2-digit", ...seconds } as const;
  return shown.toLocaleTimeString("en-GB", { timeZone, ...time });
}
