import { type Clock, backoffMs, pause } from "../outbox.ts";
import type { TaskAttempt } from "./attempt.ts";
import type { StopCause } from "./outcome.ts";
import { CLAIM_SLOTS_MAX } from "../../work/run/protocol.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { WorkerLogger } from "../run-worker.ts";

/** Longest time that tasks are started in one go, before timers and the network have their turn. */
const TURN_MS = 10;
/** How long a task may wait here for a slot before it is given back to the server. */
const WAITING_MS_MAX = 2_000;

const OVERDUE: StopCause = {
  type: "stopped",
  message: "The worker had no free slot in time and gave the task back.",
};

/** So many slots for tasks that are claimed together: what does not fit waits for a moment. */
export class TaskSlots {
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

/** How much work is held ahead, in time: long beside a claim, short beside a lease. */
const AHEAD_MS = 100;
const AHEAD_MAX = 2 * CLAIM_SLOTS_MAX;

/**
 * How many tasks a worker holds: as many as it runs at once, and as many more as it has lately
 * finished in a tenth of a second. So workers with long tasks take only what they start at once,
 * while short tasks do not wait for the network.
 */
export class ClaimPace {
  readonly #concurrency: number;
  #finished = 0;
  #claimedAt: number;
  #perMs = 0;

  constructor(concurrency: number, now: number) {
    this.#concurrency = concurrency;
    this.#claimedAt = now;
  }

  /** How many tasks the worker would like to hold. */
  get wanted(): number {
    return this.#concurrency + Math.min(AHEAD_MAX, Math.floor(this.#perMs * AHEAD_MS));
  }

  /** How many slots must be free to be worth a claim. */
  get worthwhile(): number {
    return Math.max(1, Math.min(CLAIM_SLOTS_MAX, Math.floor(this.wanted / 4)));
  }

  taskFinished(): void {
    this.#finished++;
  }

  /** Takes the measure of the time since the claim before. */
  claimed(now: number): void {
    const perMs = this.#finished / Math.max(1, now - this.#claimedAt);
    this.#perMs = (this.#perMs + perMs) / 2;
    this.#finished = 0;
    this.#claimedAt = now;
  }

  /** Tasks take longer than they used to: hold nothing ahead until that is known better. */
  slowDown(): void {
    this.#perMs = 0;
    this.#finished = 0;
  }
}

const BACKOFF_MS_MAX = 5_000;
/** A claim younger than this may be granted at this very moment. */
const NEW_CLAIM_MS = 250;

/**
 * Claims once, as often as it takes: a server that is away is waited for. Null when the worker is to
 * stop; throws the `PawlError` of a server that will not have this worker.
 */
export async function claimPatiently<Answer>(
  stop: AbortSignal,
  ask: (signal: AbortSignal) => Promise<Answer>,
  options: { clock: Clock; random: () => number; logger: WorkerLogger },
): Promise<{ answer: Answer; isFresh: boolean } | null> {
  const { clock, random, logger } = options;
  for (let failures = 0; !stop.aborted; ) {
    const letGo = letGoOf(stop, clock);
    try {
      const answer = await ask(letGo.signal);
      if (failures > 0) logger.info({ failures }, "The server is there again.");
      return { answer, isFresh: failures === 0 };
    } catch (error) {
      if (stop.aborted) return null;
      if (!(error instanceof PawlError) || !error.retryable) throw error;
      failures++;
      if (failures === 1) {
        logger.warn({ code: error.code }, `${error.message} Trying again until it is there.`);
      }
      await pause(clock, backoffMs(failures, random, BACKOFF_MS_MAX), stop);
    } finally {
      letGo.done();
    }
  }
  return null;
}

/**
 * Aborts when a claim that was asked just now must be let go: a claim that has waited for long is
 * let go with the worker, but a new one may have been granted already, and is given a moment so
 * that what it got need not wait for the end of its lease.
 */
function letGoOf(stop: AbortSignal, clock: Clock): { signal: AbortSignal; done: () => void } {
  const controller = new AbortController();
  const askedAt = clock.now();
  const letGo = (): void => {
    if (clock.now() - askedAt > NEW_CLAIM_MS) controller.abort();
    else clock.after(NEW_CLAIM_MS, () => controller.abort());
  };
  if (stop.aborted) controller.abort();
  stop.addEventListener("abort", letGo, { once: true });
  return {
    signal: controller.signal,
    done: () => stop.removeEventListener("abort", letGo),
  };
}
