import { reasonOf } from "./commit-loop.ts";
import type { Environment } from "./environment.ts";

/** The pause after a step that failed. */
const RETRY_MS = 1_000;

/**
 * Makes one step at a time: several wishes for one are one, a wish during a step leads to another
 * after it, and a step that failed is made again in a moment.
 */
export class Steps {
  readonly #environment: Environment;
  readonly #step: () => Promise<void>;
  readonly #failed: (reason: string) => void;
  #running: Promise<void> | null = null;
  #isDue = false;
  #stopped = false;
  #cancelTimer: (() => void) | null = null;

  constructor(
    environment: Environment,
    step: () => Promise<void>,
    failed: (reason: string) => void,
  ) {
    this.#environment = environment;
    this.#step = step;
    this.#failed = failed;
  }

  /** Asks for a step. */
  ask(): void {
    this.#isDue = true;
    if (this.#running === null && !this.#stopped) this.#hold(this.#run());
  }

  /** Asks for a step after so many milliseconds, in the place of any that was to come later. */
  askAfter(ms: number): void {
    this.#cancelTimer?.();
    this.#cancelTimer = this.#environment.timer(ms, () => this.ask());
  }

  /** Makes steps until none is asked for any more; throws what one throws. */
  async makeAll(): Promise<void> {
    await this.#running;
    const made = this.#makeAll();
    this.#hold(made.catch(() => undefined));
    await made;
  }

  /** Ends it after the step under way. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelTimer?.();
    await this.#running;
  }

  /** Nothing else is begun until this has ended. */
  #hold(steps: Promise<void>): void {
    this.#running = steps.finally(() => {
      this.#running = null;
      // Somebody may have asked just when the last step had ended.
      if (this.#isDue) this.ask();
    });
  }

  async #makeAll(): Promise<void> {
    do {
      this.#isDue = false;
      await this.#step();
    } while (this.#isDue && !this.#stopped);
  }

  async #run(): Promise<void> {
    while (this.#isDue && !this.#stopped) {
      this.#isDue = false;
      try {
        await this.#step();
      } catch (error) {
        if (this.#stopped) return;
        this.#failed(reasonOf(error));
        this.askAfter(RETRY_MS);
      }
    }
  }
}
