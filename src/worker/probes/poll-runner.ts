import { type ErrorCode, PawlError } from "../../kernel/errors.ts";
import type { Failure } from "../../work/backfill/rows.ts";
import { type Clock, Outbox, pause } from "../outbox.ts";
import { messageOf } from "../plain-values.ts";
import type { WorkerLogger } from "../run-worker.ts";
import { outcomeOfError } from "../tasks/outcome.ts";
import type { HeldLook, KeepLook } from "../tasks/runner.ts";
import { claimPatiently, LOOKS_HELD_UP_MS, type Solitude } from "../tasks/task-slots.ts";

/** How long a claim waits for polls. */
export const CLAIM_WAIT_MS = 20_000;
/** A claim that comes back empty sooner than this was not kept waiting; the next one waits here. */
const EMPTY_CLAIM_MS = 100;

/** What polls of a worker need around them. */
export type PollRunnerOptions = {
  logger: WorkerLogger;
  clock: Clock;
  random: () => number;
  /** How long a function may go on after it was told to stop. */
  abandonMs: number;
  /** The same when the whole worker stops. */
  stopAbandonMs: number;
  keepLook: KeepLook;
  solitude: Solitude;
};

/** A poll that failed, and one that was not made: somebody else may, at once. */
type Unmade = { type: "failed"; error: Failure } | { type: "released" };

/** A kind of poll as workers make it: how it is claimed, made and reported, and how many at once. */
export interface WorkerPoll<Claimed, Outcome, Result> {
  /** Whether this worker has the code for any. */
  readonly isAny: boolean;
  /** Most polls that run at once. */
  readonly concurrency: number;
  /** Most polls that are held, those included that wait for others of their series. */
  readonly heldMax: number;
  /** How long few free places wait for more of them. */
  readonly gatherMs: number;
  /** How long a poll may wait for others of its series before it is given back. */
  readonly waitMsMax: number;
  /** Refusals of a result by itself: a failure is reported in its place. */
  readonly refusals: ReadonlySet<ErrorCode>;
  readonly texts: { poll: string; waited: string; dropped: string; isUnknown: string };
  claim(slots: number, signal: AbortSignal): Promise<{ ttl_ms: number; polls: Claimed[] }>;
  /** Polls of one series are made one after the other. */
  seriesOf(claimed: Claimed): string;
  /** Whom a poll is about, for the log. */
  fieldsOf(claimed: Claimed): object;
  make(claimed: Claimed, signal: AbortSignal): Promise<Outcome>;
  resultOf(claimed: Claimed, outcome: Outcome | Unmade): Result;
  heldLook(result: Result): HeldLook;
  report(results: Result[]): Promise<unknown>;
}

type Held<Claimed> = {
  readonly claimed: Claimed;
  readonly claimedAt: number;
  /** After this nobody can be waiting for the result; null while the lease is kept. */
  deadAt: number | null;
  /** Lets go of the lease. */
  letGo: () => void;
  readonly controller: AbortController;
  stopCause: "timeout" | "stopped" | "lost" | null;
};

type Report<Claimed, Outcome> = {
  held: Held<Claimed>;
  outcome: Outcome | Unmade;
  isReplacement: boolean;
};

/**
 * Claims polls of one kind and makes them. Their leases are renewed as those of tasks are; what is not
 * reported runs out by itself and is polled again, so a poll can be dropped at any moment.
 */
export class PollRunner<Claimed extends { timeout_ms: number }, Outcome extends object, Result> {
  readonly #options: PollRunnerOptions;
  readonly #kind: WorkerPoll<Claimed, Outcome, Result>;
  readonly #reports: Outbox<Report<Claimed, Outcome>>;
  #waiting: Held<Claimed>[] = [];
  /** What runs, by series. */
  readonly #running = new Map<string, Held<Claimed>>();
  #listeners: (() => void)[] = [];

  constructor(options: PollRunnerOptions, kind: WorkerPoll<Claimed, Outcome, Result>) {
    this.#options = options;
    this.#kind = kind;
    this.#reports = this.#openReports();
  }

  /** Claims until the signal aborts; throws when the server will not have this worker. */
  async run(stop: AbortSignal): Promise<void> {
    const { clock, solitude } = this.#options;
    if (!this.#kind.isAny) return;
    while (!stop.aborted) {
      await this.#room(stop);
      await solitude.untilFree(this, stop, LOOKS_HELD_UP_MS);
      if (stop.aborted) return;
      const wasTrial = solitude.isTrial;
      const askedAt = clock.now();
      const answer = await this.#claim(stop);
      if (answer === null) return;
      // The worker stops, or a task that is to be alone came first.
      const isTooLate = stop.aborted || (solitude.isTrial && !wasTrial);
      this.#accept(answer, isTooLate);
      if (answer.polls.length === 0 && clock.now() - askedAt < EMPTY_CLAIM_MS) {
        await pause(clock, EMPTY_CLAIM_MS, stop);
      }
    }
  }

  /** Lets what runs finish for the grace time, gives the rest back, and sends the last reports. */
  async stop(graceMs: number, drainMs: number): Promise<void> {
    const { clock, stopAbandonMs } = this.#options;
    for (const held of this.#waiting.splice(0)) this.#release(held);
    await this.#heldAtMost(0, graceMs);
    for (const held of this.#running.values()) this.#break(held, "stopped");
    await this.#heldAtMost(0, stopAbandonMs);
    const drained = new AbortController();
    await Promise.race([
      this.#reports.flush().finally(() => drained.abort()),
      pause(clock, drainMs, drained.signal),
    ]);
  }

  get #heldCount(): number {
    return this.#waiting.length + this.#running.size;
  }

  /** Resolves when a good part of the places is free, or a few have been for a moment. */
  async #room(stop: AbortSignal): Promise<void> {
    const { heldMax, gatherMs } = this.#kind;
    await this.#heldAtMost(heldMax - 1, null, stop);
    if (gatherMs > 0) await this.#heldAtMost(heldMax / 2, gatherMs, stop);
  }

  async #claim(stop: AbortSignal): Promise<{ ttl_ms: number; polls: Claimed[] } | null> {
    const slots = this.#kind.heldMax - this.#heldCount;
    try {
      const ask = (signal: AbortSignal) => this.#kind.claim(slots, signal);
      return (await claimPatiently(stop, ask, this.#options))?.answer ?? null;
    } catch (error) {
      if (!(error instanceof PawlError) || error.code !== "ROUTE_NOT_FOUND") throw error;
      this.#options.logger.warn({}, `The server is older and ${this.#kind.texts.isUnknown}.`);
      return null;
    }
  }

  #accept(
    { ttl_ms: ttlMs, polls }: { ttl_ms: number; polls: Claimed[] },
    isTooLate: boolean,
  ): void {
    const now = this.#options.clock.now();
    for (const claimed of polls) this.#hold(claimed, ttlMs, isTooLate, now);
    this.#startWaiting(now);
  }

  #hold(claimed: Claimed, ttlMs: number, isTooLate: boolean, claimedAt: number): void {
    const { clock, keepLook } = this.#options;
    const kind = this.#kind;
    const held: Held<Claimed> = {
      claimed,
      claimedAt,
      deadAt: null,
      letGo: () => undefined,
      controller: new AbortController(),
      stopCause: null,
    };
    if (isTooLate) {
      this.#release(held);
      return;
    }
    const times = { ttlMs, timeoutMs: claimed.timeout_ms + kind.waitMsMax };
    const look = kind.heldLook(kind.resultOf(claimed, { type: "released" }));
    held.letGo = keepLook(look, times, () => {
      // What is made already may still be taken: the server looks at the fence.
      held.deadAt = clock.now() + ttlMs;
      this.#break(held, "lost");
    });
    this.#waiting.push(held);
  }

  #startWaiting(now: number): void {
    const kind = this.#kind;
    const kept: Held<Claimed>[] = [];
    for (const held of this.#waiting) {
      const { claimed, claimedAt } = held;
      const series = kind.seriesOf(claimed);
      if (held.stopCause === "lost") continue;
      if (now - claimedAt > kind.waitMsMax) {
        this.#options.logger.warn(kind.fieldsOf(claimed), kind.texts.waited);
        this.#release(held);
      } else if (this.#running.size < kind.concurrency && !this.#running.has(series)) {
        this.#running.set(series, held);
        void this.#make(held, series);
      } else {
        kept.push(held);
      }
    }
    this.#waiting = kept;
  }

  async #make(held: Held<Claimed>, series: string): Promise<void> {
    const { clock, abandonMs } = this.#options;
    const { claimed, controller } = held;
    const callOff = clock.after(claimed.timeout_ms, () => this.#break(held, "timeout"));
    let keep = (): void => undefined;
    const abandoned = new Promise<null>((resolve) => {
      controller.signal.addEventListener("abort", () => {
        keep = clock.after(abandonMs, () => resolve(null));
      });
    });
    const made = this.#kind.make(claimed, controller.signal).catch(thrown);
    const outcome = await Promise.race([made, abandoned]);
    callOff();
    keep();
    this.#running.delete(series);
    this.#report(held, outcome);
    this.#startWaiting(clock.now());
    for (const listener of this.#listeners.splice(0)) listener();
  }

  #break(held: Held<Claimed>, cause: "timeout" | "stopped" | "lost"): void {
    if (held.stopCause !== null) return;
    held.stopCause = cause;
    const name = cause === "timeout" ? "TimeoutError" : "AbortError";
    held.controller.abort(new DOMException(this.#breakMessage(held), name));
  }

  #breakMessage({ claimed, stopCause }: Held<Claimed>): string {
    const { poll } = this.#kind.texts;
    if (stopCause === "stopped") return "The worker stops.";
    return stopCause === "lost"
      ? `The ${poll} is somebody else's by now.`
      : `The ${poll} took longer than its timeout of ${claimed.timeout_ms} ms.`;
  }

  /** What the function made of its abort is not its result, as with tasks. */
  #report(held: Held<Claimed>, outcome: Outcome | Unmade | null): void {
    if (held.stopCause === "lost") return;
    if (held.stopCause === "stopped") {
      this.#release(held);
      return;
    }
    const final =
      held.stopCause === "timeout" || outcome === null
        ? failure("timeout", this.#breakMessage(held))
        : outcome;
    if (isFailure(final)) {
      const fields = { ...this.#kind.fieldsOf(held.claimed), class: final.error.class };
      this.#options.logger.warn(fields, final.error.message);
    }
    this.#reports.add({ held, outcome: final, isReplacement: false });
  }

  #release(held: Held<Claimed>): void {
    this.#reports.add({ held, outcome: { type: "released" }, isReplacement: true });
  }

  #openReports(): Outbox<Report<Claimed, Outcome>> {
    const { clock, random, logger } = this.#options;
    const kind = this.#kind;
    const reports: Outbox<Report<Claimed, Outcome>> = new Outbox<Report<Claimed, Outcome>>({
      itemsMax: kind.heldMax,
      gatherMs: 0,
      triesMax: Number.POSITIVE_INFINITY,
      clock,
      random,
      isWanted: ({ held }) => held.deadAt === null || clock.now() < held.deadAt,
      giveUp({ held, isReplacement }, error) {
        if (error !== null && kind.refusals.has(error.code) && !isReplacement) {
          const outcome = failure("input", `The server refused the result: ${error.message}`);
          reports.add({ held, outcome, isReplacement: true });
          return;
        }
        held.letGo();
        const fields = { ...kind.fieldsOf(held.claimed), code: error?.code ?? "LEASE_LOST" };
        logger.warn(fields, kind.texts.dropped);
      },
      async send(items) {
        await kind.report(items.map(({ held, outcome }) => kind.resultOf(held.claimed, outcome)));
        for (const { held } of items) held.letGo();
      },
    });
    return reports;
  }

  /** Resolves when at most `level` are held, after `ms` at the latest, or at the signal. */
  async #heldAtMost(level: number, ms: number | null, signal?: AbortSignal): Promise<void> {
    if (this.#heldCount <= level || signal?.aborted === true) return;
    const ended = new AbortController();
    const end = (): void => ended.abort();
    const callOff = ms === null ? null : this.#options.clock.after(ms, end);
    signal?.addEventListener("abort", end, { once: true });
    while (this.#heldCount > level && !ended.signal.aborted) {
      await new Promise<void>((resolve) => {
        this.#listeners.push(resolve);
        ended.signal.addEventListener("abort", () => resolve(), { once: true });
      });
    }
    callOff?.();
    signal?.removeEventListener("abort", end);
  }
}

function thrown(error: unknown): Unmade {
  const { error: known } = outcomeOfError(error);
  return failure(known?.class ?? "user", known?.message ?? messageOf(error));
}

function failure(kind: string, message: string): Unmade {
  return { type: "failed", error: { class: kind, message: message.slice(0, 2_000) } };
}

function isFailure(outcome: object): outcome is Unmade & { type: "failed" } {
  return "type" in outcome && outcome.type === "failed";
}
