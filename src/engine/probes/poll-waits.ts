import { type Instant, msBetween } from "../../kernel/instant.ts";
import type { Probe } from "../../store/store.ts";
import type { Environment } from "../config.ts";

const TIMER_MS_MAX = 2 ** 30;

/** The milliseconds of a timer for something that is due in so many: at least one, and no more than it can. */
export function timerMs(ms: number): number {
  return Math.min(Math.max(1, ms), TIMER_MS_MAX);
}

/** When a probe can be leased: it is due, and nobody has it. */
export function freeAt({ due_at, leased_until }: Pick<Probe, "due_at" | "leased_until">): Instant {
  return leased_until !== null && leased_until > due_at ? leased_until : due_at;
}

/** How long it is until one of these can be leased, at most so long; nothing for one that is due. */
export function freeInMs(
  probes: readonly Pick<Probe, "due_at" | "leased_until">[],
  now: Instant,
  msMax: number,
): number {
  return Math.max(0, Math.min(msMax, ...probes.map((probe) => msBetween(now, freeAt(probe)))));
}

/** The claims that wait for polls to fall due. */
export class PollWaits {
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

  /**
   * Begins to listen before a look, so that nothing which happens during it is missed. `until` resolves
   * on news, or after so many milliseconds when they are given.
   */
  listen(): { until(ms: number | null): Promise<void>; end(): void } {
    const { promise, resolve: wake } = Promise.withResolvers<void>();
    let cancel: () => void = () => {};
    this.#wakes.add(wake);
    return {
      until: (ms) => {
        if (ms !== null) {
          cancel = this.#environment.timer(timerMs(ms), wake);
        }
        return promise;
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
