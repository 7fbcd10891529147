import { type ErrorCode, PawlError } from "../kernel/errors.ts";
import { messageOf, plainError } from "./plain-values.ts";

const FIRST_MS = 100;
const FACTOR = 2;

/**
 * How long to wait after so many failures in a row: doubling from 100 ms up to `maxMs`, of which a
 * random half is taken off, so that workers do not come back in step.
 */
export function backoffMs(failures: number, random: () => number, maxMs: number): number {
  const full = Math.min(maxMs, FIRST_MS * FACTOR ** Math.min(failures - 1, 30));
  return full * (0.5 + random() / 2);
}

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

/** The longest pause before what could not be sent is tried again. */
export const BACKOFF_MS_MAX = 2_000;

/** Refusals of a whole message that a part of it may escape. */
const TOO_MUCH_CODES: ReadonlySet<ErrorCode> = new Set([
  "INPUT_INVALID",
  "QUOTA_EXCEEDED",
  "SELECTION_TOO_LARGE",
]);

/** What an outbox needs to know about its items. */
export type OutboxOptions<Item> = {
  /** Delivers items, and throws when none of them was taken. */
  send: (items: readonly Item[]) => Promise<void>;
  /** Looked at before every try; what nobody waits for any more is given up. */
  isWanted: (item: Item) => boolean;
  /** Told of each item that was not delivered, with the refusal where there was one. */
  giveUp: (item: Item, error: PawlError | null) => void;
  itemsMax: number;
  /** How long items may gather first; 0 is until the end of this turn of the event loop. */
  gatherMs: number;
  /** After so many failures the items at hand are given up. */
  triesMax: number;
  /** So many items go out beside a delivery that is under way; fewer wait for it. Absent: all do. */
  besideMin?: number;
  clock: Clock;
  random: () => number;
};

/** Most deliveries at once, of an outbox that has more than one. */
const DELIVERIES_MAX = 2;

/**
 * Messages to the server on their way out. One delivery at a time; whatever comes in meanwhile
 * goes with the next, so that the batches grow with the load. Where so much comes in that it is worth
 * a message of its own, and its order does not matter, it may go out beside the first: then the server
 * need not wait for the way there and back. A failure that may pass is tried
 * again; when the server finds a batch invalid or too large it is halved, so that one bad item costs
 * no other.
 */
export class Outbox<Item> {
  readonly #options: OutboxOptions<Item>;
  #waiting: Item[] = [];
  /** The number of the first item of each delivery under way, in the order in which they came. */
  readonly #underWay = new Set<{ first: number }>();
  #callOff: (() => void) | null = null;
  #onEmpty: (() => void)[] = [];
  /** Items that came, ever. */
  #came = 0;
  #onGone: { before: number; resolve: () => void }[] = [];

  constructor(options: OutboxOptions<Item>) {
    this.#options = options;
  }

  get isEmpty(): boolean {
    return this.#waiting.length === 0 && this.#underWay.size === 0;
  }

  /** Whether a delivery is about to begin. */
  get isDue(): boolean {
    return this.#callOff !== null;
  }

  get waitingCount(): number {
    return this.#waiting.length;
  }

  add(item: Item): void {
    this.#waiting.push(item);
    this.#came++;
    if (this.#callOff !== null || !this.#mayBegin()) return;
    if (this.#options.gatherMs > 0) {
      this.#callOff = this.#options.clock.after(this.#options.gatherMs, () => this.#start());
    } else {
      const turn = setImmediate(() => this.#start());
      this.#callOff = () => clearImmediate(turn);
    }
  }

  /** Sends without gathering; resolves when everything is delivered or given up. */
  flush(): Promise<void> {
    if (this.isEmpty) return Promise.resolve();
    const empty = new Promise<void>((resolve) => this.#onEmpty.push(resolve));
    if (this.#mayBegin()) this.#start();
    return empty;
  }

  /**
   * Sends without gathering; resolves when what is here now is delivered or given up, though more may come
   * without end.
   */
  flushPresent(): Promise<void> {
    if (this.isEmpty) return Promise.resolve();
    const gone = new Promise<void>((resolve) => this.#onGone.push({ before: this.#came, resolve }));
    if (this.#mayBegin()) this.#start();
    return gone;
  }

  /** Whether what waits need not wait for a delivery that is under way. */
  #mayBegin(): boolean {
    const { besideMin = Number.POSITIVE_INFINITY } = this.#options;
    const { size } = this.#underWay;
    return size === 0 || (size < DELIVERIES_MAX && this.#waiting.length >= besideMin);
  }

  #start(): void {
    this.#callOff?.();
    this.#callOff = null;
    void this.#sendAll();
  }

  async #sendAll(): Promise<void> {
    while (this.#waiting.length > 0 && this.#mayBegin()) {
      const delivery = { first: this.#came - this.#waiting.length };
      const batch = this.#nextBatch();
      this.#underWay.add(delivery);
      await this.#deliver(batch);
      this.#underWay.delete(delivery);
      this.#tellGone();
    }
    if (!this.isEmpty) return;
    const listeners = this.#onEmpty;
    this.#onEmpty = [];
    for (const listener of listeners) listener();
  }

  /** Tells who waits for items of which none waits or is under way any more. */
  #tellGone(): void {
    const [oldest] = this.#underWay;
    const gone = oldest?.first ?? this.#came - this.#waiting.length;
    while ((this.#onGone[0]?.before ?? Number.POSITIVE_INFINITY) <= gone) {
      this.#onGone.shift()?.resolve();
    }
  }

  #nextBatch(): Item[] {
    if (this.#waiting.length > this.#options.itemsMax) {
      return this.#waiting.splice(0, this.#options.itemsMax);
    }
    const all = this.#waiting;
    this.#waiting = [];
    return all;
  }

  async #deliver(batch: readonly Item[]): Promise<void> {
    const { send, giveUp, clock, random, triesMax } = this.#options;
    let wanted = batch;
    for (let failures = 0; ; ) {
      wanted = this.#keepWanted(wanted);
      if (wanted.length === 0) return;
      try {
        await send(wanted);
        return;
      } catch (caught) {
        const error = asPawlError(caught);
        failures++;
        if (TOO_MUCH_CODES.has(error.code) && wanted.length > 1) {
          const middle = wanted.length >> 1;
          await this.#deliver(wanted.slice(0, middle));
          await this.#deliver(wanted.slice(middle));
          return;
        }
        if (!error.retryable || failures >= triesMax) {
          for (const item of wanted) giveUp(item, error);
          return;
        }
        await pause(clock, backoffMs(failures, random, BACKOFF_MS_MAX));
      }
    }
  }

  #keepWanted(batch: readonly Item[]): readonly Item[] {
    const { isWanted, giveUp } = this.#options;
    if (batch.every(isWanted)) return batch;
    for (const item of batch) if (!isWanted(item)) giveUp(item, null);
    return batch.filter(isWanted);
  }
}

function asPawlError(caught: unknown): PawlError {
  const error = plainError(caught);
  if (error instanceof PawlError) return error;
  const message = `The message could not be sent: ${messageOf(error)}.`;
  return new PawlError("INPUT_INVALID", message, { cause: error });
}
