import type { Learnt } from "../../work/head-protocol.ts";
import { Throttled } from "../../define/errors.ts";
import type { Clock } from "../outbox.ts";
import { LoneFailures } from "./suspect-block.ts";
import { RequestSize } from "./request-size.ts";
import { sourceFailureOf } from "./source-failure.ts";
import { SourcePace, THROTTLE_MS_MAX } from "./source-pace.ts";

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
