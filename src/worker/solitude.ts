import type { Clock } from "./outbox.ts";

/** How long a worker that takes nothing more waits before it asks whether it still has to. */
const DRAIN_STEP_MS = 1_000;

/** How long looks for sensors and at heads are held up: who looks too seldom is late for everything. */
export const LOOKS_HELD_UP_MS = 60_000;

/** What of a worker may take work: lanes of tasks, and what looks for sensors and at heads. */
type Taker = object;

/**
 * Lets a task that may take its process down be alone in it. While something here drains for such a
 * task, nothing else takes work; while the task is on trial, nothing else begins.
 */
export class Solitude {
  readonly #clock: Clock;
  readonly #openCount: () => number;
  #draining: Taker | null = null;
  #trial: { task: unknown; callOff: () => void } | null = null;
  #listeners: (() => void)[] = [];

  /** `openCount` says how much the process holds: tasks and looks. */
  constructor(clock: Clock, openCount: () => number) {
    this.#clock = clock;
    this.#openCount = openCount;
  }

  /** Whether nothing runs or waits in the process. */
  get isEmpty(): boolean {
    return this.#openCount() === 0;
  }

  /** Whether a task is on trial: nothing else may begin. */
  get isTrial(): boolean {
    return this.#trial !== null;
  }

  /** Resolves when this one may take work: nothing is on trial, and nobody else drains; at the latest after `ms`. */
  async untilFree(taker: Taker, stop: AbortSignal, ms: number | null = null): Promise<void> {
    await this.#until(() => !this.isTrial && !this.#othersDrain(taker), ms, stop);
  }

  /**
   * Has everything else wait, for as long as this one is told that a suspect waits, and waits itself.
   * Only one drains at a time: two would wait for each other. The second waits until the first is done.
   */
  async drain(taker: Taker, stop: AbortSignal): Promise<void> {
    this.#draining ??= taker;
    const isOver = (): boolean =>
      this.#draining === taker ? this.isEmpty : !this.#othersDrain(taker);
    await this.#until(isOver, DRAIN_STEP_MS, stop);
  }

  /** This one drains no more. */
  undrain(taker: Taker): void {
    if (this.#draining !== taker) return;
    this.#draining = null;
    this.changed();
  }

  /** Puts a task on trial until it has ended, or for so long. */
  try(task: unknown, ms: number): void {
    this.#trial?.callOff();
    const callOff = this.#clock.after(ms, () => this.ended(task));
    this.#trial = { task, callOff };
  }

  /** A task has ended, or has stood its trial. */
  ended(task: unknown): void {
    if (this.#trial !== null && this.#trial.task === task) {
      this.#trial.callOff();
      this.#trial = null;
    }
    this.changed();
  }

  /** Something that was held is not held any more. */
  changed(): void {
    for (const listener of this.#listeners) listener();
  }

  #othersDrain(taker: Taker): boolean {
    return this.#draining !== null && this.#draining !== taker;
  }

  #until(holds: () => boolean, ms: number | null, stop: AbortSignal): Promise<void> {
    if (holds() || stop.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const finish = (): void => {
        callOff?.();
        stop.removeEventListener("abort", finish);
        this.#listeners = this.#listeners.filter((each) => each !== listener);
        resolve();
      };
      const listener = (): void => {
        if (holds()) finish();
      };
      const callOff = ms === null ? null : this.#clock.after(ms, finish);
      stop.addEventListener("abort", finish);
      this.#listeners.push(listener);
    });
  }
}
