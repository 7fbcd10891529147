import type { WorkerConnection } from "../client/worker-connection.ts";
import type { Json } from "../core/canonical.ts";
import { PawlError } from "../core/errors.ts";
import type { ClaimAnswer } from "../core/protocol.ts";
import type { Project } from "../define/define-pawl.ts";
import { assetCodeOf } from "./asset-code.ts";
import { type Clock, pause } from "./clock.ts";
import type { LeaseKeeping, LeaseNews, TaskProgress } from "./lease-keeper.ts";
import { startLeaseKeeper } from "./start-lease-keeper.ts";
import { type AssetCode, type AttemptHost, TaskAttempt, type WorkerLease } from "./task-attempt.ts";
import { openTaskMessages, type TaskMessages } from "./task-messages.ts";
import type { StopCause, TaskOutcome } from "./task-outcome.ts";
import type { WorkerLogger } from "./worker-logger.ts";

/** Longest time that tasks are started in one go, before timers and the network have their turn. */
const TURN_MS = 10;
/** How long a task may wait here for a slot before it is given back to the server. */
const WAITING_MS_MAX = 2_000;
/** How often progress of one task is passed on. */
const PROGRESS_MS = 100;

const STOPPED: StopCause = {
  type: "stopped",
  message: "The worker stopped and gave the task back.",
};
const OVERDUE: StopCause = {
  type: "stopped",
  message: "The worker had no free slot in time and gave the task back.",
};
const LOST: StopCause = { type: "lost", message: "The task's lease is lost." };
const UNCONFIRMED: StopCause = {
  type: "lost",
  message: "The task's lease could not be renewed in time.",
};
const CANCELLED: StopCause = { type: "cancelled", message: "The task was cancelled." };

/** What the tasks of a worker need around them. */
export type TaskRunnerOptions = {
  connection: WorkerConnection;
  project: Project;
  workerId: string;
  codeVersion: string | null;
  logger: WorkerLogger;
  concurrency: number;
  abandonMs: number;
  clock: Clock;
  random: () => number;
  /** Told when the worker cannot go on. */
  fail: (error: PawlError) => void;
};

/** Holds the claimed tasks, runs so many of them at once, and sees to it that each is reported. */
export class TaskRunner implements AttemptHost {
  readonly clock: Clock;
  readonly abandonMs: number;
  /** Told when a task has ended. */
  onEnded: () => void = () => undefined;
  /** Told when tasks waited too long and were given back. */
  onOverdue: () => void = () => undefined;
  readonly #options: TaskRunnerOptions;
  readonly #codes: ReadonlyMap<string, AssetCode>;
  readonly #keeper: LeaseKeeping;
  readonly #messages: TaskMessages;
  /** Every attempt that is not settled with the server. */
  readonly #attempts = new Map<number, TaskAttempt>();
  readonly #progress = new Map<TaskAttempt, TaskProgress | null>();
  #waiting: TaskAttempt[] = [];
  #nextId = 1;
  #openCount = 0;
  #runningCount = 0;
  #isTurnDue = false;
  #isWaitWatched = false;
  #listeners: { level: number; resolve: () => void }[] = [];

  constructor(options: TaskRunnerOptions) {
    this.#options = options;
    this.clock = options.clock;
    this.abandonMs = options.abandonMs;
    this.#codes = assetCodeOf(options.project);
    this.#keeper = startLeaseKeeper({ ...options, tell: (news) => this.#hear(news) });
    this.#messages = openTaskMessages({
      ...options,
      settled: (attempts) => this.#settle(attempts),
    });
  }

  /** Resolves once a task that blocks this thread at once would keep its lease. */
  get ready(): Promise<void> {
    return this.#keeper.ready;
  }

  /** How many tasks wait or run. */
  get openCount(): number {
    return this.#openCount;
  }

  /** Takes what a claim got. Unless fresh, the lease may have been granted some time ago. */
  accept(answer: ClaimAnswer, isFresh: boolean): void {
    const attempts = this.#hold(answer, isFresh);
    this.#waiting.push(...attempts);
    if (attempts.length > 0) this.#startWaiting();
  }

  /** Gives back what a claim got: it came too late to be started. */
  decline(answer: ClaimAnswer): void {
    for (const attempt of this.#hold(answer, true)) attempt.stop(STOPPED);
  }

  #hold({ lease_id, ttl_ms, groups }: ClaimAnswer, isFresh: boolean): TaskAttempt[] {
    const count = groups.reduce((sum, { tasks }) => sum + tasks.length, 0);
    if (count === 0) return [];
    const lease: WorkerLease = {
      leaseId: lease_id,
      ttlMs: ttl_ms,
      unreported: count,
      deadAt: null,
      isForsaken: false,
    };
    const attempts = groups.flatMap((group) =>
      group.tasks.map((task) => new TaskAttempt(this.#nextId++, lease, group, task, this)),
    );
    // Before any of them starts: a function may block this thread at once.
    this.#keeper.hold({
      leaseId: lease_id,
      ttlMs: ttl_ms,
      isFresh,
      tasks: attempts.map(({ id, ref, group }) => ({
        id,
        ref,
        timeoutMs: group.timeout_ms,
        stallAfterMs: group.stall_after_ms,
      })),
    });
    for (const attempt of attempts) this.#attempts.set(attempt.id, attempt);
    this.#openCount += count;
    return attempts;
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
      const callOff = ms === null ? null : this.clock.after(Math.max(0, ms), finish);
      const listener = { level, resolve: finish };
      signal?.addEventListener("abort", finish);
      this.#listeners.push(listener);
    });
  }

  /**
   * Gives back what has not started, lets the rest finish for the grace time, gives back what is
   * still running then, and resolves when all of it is reported or `drainMs` have passed.
   */
  async stop(graceMs: number, drainMs: number): Promise<void> {
    for (const attempt of this.#waiting) attempt.stop(STOPPED);
    this.#waiting = [];
    await this.openAtMost(0, graceMs);
    for (const attempt of this.#attempts.values()) if (!attempt.isEnded) attempt.stop(STOPPED);
    await this.openAtMost(0, this.abandonMs + PROGRESS_MS);
    const drained = new AbortController();
    await Promise.race([
      this.#messages.drain().finally(() => drained.abort()),
      pause(this.clock, drainMs, drained.signal),
    ]);
    this.#keeper.close();
  }

  ended(attempt: TaskAttempt, outcome: TaskOutcome | null): void {
    this.#openCount--;
    this.#progress.delete(attempt);
    if (attempt.wasStarted) this.#runningCount--;
    if (outcome === null) this.#messages.drop(attempt);
    else this.#messages.report(attempt, outcome);
    this.onEnded();
    this.#takeTurn();
    for (const { level, resolve } of this.#listeners) if (this.#openCount <= level) resolve();
  }

  progressed(attempt: TaskAttempt, progress: TaskProgress | null): void {
    const now = this.clock.now();
    if (now - attempt.progressSentAt >= PROGRESS_MS) {
      attempt.progressSentAt = now;
      this.#progress.delete(attempt);
      this.#keeper.progress(attempt.id, progress);
      return;
    }
    if (this.#progress.size === 0) this.clock.after(PROGRESS_MS, () => this.#passProgressOn());
    this.#progress.set(attempt, progress ?? this.#progress.get(attempt) ?? null);
  }

  checkpoint(attempt: TaskAttempt, value: Json): Promise<void> {
    return this.#messages.checkpoint(attempt, value);
  }

  log(attempt: TaskAttempt, message: string, fields: Json): void {
    this.#messages.log(attempt, message, fields);
  }

  #passProgressOn(): void {
    const now = this.clock.now();
    for (const [attempt, progress] of this.#progress) {
      attempt.progressSentAt = now;
      this.#keeper.progress(attempt.id, progress);
    }
    this.#progress.clear();
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
    const turnEndsAt = this.clock.now() + TURN_MS;
    let started = 0;
    while (started < this.#waiting.length && this.#runningCount < this.#options.concurrency) {
      const attempt = this.#waiting[started++];
      if (attempt === undefined || attempt.isEnded) continue;
      this.#runningCount++;
      attempt.start(this.#codes.get(attempt.group.asset_key));
      if (this.clock.now() >= turnEndsAt) break;
    }
    this.#waiting.splice(0, started);
    if (this.#waiting.length === 0) return;
    this.#watchWaiting();
    if (this.#runningCount < this.#options.concurrency) this.#takeTurn();
  }

  /** Tasks that came too early, for others take longer than they used to, are given back. */
  #watchWaiting(): void {
    if (this.#isWaitWatched) return;
    this.#isWaitWatched = true;
    this.clock.after(WAITING_MS_MAX / 2, () => {
      this.#isWaitWatched = false;
      const before = this.clock.now() - WAITING_MS_MAX;
      const overdue = this.#waiting.filter(({ claimedAt }) => claimedAt <= before);
      if (overdue.length > 0) this.onOverdue();
      for (const attempt of overdue) attempt.stop(OVERDUE);
      this.#waiting = this.#waiting.filter((attempt) => !attempt.isEnded);
      if (this.#waiting.length > 0) this.#watchWaiting();
    });
  }

  #settle(attempts: readonly TaskAttempt[]): void {
    for (const { id } of attempts) this.#attempts.delete(id);
    this.#keeper.settle(attempts.map(({ id }) => id));
  }

  #hear(news: LeaseNews): void {
    if (news.type === "refused") {
      this.#options.fail(new PawlError(news.code, news.message));
      return;
    }
    const attempts = news.ids.flatMap((id) => this.#attempts.get(id) ?? []);
    for (const attempt of attempts) {
      if (news.type === "lost") attempt.stop(LOST);
      else if (news.type === "cancelled") attempt.stop(CANCELLED);
      else this.#hearUnconfirmed(attempt);
    }
    if (attempts.length > 0 && news.type !== "cancelled") {
      const message = "Leases were lost or could not be renewed; their tasks are aborted.";
      this.#options.logger.warn({ tasks: attempts.length, reason: news.type }, message);
    }
  }

  /** What is done may still be reported for the last third of the lease. */
  #hearUnconfirmed(attempt: TaskAttempt): void {
    attempt.lease.deadAt ??= this.clock.now() + attempt.lease.ttlMs / 3;
    if (!attempt.isEnded) attempt.stop(UNCONFIRMED);
  }
}
