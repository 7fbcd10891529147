const FIRST_MS = 100;
const FACTOR = 2;

/**
 * How long to wait after so many failures in a row: doubling from 100 ms up to `maxMs`, of which a
 * random half is taken off, so that workers do not come back in step.
 */
export function backoffMs(failures: number, random: () => number, maxMs: number): number {
  const full = Math.min(maxMs, FIRST_MS * FACTOR ** Math.min(failures - 1, 30));
  return full * (0.5 + random() / 2);
}
