import { type Instant, msBetween } from "../core/instant.ts";
import type { Commit } from "./commit.ts";
import type { Environment } from "./environment.ts";

/** Longest time that a timer can be set for. */
const TIMER_MS_MAX = 2 ** 30;

/** Calls back at a due time, which every commit may move. */
export class DueTimer {
  readonly #environment: Environment;
  readonly #callback: () => void;
  #cancel: (() => void) | null = null;

  constructor(environment: Environment, callback: () => void) {
    this.#environment = environment;
    this.#callback = callback;
  }

  /**
   * Waits for this time instead of any earlier one; for nothing when it is null. It was `now` when the
   * commit began, which may be some time ago.
   */
  set({ now, startedMs }: Pick<Commit, "now" | "startedMs">, at: Instant | null): void {
    this.cancel();
    if (at === null) return;
    const passedMs = this.#environment.elapsedMs() - startedMs;
    const ms = Math.min(Math.max(1, Math.ceil(msBetween(now, at) - passedMs)), TIMER_MS_MAX);
    this.#cancel = this.#environment.timer(ms, this.#callback);
  }

  cancel(): void {
    this.#cancel?.();
    this.#cancel = null;
  }
}
