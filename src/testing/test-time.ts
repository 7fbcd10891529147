import { PawlError } from "../kernel/errors.ts";
import type { Clock } from "../worker/outbox.ts";

type Timer = { at: number; order: number; callback: () => void };

/** Turns of the event loop after which everything that needs no time has happened. */
const TURNS = 5;
/** How long a function that runs is left alone before timers are looked at again. */
const LOOK_MS_MAX = 50;

/** The instant that an option names. Throws INPUT_INVALID. */
export function epochMsFrom(option: string, value: string | Date): number {
  const isExact = value instanceof Date || /^\d{4}-\d\d-\d\dT.*(?:Z|[+-]\d\d:?\d\d)$/.test(value);
  const ms = isExact ? new Date(value).getTime() : Number.NaN;
  if (!Number.isNaN(ms)) return ms;
  throw new PawlError(
    "INPUT_INVALID",
    `${option}: expected a Date or a text such as 2026-01-05T06:00:00Z, got ` +
      `${value instanceof Date ? "an invalid Date" : JSON.stringify(value)}.`,
    { details: { option } },
  );
}

/**
 * The time of a test. While the user's code runs it goes on as the machine's does, so timeouts are real;
 * while everybody only waits it jumps to what is due next, so a retry in an hour takes no time.
 */
export class TestTime implements Clock {
  readonly #startMs: number;
  readonly #limitMs: number;
  #timers: Timer[] = [];
  #order = 0;
  #passedMs = 0;
  #running = 0;
  #resumedAt = 0;
  #changed: () => void = () => undefined;

  /** Begins at an epoch time; at most so much may pass in one wait. */
  constructor(startMs: number, limitMs: number) {
    this.#startMs = startMs;
    this.#limitMs = limitMs;
  }

  /** Milliseconds since the test began. */
  readonly now = (): number =>
    this.#running === 0 ? this.#passedMs : this.#passedMs + performance.now() - this.#resumedAt;

  /** Milliseconds since 1970, as the clock on the wall shows them. */
  readonly wallMs = (): number => Math.floor(this.#startMs + this.now());

  readonly after = (ms: number, callback: () => void): (() => void) => {
    const timer = { at: this.now() + Math.max(0, ms), order: this.#order++, callback };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((each) => each !== timer);
    };
  };

  /** Code of the user begins, or something else that takes time of its own; answers how it ends. */
  enter(): () => void {
    if (this.#running === 0) this.#resumedAt = performance.now();
    this.#running++;
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      if (this.#running === 1) this.#passedMs = this.now();
      this.#running--;
      this.#changed();
    };
  }

  /** Calls the user's code; what it answers at once is answered at once. */
  spend<Answer>(call: () => Answer, leave: () => void): Answer | Promise<Awaited<Answer>> {
    let answer: Answer;
    try {
      answer = call();
    } catch (error) {
      leave();
      throw error;
    }
    if (typeof answer !== "object" || answer === null || !("then" in answer)) {
      leave();
      return answer;
    }
    // A promise of our own: it hears a thenable once, however that behaves.
    return new Promise<Awaited<Answer>>((resolve) => {
      resolve(answer as Awaited<Answer>);
    }).finally(leave);
  }

  /** Lets time pass until the work is done; `NOT_YET` when that takes more than there may be. */
  async during<Answer>(work: Promise<Answer>, what: string): Promise<Answer> {
    let isOver = false;
    const over = (): void => {
      isOver = true;
      this.#changed();
    };
    work.then(over, over);
    const until = this.now() + this.#limitMs;
    await this.#pass(
      () => isOver,
      (at) => {
        if (at > until) throw this.#tooLong(what);
      },
    );
    return work;
  }

  /** Lets time pass until the clock on the wall shows this. */
  async advanceTo(wallMs: number): Promise<void> {
    const until = wallMs - this.#startMs;
    const callOff = this.after(until - this.now(), () => undefined);
    await this.#pass(
      () => this.now() >= until,
      () => undefined,
    );
    callOff();
  }

  /** Lets what is due happen in its order; `check` hears of each time that is jumped to. */
  async #pass(isOver: () => boolean, check: (at: number) => void): Promise<void> {
    for (;;) {
      await turns();
      if (isOver()) return;
      const isRunning = this.#running > 0;
      if (isRunning) await this.#leaveAlone();
      const next = this.#next();
      // Without a timer somebody waits for the world outside: its answer comes in a turn to come.
      if (next === null || (isRunning && next.at > this.now())) continue;
      if (!isRunning) {
        check(next.at);
        this.#passedMs = Math.max(this.#passedMs, next.at);
      }
      this.#timers = this.#timers.filter((each) => each !== next);
      next.callback();
    }
  }

  #next(): Timer | null {
    let next: Timer | null = null;
    for (const timer of this.#timers) {
      const isSooner = next === null || timer.at < next.at;
      if (isSooner || (timer.at === next?.at && timer.order < next.order)) next = timer;
    }
    return next;
  }

  /** Waits until the user's code has ended, or a timer is due. */
  #leaveAlone(): Promise<void> {
    const next = this.#next();
    const leftMs = next === null ? LOOK_MS_MAX : Math.max(0, next.at - this.now());
    return new Promise((resolve) => {
      const timeout = setTimeout(resolve, Math.min(LOOK_MS_MAX, leftMs));
      this.#changed = () => {
        clearTimeout(timeout);
        resolve();
      };
    });
  }

  #tooLong(what: string): PawlError {
    return new PawlError(
      "NOT_YET",
      `${what} has not ended after ${this.#limitMs} ms of the test's own time. It may wait for a ` +
        "retry or for something that nobody makes; allow more time with limitMs.",
      { details: { limit_ms: this.#limitMs } },
    );
  }
}

async function turns(): Promise<void> {
  for (let turn = 0; turn < TURNS; turn++) await new Promise((resolve) => setImmediate(resolve));
}
