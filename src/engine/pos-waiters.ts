import type { Environment } from "./environment.ts";

/** Whoever waits for the ledger to reach a position, or wants to hear of every append. */
export class PosWaiters {
  readonly #listeners = new Set<(pos: number) => void>();
  readonly #giveUps = new Set<() => void>();

  /** Calls back after every append; answers a function that ends it. */
  listen(listener: (pos: number) => void): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  /** Whether the ledger reaches the position within the time, and before the signal aborts. */
  until(
    minPos: number,
    timeoutMs: number,
    environment: Environment,
    signal?: AbortSignal,
  ): Promise<boolean> {
    if (signal?.aborted === true) return Promise.resolve(false);
    return new Promise((resolve) => {
      const end = (reached: boolean): void => {
        cancel();
        stop();
        this.#giveUps.delete(giveUp);
        signal?.removeEventListener("abort", giveUp);
        resolve(reached);
      };
      const giveUp = (): void => end(false);
      const cancel = environment.timer(timeoutMs, giveUp);
      const stop = this.listen((pos) => {
        if (pos >= minPos) end(true);
      });
      this.#giveUps.add(giveUp);
      signal?.addEventListener("abort", giveUp, { once: true });
    });
  }

  /** The ledger is at this position now. */
  reached(pos: number): void {
    for (const listener of this.#listeners) listener(pos);
  }

  /** Nobody need wait any longer. */
  close(): void {
    for (const giveUp of this.#giveUps) giveUp();
    this.#listeners.clear();
  }
}
