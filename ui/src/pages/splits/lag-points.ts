/** A time in seconds since the start of 1970, and how many milliseconds the copy was behind. */
export type LagPoint = [epochSeconds: number, lagMs: number];

/** The kept samples up to where the page's own ones begin, which are finer; one for each second. */
export function joinPoints(kept: readonly LagPoint[], heard: readonly LagPoint[]): LagPoint[] {
  const start = heard[0]?.[0] ?? Number.POSITIVE_INFINITY;
  const points = new Map<number, number>();
  for (const [at, lag] of kept) if (at < start) points.set(at, lag);
  for (const [at, lag] of heard) points.set(at, lag);
  return [...points].toSorted(([one], [other]) => one - other);
}
