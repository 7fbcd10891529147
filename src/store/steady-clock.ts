/** How much slower than real time the store's time goes while it waits for its clock to catch up. */
const CATCHING_UP = 0.9;

/**
 * The time of a store: that of its clock, but it never goes back and never stands still. When the
 * clock is set back, time goes on from where it was, a tenth slower than real time, until the clock
 * has caught up; so leases, retries and times of schedules keep their distance, whatever happens to
 * the clock.
 */
export class SteadyClock {
  readonly #elapsedMs: () => number;
  #lastMs = Number.NEGATIVE_INFINITY;
  #lastElapsedMs = 0;

  /** By a clock that nobody sets; where it does not go, neither does time while the clock is behind. */
  constructor(elapsedMs: () => number) {
    this.#elapsedMs = elapsedMs;
  }

  /** The clock that nobody sets, now: where the answer to a question about the other may begin. */
  elapsedMs(): number {
    return this.#elapsedMs();
  }

  /**
   * The time at which the clock says so, in milliseconds since the start of 1970. Whose clock is far
   * away tells since when its answer was waited for: only what went by before that must show in it.
   */
  at(clockMs: number, askedMs = this.#elapsedMs()): number {
    const elapsedMs = this.#elapsedMs();
    // That clock goes back only when it is another one: then nothing is known of what went by.
    if (elapsedMs < this.#lastElapsedMs) this.#lastMs = Number.NEGATIVE_INFINITY;
    const wentBy = Math.max(0, askedMs - this.#lastElapsedMs);
    // What is below a millisecond is kept: else time stands still for who looks at every one.
    const goneOn = this.#lastMs + wentBy * CATCHING_UP;
    if (clockMs >= goneOn) {
      this.#lastMs = clockMs;
      this.#lastElapsedMs = elapsedMs;
    } else {
      this.#lastMs = goneOn;
      this.#lastElapsedMs += wentBy;
    }
    return Math.floor(this.#lastMs);
  }

  /** It is at least so late: somebody has seen that time before. */
  atLeast(ms: number): void {
    if (ms <= this.#lastMs) return;
    this.#lastMs = ms;
    this.#lastElapsedMs = this.#elapsedMs();
  }

  /** How far the time is ahead of a clock that says so. */
  aheadMs(clockMs: number): number {
    return this.at(clockMs) - clockMs;
  }
}
