import { CLAIM_SLOTS_MAX } from "../core/protocol.ts";

/** How much work is held ahead, in time: long beside a claim, short beside a lease. */
const AHEAD_MS = 100;
const AHEAD_MAX = 2 * CLAIM_SLOTS_MAX;

/**
 * How many tasks a worker holds: as many as it runs at once, and as many more as it has lately
 * finished in a tenth of a second. So workers with long tasks take only what they start at once,
 * while short tasks do not wait for the network.
 */
export class ClaimPace {
  readonly #concurrency: number;
  #finished = 0;
  #claimedAt: number;
  #perMs = 0;

  constructor(concurrency: number, now: number) {
    this.#concurrency = concurrency;
    this.#claimedAt = now;
  }

  /** How many tasks the worker would like to hold. */
  get wanted(): number {
    return this.#concurrency + Math.min(AHEAD_MAX, Math.floor(this.#perMs * AHEAD_MS));
  }

  /** How many slots must be free to be worth a claim. */
  get worthwhile(): number {
    return Math.max(1, Math.min(CLAIM_SLOTS_MAX, Math.floor(this.wanted / 4)));
  }

  taskFinished(): void {
    this.#finished++;
  }

  /** Takes the measure of the time since the claim before. */
  claimed(now: number): void {
    const perMs = this.#finished / Math.max(1, now - this.#claimedAt);
    this.#perMs = (this.#perMs + perMs) / 2;
    this.#finished = 0;
    this.#claimedAt = now;
  }

  /** Tasks take longer than they used to: hold nothing ahead until that is known better. */
  slowDown(): void {
    this.#perMs = 0;
    this.#finished = 0;
  }
}
