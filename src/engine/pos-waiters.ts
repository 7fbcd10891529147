import { PawlError } from "../core/errors.ts";
import type { Store, WorkspaceId } from "../store/store.ts";
import { stopping } from "./commit-loop.ts";
import type { Environment } from "./environment.ts";

/** How new what is read must be, how long that may take, and what ends the wait. */
export type ReadOptions = {
  minPos?: number | undefined;
  timeoutMs?: number | undefined;
  signal?: (() => AbortSignal) | undefined;
};

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

  /** Waits for the ledger to be at a position; `NOT_YET` when that does not come in time. */
  async reach(
    store: Store,
    ws: WorkspaceId,
    environment: Environment,
    { minPos, timeoutMs = 5_000, signal }: ReadOptions & { minPos: number },
  ): Promise<void> {
    const { pos } = await store.read(ws, (reader) => reader.head());
    if (pos >= minPos) return;
    const ended = signal?.();
    if (await this.until(minPos, timeoutMs, environment, ended)) return;
    if (ended?.aborted === true) throw stopping();
    throw new PawlError(
      "NOT_YET",
      `The ledger has not reached position ${minPos} within ${timeoutMs} ms; it was at ${pos}.`,
      { details: { min_pos: minPos, pos } },
    );
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
