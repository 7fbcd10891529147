import type { Learnt } from "../../work/probe-protocol.ts";
import { Throttled } from "../../define/errors.ts";
import type { Clock } from "../outbox.ts";
import { LoneFailures, sourceFailureOf } from "./source-failure.ts";

/** Successes in a row at the full size after which a little more is tried. */
const GROW_AFTER = 8;
const GROW_FACTOR = 1.25;
/** Successes in a row after which a size that failed may be tried again. */
const FORGIVE_AFTER = 64;

/**
 * How many blocks a source answers for at once, as far as is known. It shrinks at once when a
 * request was too large, and grows slowly.
 */
export class RequestSize {
  #value: number | null;
  /** The smallest size that was too large since the last long run of successes. */
  #failed: number | null = null;
  /** A size that a row of successes proved. */
  #proven: number | null = null;
  /** The source's suggestion that was followed last, until a request succeeds with it. */
  #followed: number | null = null;
  #successes = 0;

  constructor(value: number | null = null) {
    this.#value = value;
  }

  /** The most blocks to ask for; null while nothing sets a limit. */
  get value(): number | null {
    return this.#value;
  }

  /** Takes over what others learnt, or where to begin. */
  adopt(value: number | null): void {
    if (value === this.#value) return;
    this.#value = value;
    this.#successes = 0;
    this.#proven = null;
  }

  /** A request of so many blocks was answered. Answers whether the size grew. */
  succeeded(asked: number): boolean {
    if (this.#followed !== null && asked >= this.#followed) this.#followed = null;
    // A request that was small for other reasons says nothing about the limit.
    if (this.#value === null || asked < this.#value) return false;
    this.#successes++;
    if (this.#successes % GROW_AFTER !== 0) return false;
    this.#proven = this.#value;
    if (this.#successes >= FORGIVE_AFTER) this.#failed = null;
    const grown = Math.max(this.#value + 1, Math.floor(this.#value * GROW_FACTOR));
    const size = Math.min(grown, this.#failed === null ? grown : this.#failed - 1);
    if (size <= this.#value || !Number.isSafeInteger(size)) return false;
    this.#value = size;
    return true;
  }

  /** A request of so many blocks was too large. Answers whether the size shrank. */
  tooLarge(asked: number, suggested: number | null): boolean {
    if (asked <= 1) return false;
    this.#failed = Math.min(asked, this.#failed ?? asked);
    const size = this.#smallerThan(asked, suggested);
    // Requests that were under way together are too large together: that counts once.
    if (this.#value !== null && this.#value <= size) return false;
    this.#value = size;
    this.#successes = 0;
    return true;
  }

  /**
   * A request of so many blocks was not answered, which says nothing about what was proven; but more
   * than that may be what the source cannot do in time. Answers whether the size shrank.
   */
  unanswered(asked: number): boolean {
    const proven = this.#proven;
    if (proven === null || this.#value === null) return false;
    if (asked <= proven || this.#value <= proven) return false;
    this.#failed = proven + 1;
    this.#value = proven;
    this.#successes = 0;
    return true;
  }

  #smallerThan(asked: number, suggested: number | null): number {
    const isFollowed = this.#followed !== null && asked <= this.#followed;
    // A suggestion that did not hold once is not followed step by step down to nothing.
    if (!isFollowed && suggested !== null && suggested >= 1 && Math.floor(suggested) < asked) {
      this.#followed = Math.floor(suggested);
      return this.#followed;
    }
    const half = Math.floor(asked / 2);
    const proven = this.#proven;
    this.#proven = null;
    return proven !== null && proven < asked ? Math.max(half, proven) : half;
  }
}

/** The pause to begin with when a source complains for the first time, at the least. */
const INTERVAL_MS_MIN = 20;
const PACE_INTERVAL_MS_MAX = 60_000;
/** A pause shorter than this is none. */
const INTERVAL_MS_GONE = 5;
const SLOW_FACTOR = 2;
/** Successes in a row, or time with at least one, after which a little less of a pause is tried. */
const QUICKEN_AFTER = 20;
const QUICKEN_MS = 1_000;
const QUICKEN_FACTOR = 0.9;
const QUICKEN_FACTOR_MIN = 0.5;
/** How long a source is left alone that does not say for how long, at first and at most. */
const REST_MS_FIRST = 500;
const REST_MS_MAX = 60_000;
/** Longest time that a source is believed to want to be left alone. */
export const THROTTLE_MS_MAX = 3_600_000;
/** Over how many requests the present pace is measured. */
const MEASURED = 10;

/**
 * When the next request to a source may be made, in milliseconds of the worker's own clock: not
 * while it wants to be left alone, and with a pause that all workers keep together.
 */
export class SourcePace {
  #intervalMs = 0;
  #workers = 1;
  #perSecond: number | null = null;
  #restsUntil = Number.NEGATIVE_INFINITY;
  /** When the last requests began, the newest last. */
  #starts: number[] = [];
  #slowedAt = Number.NEGATIVE_INFINITY;
  #changedAt = Number.NEGATIVE_INFINITY;
  #successes = 0;
  #complaints = 0;

  /** The pause between requests of all workers together that was learnt. */
  get intervalMs(): number {
    return this.#intervalMs;
  }

  /** Until when the source wants to be left alone. */
  get restsUntil(): number {
    return this.#restsUntil;
  }

  /** Holds to a limit of all workers together; the lowest that was ever given counts. */
  limitTo(perSecond: number | null): void {
    if (perSecond === null) return;
    this.#perSecond = Math.min(perSecond, this.#perSecond ?? perSecond);
  }

  adopt(learnt: { intervalMs: number; restsUntil: number; workers: number }): void {
    this.#intervalMs = learnt.intervalMs;
    this.#workers = learnt.workers;
    this.#restsUntil = Math.max(this.#restsUntil, learnt.restsUntil);
  }

  /** When the next request may begin. */
  nextAt(): number {
    const limitMs = this.#perSecond === null ? 0 : 1_000 / this.#perSecond;
    const pauseMs = Math.max(this.#intervalMs, limitMs) * this.#workers;
    const last = this.#starts.at(-1) ?? Number.NEGATIVE_INFINITY;
    return Math.max(this.#restsUntil, last + pauseMs);
  }

  started(now: number): void {
    this.#starts.push(now);
    if (this.#starts.length > MEASURED) this.#starts.shift();
  }

  /**
   * A request was answered. Answers whether the pause changed. Time counts as well as requests: else
   * the longer the pause, the longer it would stay, and now and then a complaint would make it endless.
   */
  succeeded(startedAt: number, now: number): boolean {
    if (startedAt < this.#slowedAt) return false;
    this.#complaints = 0;
    this.#successes++;
    if (this.#intervalMs === 0) return false;
    const since = Math.max(this.#changedAt, this.#slowedAt, this.#restsUntil);
    if (since === Number.NEGATIVE_INFINITY) this.#changedAt = startedAt;
    const calmMs = Number.isFinite(since) ? now - since : 0;
    const steps = Math.max(this.#successes / QUICKEN_AFTER, calmMs / (QUICKEN_MS * this.#workers));
    if (steps < 1) return false;
    this.#successes = 0;
    this.#changedAt = now;
    const shorter = this.#intervalMs * Math.max(QUICKEN_FACTOR_MIN, QUICKEN_FACTOR ** steps);
    this.#intervalMs = shorter < INTERVAL_MS_GONE ? 0 : shorter;
    return true;
  }

  /** The source said that it is asked too often. */
  throttled(startedAt: number, retryAfterMs: number | null, now: number): void {
    const isNew = this.slowDown(startedAt, now);
    if (isNew) this.#complaints++;
    const restMs = REST_MS_FIRST * 2 ** Math.min(20, Math.max(0, this.#complaints - 1));
    const said = retryAfterMs !== null && retryAfterMs >= 0 ? retryAfterMs : null;
    const ms = Math.min(said ?? Math.min(restMs, REST_MS_MAX), THROTTLE_MS_MAX);
    this.#restsUntil = Math.max(this.#restsUntil, now + ms);
  }

  /**
   * Makes the pause longer. Requests that were under way together fail together: that counts once,
   * and the answer is whether it did.
   */
  slowDown(startedAt: number, now: number): boolean {
    if (startedAt <= this.#slowedAt) return false;
    this.#slowedAt = now;
    this.#successes = 0;
    const before = this.#intervalMs === 0 ? this.#measuredMs(now) : this.#intervalMs;
    const longer = Math.max(INTERVAL_MS_MIN, before * SLOW_FACTOR);
    this.#intervalMs = Math.min(PACE_INTERVAL_MS_MAX, longer);
    return true;
  }

  /** How far apart requests were, of all workers if the others are as busy as this one. */
  #measuredMs(now: number): number {
    const [first] = this.#starts;
    if (first === undefined || this.#starts.length < 2) return 0;
    return Math.min(1_000, (now - first) / this.#starts.length / this.#workers);
  }
}

/** Whoever would have to wait longer than this for a source to be open again goes away instead. */
const PATIENCE_MS = 60_000;
/** How often somebody who waits shows that it is alive. */
const ALIVE_MS = 1_000;
const INTERVAL_MS_MAX = 600_000;
/** How many live requests go before one that is not and waits: a slow pace must not starve it. */
const LIVE_IN_A_ROW = 3;

/** What a gate needs around it. */
export type SourceGateOptions = {
  source: string;
  clock: Clock;
  /** Milliseconds since 1970, for what workers tell each other. */
  wallNow: () => number;
  /** Told when a request is about to be made, and when something was learnt. */
  used: () => void;
  learnt: () => void;
};

/** One request to a source. */
export type SourceRequest = {
  isLive: boolean;
  /** How many blocks are asked for; null when it is not about a range. */
  size: number | null;
  signal: AbortSignal;
  /** Called every now and then while the request has to wait. */
  alive: () => void;
};

type Waiter = { resolve: () => void; reject: (error: unknown) => void };

/**
 * The one way to a source, for all segments and heads of this worker: requests keep to its pace, live
 * ones first but for a share of the rest, otherwise in the order they came, and what their ends say
 * about it is learnt.
 */
export class SourceGate {
  readonly loneFailures = new LoneFailures();
  readonly #options: SourceGateOptions;
  readonly #size = new RequestSize();
  readonly #pace = new SourcePace();
  readonly #live: Waiter[] = [];
  readonly #history: Waiter[] = [];
  #callOff: (() => void) | null = null;
  #liveInARow = 0;
  #usedAt: number;

  constructor(options: SourceGateOptions) {
    this.#options = options;
    this.#usedAt = options.clock.now();
  }

  get source(): string {
    return this.#options.source;
  }

  /** The most blocks to ask for at once; null while nothing sets a limit. */
  get requestSize(): number | null {
    return this.#size.value;
  }

  /** When it was last used. */
  get usedAt(): number {
    return this.#usedAt;
  }

  /** What a definition says about the source, as far as nothing better is known. */
  begin(requestSize: number | null, requestsPerSecond: number | null): void {
    this.#usedAt = this.#options.clock.now();
    if (this.#size.value === null) this.#size.adopt(requestSize);
    this.#pace.limitTo(requestsPerSecond);
  }

  /**
   * Makes a request when it is its turn. Throws what the request throws, the signal's reason, or
   * `Throttled` when the source wants to be left alone for long.
   */
  async ask<Answer>(request: SourceRequest, call: () => Promise<Answer>): Promise<Answer> {
    await this.turn(request);
    const startedAt = this.#options.clock.now();
    let answer: Answer;
    try {
      answer = await call();
    } catch (error) {
      // What a request makes of its abort says nothing about the source.
      if (!request.signal.aborted) this.#failed(error, startedAt, request.size);
      throw error;
    }
    if (!request.signal.aborted) this.#succeeded(startedAt, request.size);
    return answer;
  }

  /** What is known, to be told to others. */
  learnt(): Learnt {
    const { clock, wallNow } = this.#options;
    const restMs = this.#pace.restsUntil - clock.now();
    return {
      request_size: this.#size.value,
      interval_ms: Math.min(INTERVAL_MS_MAX, Math.round(this.#pace.intervalMs)),
      throttled_until: restMs > 0 ? new Date(wallNow() + restMs).toISOString() : null,
    };
  }

  /** Takes over what is known to all workers, of which so many use the source. */
  adopt({ request_size, interval_ms, throttled_until }: Learnt, workers: number): void {
    const { clock, wallNow } = this.#options;
    if (request_size !== null) this.#size.adopt(request_size);
    const restMs = throttled_until === null ? 0 : Date.parse(throttled_until) - wallNow();
    // Nobody rests for so long: the clock of whoever said that is wrong, or this one.
    const isRest = restMs > 0 && restMs <= THROTTLE_MS_MAX;
    this.#pace.adopt({
      intervalMs: interval_ms,
      restsUntil: isRest ? clock.now() + restMs : Number.NEGATIVE_INFINITY,
      workers,
    });
    this.#dispatch();
  }

  /** Takes over only what must not be overlooked: this worker has just learnt something newer. */
  adoptWorkers(workers: number): void {
    const { intervalMs, restsUntil } = this.#pace;
    this.#pace.adopt({ intervalMs, restsUntil, workers });
    this.#dispatch();
  }

  /**
   * Waits for the turn of one request. Throws the signal's reason, or `Throttled` when the source wants
   * to be left alone for long.
   */
  async turn({ isLive, signal, alive }: Omit<SourceRequest, "size">): Promise<void> {
    signal.throwIfAborted();
    this.#usedAt = this.#options.clock.now();
    this.#options.used();
    return new Promise((resolve, reject) => {
      const queue = isLive ? this.#live : this.#history;
      const leave = (): void => {
        callOff();
        signal.removeEventListener("abort", abort);
        const at = queue.indexOf(waiter);
        if (at !== -1) queue.splice(at, 1);
      };
      const waiter: Waiter = {
        resolve() {
          leave();
          resolve();
        },
        reject(error) {
          leave();
          reject(error);
        },
      };
      const abort = (): void => waiter.reject(signal.reason);
      let callOff = (): void => undefined;
      const beat = (): void => {
        alive();
        callOff = this.#options.clock.after(ALIVE_MS, beat);
      };
      signal.addEventListener("abort", abort, { once: true });
      queue.push(waiter);
      callOff = this.#options.clock.after(ALIVE_MS, beat);
      this.#dispatch();
    });
  }

  /** Lets in whose turn it is, and comes back when the next one may be. */
  #dispatch(): void {
    const { clock } = this.#options;
    this.#callOff?.();
    this.#callOff = null;
    while (this.#live.length + this.#history.length > 0) {
      const now = clock.now();
      const restMs = this.#pace.restsUntil - now;
      if (restMs > PATIENCE_MS) {
        this.#sendAway(restMs);
        return;
      }
      const waitMs = this.#pace.nextAt() - now;
      if (waitMs > 0) {
        this.#callOff = clock.after(waitMs, () => this.#dispatch());
        return;
      }
      this.#pace.started(now);
      this.#usedAt = now;
      this.#next()?.resolve();
    }
  }

  #next(): Waiter | undefined {
    const [live] = this.#live;
    const [other] = this.#history;
    const isLive = live !== undefined && (other === undefined || this.#liveInARow < LIVE_IN_A_ROW);
    this.#liveInARow = isLive && other !== undefined ? this.#liveInARow + 1 : 0;
    return isLive ? live : other;
  }

  #sendAway(restMs: number): void {
    const ms = Math.ceil(restMs);
    const message = `The source ${this.source} wants to be left alone for another ${ms} ms.`;
    const waiters = [...this.#live, ...this.#history];
    for (const waiter of waiters) waiter.reject(new Throttled(message, ms));
  }

  #succeeded(startedAt: number, size: number | null): void {
    const grew = size !== null && this.#size.succeeded(size);
    const quickened = this.#pace.succeeded(startedAt, this.#options.clock.now());
    if (grew || quickened) this.#options.learnt();
  }

  #failed(error: unknown, startedAt: number, size: number | null): void {
    const now = this.#options.clock.now();
    const failure = sourceFailureOf(error);
    switch (failure.type) {
      case "too-large":
        if (size === null || !this.#size.tooLarge(size, failure.error.suggestedSize)) return;
        break;
      case "throttled":
        this.#pace.throttled(startedAt, failure.error.retryAfterMs, now);
        break;
      case "timeout": {
        const isSlower = this.#pace.slowDown(startedAt, now);
        const isSmaller = size !== null && this.#size.unanswered(size);
        if (!isSlower && !isSmaller) return;
        break;
      }
      case "unavailable":
      case "network":
        if (size === null || !this.#size.unanswered(size)) return;
        break;
      default:
        return;
    }
    this.#options.learnt();
    this.#dispatch();
  }
}
