import { PawlError } from "../../kernel/errors.ts";
import {
  CLAIM_SLOTS_MAX,
  type ClaimAlong,
  type ClaimAnswer,
  type ReportAnswer,
} from "../../work/run/protocol.ts";
import { backoffMs, type Clock, pause } from "../outbox.ts";
import type { WorkerLogger } from "../run-worker.ts";
import type { TaskAttempt } from "./attempt.ts";
import type { StopCause } from "./outcome.ts";

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
  #askedCount = 0;
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

  /** How many tasks wait or run, or are asked for. */
  get spokenForCount(): number {
    return this.#openCount + this.#askedCount;
  }

  /** So many tasks were claimed. */
  opened(count: number): void {
    this.#openCount += count;
  }

  /** So many tasks are being asked for; the function that comes back says that they are not any more. */
  asked(count: number): () => void {
    this.#askedCount += count;
    return () => {
      this.#askedCount -= count;
      this.#tell();
    };
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
    this.#tell();
  }

  /** Some tasks less are open, or asked for. */
  #tell(): void {
    for (const { level, resolve } of this.#listeners) if (this.spokenForCount <= level) resolve();
  }

  /** Ends what has not started. */
  stopWaiting(cause: StopCause): void {
    for (const attempt of this.#waiting) attempt.stop(cause);
    this.#waiting = [];
  }

  /** Resolves when at most `level` tasks are open or asked for, after `ms` at the latest, or at the signal. */
  openAtMost(level: number, ms: number | null, signal?: AbortSignal): Promise<void> {
    if (this.spokenForCount <= level || signal?.aborted === true) return Promise.resolve();
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

/** Makes the claim for what is free now; null when that is nothing. */
type MakeClaim = () => ClaimAlong | null;
/** Is told what a claim got; null when that is not known. */
type Answered = (answer: ClaimAnswer | null) => void;

/**
 * Claims that go along with reports. Who waits for more slots to become free says so here: when results
 * are sent meanwhile, the claim for what is free by then goes with them, in one message.
 */
export class ClaimRides {
  /** Whether the server has said that it takes them. */
  isTaken = false;
  /** Whether a report is about to leave. */
  isDue: () => boolean = () => false;
  readonly #waiting = new Map<MakeClaim, Answered>();

  /** Has a claim go with the next report, once; the function that comes back calls it off. */
  wait(make: MakeClaim, answered: Answered): () => void {
    this.#waiting.set(make, answered);
    return () => this.#waiting.delete(make);
  }

  /** Resolves once a report that is about to leave has done so. */
  async untilLeft(): Promise<void> {
    if (this.isTaken && this.isDue()) await new Promise((resolve) => setImmediate(resolve));
  }

  /** Sends a report, with a claim if somebody has one. */
  async along(
    send: (claim: { claim?: ClaimAlong }) => Promise<ReportAnswer>,
  ): Promise<ReportAnswer> {
    for (const [make, answered] of this.isTaken ? this.#waiting : []) {
      const claim = make();
      if (claim === null) continue;
      this.#waiting.delete(make);
      let claimed: ClaimAnswer | null = null;
      try {
        const answer = await send({ claim });
        claimed = answer.claimed ?? null;
        return answer;
      } catch (error) {
        if (!(error instanceof PawlError) || error.retryable) throw error;
        // Perhaps it is the claim that is refused, by an older server: no result fails for that.
        this.isTaken = false;
        break;
      } finally {
        answered(claimed);
      }
    }
    return send({});
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
export function letGoOf(
  stop: AbortSignal,
  clock: Clock,
): { signal: AbortSignal; done: () => void } {
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

  /** Whether this one may take work: nothing is on trial, and nobody else drains. */
  isFree(taker: Taker): boolean {
    return !this.isTrial && !this.#othersDrain(taker);
  }

  /** Resolves when this one may take work; at the latest after `ms`. */
  async untilFree(taker: Taker, stop: AbortSignal, ms: number | null = null): Promise<void> {
    await this.#until(() => this.isFree(taker), ms, stop);
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
