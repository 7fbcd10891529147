import { PawlError } from "../../src/kernel/errors.ts";
import type { Shard } from "../../src/shards/shard.ts";
import type { Random } from "../simulation/random.ts";
import type { Pair } from "./broken-shards.ts";

/** What a process that is no more throws out of every call. */
export class Killed extends Error {
  override readonly name = "Killed";
}

/** A call that was about to be made when its process was frozen. */
export type FrozenCall = { readonly method: string; readonly make: () => Promise<unknown> };

/** Calls that change something for a plan, which the shard must refuse from one that is stale. */
const GUARDED = new Set<keyof Shard>([
  "apply",
  "armCapture",
  "closeFences",
  "disarmCapture",
  "dropFences",
  "dropStream",
  "holdFences",
  "release",
  "remove",
  "runDdl",
  "setFences",
  "take",
]);

/** One attempt at a step: it may be killed before or after any call, and others act between calls. */
export class Attempt {
  readonly #random: Random;
  readonly #killRate: number;
  readonly #between: (calls: number) => Promise<void>;
  readonly #freeze: (call: FrozenCall) => void;
  #isDead = false;
  #calls = 0;

  constructor(
    random: Random,
    killRate: number,
    on: { between: (calls: number) => Promise<void>; freeze: (call: FrozenCall) => void },
  ) {
    this.#random = random;
    this.#killRate = killRate;
    this.#between = on.between;
    this.#freeze = on.freeze;
  }

  /** The shards as this attempt sees them. */
  around({ source, target }: Pair): Pair {
    return { source: this.#wrapped(source), target: this.#wrapped(target) };
  }

  /** Has a call made, or dies before or after it. */
  async call<Value>(make: () => Promise<Value>): Promise<Value> {
    this.#mayDie();
    this.#calls += 1;
    await this.#between(this.#calls);
    this.#mayDie();
    const value = await make();
    this.#mayDie();
    return value;
  }

  #mayDie(): void {
    if (!this.#isDead && !this.#random.chance(this.#killRate)) return;
    this.#isDead = true;
    throw new Killed("killed");
  }

  #wrapped(shard: Shard): Shard {
    return new Proxy(shard, {
      get: (on, name) => {
        const value = on[name as keyof Shard];
        if (typeof value !== "function") return value;
        const method = name as keyof Shard;
        const bound = (value as (...given: unknown[]) => Promise<unknown>).bind(on);
        return async (...given: unknown[]) => {
          const make = async () => bound(...given);
          const wasDead = this.#isDead;
          try {
            return await this.call(make);
          } catch (error) {
            if (error instanceof Killed && !wasDead && GUARDED.has(method)) {
              this.#freeze({ method, make });
            }
            throw error;
          }
        };
      },
    });
  }
}

/** A removal looks at the fences first, which a later step may have taken away. */
const REFUSALS = new Set(["COORDINATOR_STALE", "STATE_ILLEGAL"]);

/** Makes a frozen call; answers what is wrong when it was not refused. */
export async function thaw({ method, make }: FrozenCall): Promise<string | null> {
  try {
    await make();
  } catch (error) {
    if (error instanceof PawlError && REFUSALS.has(error.code)) return null;
    return `a stale ${method} fails with ${String(error)}`;
  }
  return `a stale ${method} is not refused`;
}
