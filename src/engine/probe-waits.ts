import type { Environment } from "./environment.ts";

const TIMER_MS_MAX = 2 ** 30;

/** One look of a claim: woken by news that come from its beginning on. */
export type Listening = {
  /** Resolves on news, or after so many milliseconds when they are given. */
  until(ms: number | null): Promise<void>;
  end(): void;
};

/** The claims that wait for evaluations to fall due. */
export class ProbeWaits {
  readonly #environment: Environment;
  readonly #wakes = new Set<() => void>();

  constructor(environment: Environment) {
    this.#environment = environment;
  }

  get size(): number {
    return this.#wakes.size;
  }

  /** There may be something for whoever waits. */
  wake(): void {
    for (const wake of this.#wakes) wake();
  }

  /** Begins to listen before a look, so that nothing which happens during it is missed. */
  listen(): Listening {
    let wake: () => void = () => {};
    let cancel: () => void = () => {};
    const woken = new Promise<void>((resolve) => {
      wake = resolve;
    });
    this.#wakes.add(wake);
    return {
      until: (ms) => {
        if (ms !== null) {
          cancel = this.#environment.timer(Math.min(Math.max(1, ms), TIMER_MS_MAX), wake);
        }
        return woken;
      },
      end: () => {
        cancel();
        this.#wakes.delete(wake);
      },
    };
  }

  /** How long a claim has patience: until its time is up or its caller goes away. */
  patience(waitMs: number, signal: AbortSignal | undefined): { isOver(): boolean; end(): void } {
    let isLate = waitMs === 0;
    const late = (): void => {
      isLate = true;
      this.wake();
    };
    const cancel = waitMs === 0 ? () => {} : this.#environment.timer(waitMs, late);
    signal?.addEventListener("abort", late, { once: true });
    return {
      isOver: () => isLate || signal?.aborted === true,
      end: () => {
        cancel();
        signal?.removeEventListener("abort", late);
      },
    };
  }
}
