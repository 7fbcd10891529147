import type { Clock } from "./clock.ts";
import type { TaskAttempt } from "./task-attempt.ts";
import type { StopCause } from "./task-outcome.ts";

/** Longest time that tasks are started in one go, before timers and the network have their turn. */
const TURN_MS = 10;
/** How long a task may wait here for a slot before it is given back to the server. */
const WAITING_MS_MAX = 2_000;

const OVERDUE: StopCause = {
  type: "stopped",
  message: "The worker had no free slot in time and gave the task back.",
};

/** So many slots for tasks that are claimed together: what does not fit waits for a moment. */
export class TaskLane {
  readonly concurrency: number;
  /** Whether nothing here begins beside a task that is to be alone. */
  readonly isPatient: boolean;
  /** Told when a task has ended. */
  onEnded: () => void = () => undefined;
  /** Told when tasks waited too long and were given back. */
  onOverdue: () => void = () => undefined;
  readonly #clock: Clock;
  readonly #start: (attempt: TaskAttempt) => void;
  #waiting: TaskAttempt[] = [];
  #openCount = 0;
  #runningCount = 0;
  #isTurnDue = false;
  #isWaitWatched = false;
  #listeners: { level: number; resolve: () => void }[] = [];

  constructor(
    { concurrency, isPatient }: { concurrency: number; isPatient: boolean },
    clock: Clock,
    start: (attempt: TaskAttempt) => void,
  ) {
    this.concurrency = concurrency;
    this.isPatient = isPatient;
    this.#clock = clock;
    this.#start = start;
  }

  /** How many tasks wait or run. */
  get openCount(): number {
    return this.#openCount;
  }

  /** So many tasks were claimed. */
  opened(count: number): void {
    this.#openCount += count;
  }

  /** Starts tasks that were claimed, each when there is a slot. */
  take(attempts: readonly TaskAttempt[]): void {
    this.#waiting.push(...attempts);
    if (attempts.length > 0) this.#startWaiting();
  }

  ended(attempt: TaskAttempt): void {
    this.#openCount--;
    if (attempt.wasStarted) this.#runningCount--;
    this.onEnded();
    this.#takeTurn();
    for (const { level, resolve } of this.#listeners) if (this.#openCount <= level) resolve();
  }

  /** Ends what has not started. */
  stopWaiting(cause: StopCause): void {
    for (const attempt of this.#waiting) attempt.stop(cause);
    this.#waiting = [];
  }

  /** Resolves when at most `level` tasks are open, after `ms` at the latest, or at the signal. */
  openAtMost(level: number, ms: number | null, signal?: AbortSignal): Promise<void> {
    if (this.#openCount <= level || signal?.aborted === true) return Promise.resolve();
    return new Promise((resolve) => {
      const finish = (): void => {
        callOff?.();
        signal?.removeEventListener("abort", finish);
        this.#listeners = this.#listeners.filter((each) => each !== listener);
        resolve();
      };
      const callOff = ms === null ? null : this.#clock.after(Math.max(0, ms), finish);
      const listener = { level, resolve: finish };
      signal?.addEventListener("abort", finish);
      this.#listeners.push(listener);
    });
  }

  /**
   * A slot became free. The next tasks start in another turn of the event loop: functions that
   * never wait for anything would otherwise follow each other without a pause.
   */
  #takeTurn(): void {
    if (this.#isTurnDue || this.#waiting.length === 0) return;
    this.#isTurnDue = true;
    setImmediate(() => {
      this.#isTurnDue = false;
      this.#startWaiting();
    });
  }

  #startWaiting(): void {
    const turnEndsAt = this.#clock.now() + TURN_MS;
    let started = 0;
    while (started < this.#waiting.length && this.#runningCount < this.concurrency) {
      const attempt = this.#waiting[started++];
      if (attempt === undefined || attempt.isEnded) continue;
      this.#runningCount++;
      this.#start(attempt);
      if (this.#clock.now() >= turnEndsAt) break;
    }
    this.#waiting.splice(0, started);
    if (this.#waiting.length === 0) return;
    this.#watchWaiting();
    if (this.#runningCount < this.concurrency) this.#takeTurn();
  }

  /** Tasks that came too early, for others take longer than they used to, are given back. */
  #watchWaiting(): void {
    if (this.#isWaitWatched) return;
    this.#isWaitWatched = true;
    this.#clock.after(WAITING_MS_MAX / 2, () => {
      this.#isWaitWatched = false;
      const before = this.#clock.now() - WAITING_MS_MAX;
      const overdue = this.#waiting.filter(({ claimedAt }) => claimedAt <= before);
      if (overdue.length > 0) this.onOverdue();
      for (const attempt of overdue) attempt.stop(OVERDUE);
      this.#waiting = this.#waiting.filter((attempt) => !attempt.isEnded);
      if (this.#waiting.length > 0) this.#watchWaiting();
    });
  }
}
