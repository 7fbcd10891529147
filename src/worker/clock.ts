/** Time as the worker sees it; handed in, so that tests and simulations can be their own clock. */
export interface Clock {
  /** Milliseconds that only ever grow; means nothing outside the process. */
  now(): number;
  /** Calls back once, after so many milliseconds; the function that comes back calls it off. */
  after(ms: number, callback: () => void): () => void;
}

/** Longest delay of Node's timers: anything longer would fire at once. */
const TIMER_MS_MAX = 2_147_483_647;

/** The clock of the machine. */
export const systemClock: Clock = {
  now: () => performance.now(),
  after(ms, callback) {
    const timer = setTimeout(callback, Math.min(ms, TIMER_MS_MAX));
    return () => clearTimeout(timer);
  },
};

/** Resolves after so many milliseconds, or as soon as the signal aborts. */
export function pause(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) {
      resolve();
      return;
    }
    const finish = (): void => {
      callOff();
      signal?.removeEventListener("abort", finish);
      resolve();
    };
    const callOff = clock.after(ms, finish);
    signal?.addEventListener("abort", finish, { once: true });
  });
}
