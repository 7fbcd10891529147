import { setImmediate as nextTurn } from "node:timers/promises";

/** Who waits for turns: the bodies of one asker, in the order they came. */
type Asker = { underWay: number; readonly waiting: (() => void)[] };

/**
 * Lets a few reads run at a time. Those who ask go round, who has fewest turns first, so that nobody's many reads stand before
 * another's one, and none of them has all the turns. A turn is handed on in a new turn of the
 * process, so that what came in meanwhile is heard between two reads.
 */
export class ReadTurns {
  readonly #turns: number;
  readonly #turnsEach: number;
  /** Those who have or want a turn; the first is the next to get one. */
  readonly #askers = new Map<string, Asker>();
  readonly #waitForEnd: (() => void)[] = [];
  #underWay = 0;

  constructor(turns: number, turnsEach: number) {
    this.#turns = turns;
    this.#turnsEach = turnsEach;
  }

  async run<Result>(asker: string, body: () => Promise<Result>): Promise<Result> {
    await this.#take(asker);
    try {
      return await body();
    } finally {
      this.#giveBack(asker);
    }
  }

  /** Resolves when nobody has or wants a turn. */
  async ended(): Promise<void> {
    if (this.#askers.size === 0) return;
    await new Promise<void>((resolve) => this.#waitForEnd.push(resolve));
  }

  async #take(name: string): Promise<void> {
    const asker = this.#askers.get(name) ?? { underWay: 0, waiting: [] };
    this.#askers.set(name, asker);
    if (this.#underWay < this.#turns && asker.underWay < this.#turnsEach) {
      this.#begin(name, asker);
      return;
    }
    await new Promise<void>((resolve) => asker.waiting.push(resolve));
    await nextTurn();
  }

  /** Whoever gets a turn is the last to get another. */
  #begin(name: string, asker: Asker): void {
    this.#underWay++;
    asker.underWay++;
    this.#askers.delete(name);
    this.#askers.set(name, asker);
  }

  #giveBack(name: string): void {
    this.#underWay--;
    const asker = this.#askers.get(name);
    if (asker !== undefined && --asker.underWay === 0 && asker.waiting.length === 0) {
      this.#askers.delete(name);
    }
    const next = this.#next();
    if (next !== null) {
      const [asked, waiter] = next;
      this.#begin(asked, waiter);
      waiter.waiting.shift()?.();
    }
    if (this.#askers.size === 0) for (const resolve of this.#waitForEnd.splice(0)) resolve();
  }

  /** Of those who wait, who has the fewest turns now; of equals, who got one longest ago. */
  #next(): [name: string, asker: Asker] | null {
    let next: [name: string, asker: Asker] | null = null;
    let fewest = this.#turnsEach;
    for (const [name, asker] of this.#askers) {
      if (asker.waiting.length === 0 || asker.underWay >= fewest) continue;
      next = [name, asker];
      fewest = asker.underWay;
    }
    return next;
  }
}
