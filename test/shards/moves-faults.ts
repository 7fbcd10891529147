import type { Random } from "../simulation/random.ts";
import type { Shard } from "../../src/shards/shard.ts";

/** What a process that is no more throws out of every call. */
export class Killed extends Error {
  override readonly name = "Killed";
}

/** How often what happens to a call on a shard. */
export type FaultRates = {
  kill: number;
  freeze: number;
  fail: number;
  /** The method after which a worker always dies. */
  killAfter?: string;
};

/** No fault at all. */
export const NO_FAULTS: FaultRates = { kill: 0, freeze: 0, fail: 0 };

/** One attempt of a worker, and what becomes of it. */
export class FaultyAttempt {
  readonly #random: Random;
  readonly #rates: FaultRates;
  readonly #onFreeze: () => void;
  isDead = false;
  thaw: (() => void) | null = null;
  #wasFrozen = false;

  constructor(random: Random, rates: FaultRates, onFreeze: () => void) {
    this.#random = random;
    this.#rates = rates;
    this.#onFreeze = onFreeze;
  }

  /** A shard as this attempt sees it: a call may not be made, or nobody hears what came of it. */
  around(shard: Shard, note: (method: string, given: unknown) => void): Shard {
    return new Proxy(shard, {
      get: (on, name) => {
        const value = on[name as keyof Shard];
        if (typeof value !== "function") return value;
        const method = (value as (...given: unknown[]) => Promise<unknown>).bind(on);
        return async (...given: unknown[]) => {
          await this.#before();
          const answer = await method(...given);
          note(String(name), given);
          const isLast = this.#rates.killAfter === name;
          if (this.isDead || isLast || this.#random.chance(this.#rates.kill)) throw this.#die();
          return answer;
        };
      },
    });
  }

  async #before(): Promise<void> {
    if (this.isDead || this.#random.chance(this.#rates.kill)) throw this.#die();
    if (this.#random.chance(this.#rates.fail)) throw new Error("the shard has hiccups");
    if (this.#wasFrozen || !this.#random.chance(this.#rates.freeze)) return;
    this.#wasFrozen = true;
    await new Promise<void>((resolve) => {
      this.thaw = resolve;
      this.#onFreeze();
    });
  }

  #die(): Killed {
    this.isDead = true;
    return new Killed();
  }
}
