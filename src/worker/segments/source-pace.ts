/** The pause to begin with when a source complains for the first time, at the least. */
const INTERVAL_MS_MIN = 20;
const INTERVAL_MS_MAX = 60_000;
/** A pause shorter than this is none. */
const INTERVAL_MS_GONE = 5;
const SLOW_FACTOR = 2;
/** Successes in a row, or time with at least one, after which a little less of a pause is tried. */
const QUICKEN_AFTER = 20;
const QUICKEN_MS = 1_000;
const QUICKEN_FACTOR = 0.9;
const QUICKEN_FACTOR_MIN = 0.5;
/** How long a source is left alone that does not say for how long, at first and at most. */
const REST_MS_FIRST = 500;
const REST_MS_MAX = 60_000;
/** Longest time that a source is believed to want to be left alone. */
export const THROTTLE_MS_MAX = 3_600_000;
/** Over how many requests the present pace is measured. */
const MEASURED = 10;

/**
 * When the next request to a source may be made, in milliseconds of the worker's own clock: not
 * while it wants to be left alone, and with a pause that all workers keep together.
 */
export class SourcePace {
  #intervalMs = 0;
  #workers = 1;
  #perSecond: number | null = null;
  #restsUntil = Number.NEGATIVE_INFINITY;
  /** When the last requests began, the newest last. */
  #starts: number[] = [];
  #slowedAt = Number.NEGATIVE_INFINITY;
  #changedAt = Number.NEGATIVE_INFINITY;
  #successes = 0;
  #complaints = 0;

  /** The pause between requests of all workers together that was learnt. */
  get intervalMs(): number {
    return this.#intervalMs;
  }

  /** Until when the source wants to be left alone. */
  get restsUntil(): number {
    return this.#restsUntil;
  }

  /** Holds to a limit of all workers together; the lowest that was ever given counts. */
  limitTo(perSecond: number | null): void {
    if (perSecond === null) return;
    this.#perSecond = Math.min(perSecond, this.#perSecond ?? perSecond);
  }

  adopt(learnt: { intervalMs: number; restsUntil: number; workers: number }): void {
    this.#intervalMs = learnt.intervalMs;
    this.#workers = learnt.workers;
    this.#restsUntil = Math.max(this.#restsUntil, learnt.restsUntil);
  }

  /** When the next request may begin. */
  nextAt(): number {
    const limitMs = this.#perSecond === null ? 0 : 1_000 / this.#perSecond;
    const pauseMs = Math.max(this.#intervalMs, limitMs) * this.#workers;
    const last = this.#starts.at(-1) ?? Number.NEGATIVE_INFINITY;
    return Math.max(this.#restsUntil, last + pauseMs);
  }

  started(now: number): void {
    this.#starts.push(now);
    if (this.#starts.length > MEASURED) this.#starts.shift();
  }

  /**
   * A request was answered. Answers whether the pause changed. Time counts as well as requests: else
   * the longer the pause, the longer it would stay, and now and then a complaint would make it endless.
   */
  succeeded(startedAt: number, now: number): boolean {
    if (startedAt < this.#slowedAt) return false;
    this.#complaints = 0;
    this.#successes++;
    if (this.#intervalMs === 0) return false;
    const since = Math.max(this.#changedAt, this.#slowedAt, this.#restsUntil);
    if (since === Number.NEGATIVE_INFINITY) this.#changedAt = startedAt;
    const calmMs = Number.isFinite(since) ? now - since : 0;
    const steps = Math.max(this.#successes / QUICKEN_AFTER, calmMs / (QUICKEN_MS * this.#workers));
    if (steps < 1) return false;
    this.#successes = 0;
    this.#changedAt = now;
    const shorter = this.#intervalMs * Math.max(QUICKEN_FACTOR_MIN, QUICKEN_FACTOR ** steps);
    this.#intervalMs = shorter < INTERVAL_MS_GONE ? 0 : shorter;
    return true;
  }

  /** The source said that it is asked too often. */
  throttled(startedAt: number, retryAfterMs: number | null, now: number): void {
    const isNew = this.slowDown(startedAt, now);
    if (isNew) this.#complaints++;
    const restMs = REST_MS_FIRST * 2 ** Math.min(20, Math.max(0, this.#complaints - 1));
    const said = retryAfterMs !== null && retryAfterMs >= 0 ? retryAfterMs : null;
    const ms = Math.min(said ?? Math.min(restMs, REST_MS_MAX), THROTTLE_MS_MAX);
    this.#restsUntil = Math.max(this.#restsUntil, now + ms);
  }

  /**
   * Makes the pause longer. Requests that were under way together fail together: that counts once,
   * and the answer is whether it did.
   */
  slowDown(startedAt: number, now: number): boolean {
    if (startedAt <= this.#slowedAt) return false;
    this.#slowedAt = now;
    this.#successes = 0;
    const before = this.#intervalMs === 0 ? this.#measuredMs(now) : this.#intervalMs;
    const longer = Math.max(INTERVAL_MS_MIN, before * SLOW_FACTOR);
    this.#intervalMs = Math.min(INTERVAL_MS_MAX, longer);
    return true;
  }

  /** How far apart requests were, of all workers if the others are as busy as this one. */
  #measuredMs(now: number): number {
    const [first] = this.#starts;
    if (first === undefined || this.#starts.length < 2) return 0;
    return Math.min(1_000, (now - first) / this.#starts.length / this.#workers);
  }
}
