type Scheduled = { at: number; order: number; callback: (() => void) | null };

/** Steps without time passing after which the simulated system is taken to spin. */
const STEPS_AT_ONE_TIME_MAX = 20_000;

/**
 * Time that passes only when everything due has happened. Timers, deferred callbacks and sleeps of
 * the simulated system all run here, one after the other, in an order that the seed decides.
 */
export class SimulatedTime {
  /** Milliseconds since the simulation began; never goes back. */
  now = 0;
  /** Whether somebody waits for turns of the event loop, as the real worker does. */
  hasTurns = false;
  readonly #startMs: number;
  readonly #heap: Scheduled[] = [];
  #order = 0;
  #jumpMs = 0;
  #stepsAtOneTime = 0;

  constructor(startMs: number) {
    this.#startMs = startMs;
  }

  /** The clock on the wall, which can be set. */
  wallMs = (): number => this.#startMs + this.now + this.#jumpMs;

  /** Somebody sets the clock, forwards or back. */
  jump(ms: number): void {
    this.#jumpMs += ms;
  }

  /** Runs the callback after so many milliseconds; answers a function that prevents it. */
  schedule(ms: number, callback: () => void): () => void {
    const scheduled: Scheduled = {
      at: this.now + Math.max(0, ms),
      order: this.#order++,
      callback,
    };
    this.#push(scheduled);
    return () => {
      scheduled.callback = null;
    };
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.schedule(ms, resolve);
    });
  }

  /** Lets time pass until `until`, or until `isOver` says so; answers whether it said so. */
  async run(until: number, isOver: () => boolean = () => false): Promise<boolean> {
    // Once in a while the process gets its turn: to hear of rejections that nobody handled.
    await nextTurn();
    for (;;) {
      await (this.hasTurns ? nextTurn() : settled());
      if (isOver()) return true;
      const next = this.#heap[0];
      if (next === undefined || next.at > until) {
        this.now = Math.max(this.now, until);
        return false;
      }
      this.#pop();
      if (next.callback === null) continue;
      this.#stepsAtOneTime = next.at > this.now ? 0 : this.#stepsAtOneTime + 1;
      if (this.#stepsAtOneTime > STEPS_AT_ONE_TIME_MAX) {
        throw new Error(`The system spins at ${this.now} ms without time passing.`);
      }
      this.now = next.at;
      next.callback();
    }
  }

  #push(scheduled: Scheduled): void {
    const heap = this.#heap;
    let at = heap.push(scheduled) - 1;
    while (at > 0) {
      const above = (at - 1) >> 1;
      if (!comesBefore(scheduled, heap[above] as Scheduled)) break;
      heap[at] = heap[above] as Scheduled;
      at = above;
    }
    heap[at] = scheduled;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let at = 0;
    for (;;) {
      let below = 2 * at + 1;
      if (below >= heap.length) break;
      const other = heap[below + 1];
      if (other !== undefined && comesBefore(other, heap[below] as Scheduled)) below += 1;
      if (!comesBefore(heap[below] as Scheduled, last)) break;
      heap[at] = heap[below] as Scheduled;
      at = below;
    }
    heap[at] = last;
  }
}

function comesBefore(one: Scheduled, other: Scheduled): boolean {
  return one.at < other.at || (one.at === other.at && one.order < other.order);
}

/** Another turn of the event loop: by then everything that needs no time has happened. */
function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/**
 * Everything that needs nothing but promises has happened: the next tick comes when none is left to go
 * on. It costs a tenth of a turn.
 */
export function settled(): Promise<void> {
  return new Promise((resolve) => {
    process.nextTick(resolve);
  });
}
