import type { Clock } from "../../src/worker/outbox.ts";
import type { SimulatedTime } from "./simulated-time.ts";

/** A process with a clock of its own: it can stand still for a while, and be gone for good. */
export class SimulatedProcess {
  readonly clock: Clock;
  readonly #time: SimulatedTime;
  #isGone = false;
  #frozenUntil = 0;

  constructor(time: SimulatedTime) {
    this.#time = time;
    this.clock = {
      now: () => time.now,
      after: (ms, callback) => time.schedule(ms, () => this.#call(callback)),
    };
  }

  get isGone(): boolean {
    return this.#isGone;
  }

  /** It ends without a word: nothing of it happens any more, and nothing reaches it. */
  kill(): void {
    this.#isGone = true;
  }

  /** Nothing of it happens for so long, and it does not know. */
  freeze(ms: number): void {
    this.#frozenUntil = Math.max(this.#frozenUntil, this.#time.now + ms);
  }

  /** Asks something outside of the process; the answer comes when the process is there to take it. */
  async ask<Answer>(question: () => Promise<Answer>): Promise<Answer> {
    if (this.#isGone) return never();
    try {
      const answer = await question();
      await this.#awake();
      return answer;
    } catch (error) {
      await this.#awake();
      throw error;
    }
  }

  #call(callback: () => void): void {
    if (this.#isGone) return;
    const leftMs = this.#frozenUntil - this.#time.now;
    if (leftMs > 0) this.#time.schedule(leftMs, () => this.#call(callback));
    else callback();
  }

  #awake(): Promise<void> {
    if (this.#isGone) return never();
    if (this.#frozenUntil <= this.#time.now) return Promise.resolve();
    return new Promise((resolve) => this.#call(resolve));
  }
}

function never<Answer>(): Promise<Answer> {
  return new Promise<Answer>(() => undefined);
}
