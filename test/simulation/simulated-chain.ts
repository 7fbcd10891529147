import {
  rangeTooLarge,
  sourceLagging,
  sourceUnavailable,
  throttled,
} from "../../src/define/errors.ts";
import type { Random } from "./random.ts";
import type { SimulatedTime } from "./simulated-time.ts";

/** What a chain needs from the simulation around it. */
export type ChainWorld = {
  time: SimulatedTime;
  random: Random;
  /** Whether nothing grows, changes or fails any more. */
  isCalm: () => boolean;
};

/** One block of the chain as a reader gets it. */
export type BlockRow = { block: number; hash: string };

/** How often a chain does what it does, and how bad it can get. */
type Temper = {
  growMs: number;
  rewriteMs: number | null;
  weatherMs: number | null;
  depthMax: number;
  poison: number;
};

/** Blocks below this share of the first ones are never rewritten. */
const FLOOR_SHARE = 0.5;
/** What a strict node bears. */
const REQUESTS_PER_SECOND = 5;

/**
 * A chain that grows with time, now and then rewrites its last blocks, and is asked through a node
 * that lags, vanishes, throttles, refuses what is too large, and chokes on some blocks for a while.
 */
export class SimulatedChain {
  readonly name: string;
  readonly #world: ChainWorld;
  readonly #temper: Temper;
  /** The fork that each block belongs to. */
  readonly #forks: number[] = [];
  /** The deepest block that may still be rewritten. */
  readonly #floor: number;
  readonly #poison = new Map<number, number>();
  /** Every hash that each block ever had, the newest last. */
  readonly #hashes: string[][] = [];
  #fork = 0;
  #lag = 0;
  #isAway = false;
  #isStrict = false;
  #sizeMax: number | null = null;
  #requests: number[] = [];
  rewrites = 0;

  constructor(name: string, world: ChainWorld) {
    this.name = name;
    this.#world = world;
    const { random } = world;
    const blocks = random.pick([1, 30, 60, 120, 300, 300]);
    this.#floor = Math.floor(blocks * FLOOR_SHARE);
    this.#temper = {
      growMs: random.pick([400, 1_500, 5_000]),
      rewriteMs: random.pick([null, 4_000, 10_000, 25_000]),
      weatherMs: random.pick([null, 3_000, 10_000]),
      depthMax: random.pick([6, 20, 60]),
      poison: random.pick([0, 0, 0.01, 0.04]),
    };
    this.#grow(blocks);
  }

  /** The newest block. */
  get head(): number {
    return this.#forks.length - 1;
  }

  /** The deepest block that can ever be rewritten is above this one. */
  get floor(): number {
    return this.#floor;
  }

  hashOf(block: number): string {
    return `${this.name}/${block}/${this.#forks[block]}`;
  }

  /** Whether a block that had this hash got another one later. */
  wasRewritten(block: number, hash: string): boolean {
    const hashes = this.#hashes[block] ?? [];
    return hashes.includes(hash) && hashes.at(-1) !== hash;
  }

  /** Whether a block has anything to store. */
  static hasRow(block: number): boolean {
    return block % 4 !== 3;
  }

  /** Lets the chain live until all is calm. */
  start(): void {
    const { random } = this.#world;
    this.#often(this.#temper.growMs, () => this.#grow(random.pick([1, 1, 1, 2, 9])));
    if (this.#temper.rewriteMs !== null) this.#often(this.#temper.rewriteMs, () => this.#rewrite());
    if (this.#temper.weatherMs !== null) this.#often(this.#temper.weatherMs, () => this.#change());
  }

  /** Has every block that there ever was once more, as a chain that goes on has sooner or later. */
  finish(): void {
    this.#grow(this.#hashes.length - this.#forks.length);
  }

  /** The newest block as the node says it. */
  async readHead(signal?: AbortSignal): Promise<number> {
    await this.#answer(signal);
    return Math.max(0, this.head - this.#nodeLag());
  }

  async readHash(block: number, signal?: AbortSignal): Promise<string> {
    await this.#answer(signal);
    this.#known(block);
    return this.hashOf(block);
  }

  async readBlocks(from: number, to: number, signal?: AbortSignal): Promise<BlockRow[]> {
    const { random, isCalm } = this.#world;
    await this.#answer(signal);
    const size = to - from + 1;
    if (!isCalm() && this.#sizeMax !== null && size > this.#sizeMax) {
      const suggestedSize = random.pick([this.#sizeMax, null, size, 2 * size]);
      throw rangeTooLarge(`${size} blocks are too many`, { suggestedSize });
    }
    this.#known(to);
    for (let block = from; block <= to; block++) {
      if (this.#isPoison(block)) throw new Error("some block cannot be read");
    }
    const rows: BlockRow[] = [];
    for (let block = from; block <= to; block++) {
      if (SimulatedChain.hasRow(block)) rows.push({ block, hash: this.hashOf(block) });
    }
    return rows;
  }

  /** What a node does before it answers anything. */
  async #answer(signal?: AbortSignal): Promise<void> {
    const { time, random, isCalm } = this.#world;
    const ms = isCalm() ? random.integer(1, 100) : random.pick([1, 20, 20, 100, 400, 2_000]);
    if (!isCalm() && random.chance(0.01)) await hang(signal);
    await time.sleep(ms);
    if (isCalm()) return;
    if (this.#isAway) throw sourceUnavailable("nobody answers");
    if (this.#isTooOften() || random.chance(0.01)) {
      const retryAfterMs = random.pick([null, 100, 1_500]);
      throw throttled("too many requests", { retryAfterMs });
    }
    if (random.chance(0.01)) throw new Error("something odd");
  }

  /** Counts the request; a strict node bears only so many in a second. */
  #isTooOften(): boolean {
    const { now } = this.#world.time;
    this.#requests = [...this.#requests.filter((at) => at > now - 1_000), now];
    return this.#isStrict && this.#requests.length > REQUESTS_PER_SECOND;
  }

  #known(block: number): void {
    if (block > this.head - this.#nodeLag()) throw sourceLagging(`there is no block ${block} yet`);
  }

  #nodeLag(): number {
    return this.#world.isCalm() ? 0 : this.#lag;
  }

  #isPoison(block: number): boolean {
    const { time, isCalm } = this.#world;
    return !isCalm() && (this.#poison.get(block) ?? 0) > time.now;
  }

  #spoil(block: number): void {
    const { time, random } = this.#world;
    if (!random.chance(this.#temper.poison)) return;
    this.#poison.set(block, time.now + random.pick([5_000, 30_000, 10 * 60_000]));
  }

  #grow(blocks: number): void {
    for (let count = 0; count < blocks; count++) {
      this.#forks.push(this.#fork);
      const hashes = this.#hashes[this.head] ?? [];
      this.#hashes[this.head] = [...hashes, this.hashOf(this.head)];
      this.#spoil(this.head);
    }
  }

  /** The last blocks are others now, and perhaps fewer. */
  #rewrite(): void {
    const { random } = this.#world;
    const depth = random.integer(1, random.pick([3, this.#temper.depthMax, this.#temper.depthMax]));
    const forkBlock = Math.max(this.#floor, this.head - depth);
    const lost = this.head - forkBlock;
    if (lost <= 0) return;
    this.#fork += 1;
    this.rewrites += 1;
    this.#forks.length = forkBlock + 1;
    this.#grow(Math.max(0, lost + random.pick([-3, -1, 0, 0, 1, 2])));
  }

  /** The node's mood. */
  #change(): void {
    const { random } = this.#world;
    this.#isAway = random.chance(0.15);
    this.#lag = random.chance(0.3) ? random.integer(1, 20) : 0;
    this.#isStrict = random.chance(0.2);
    this.#sizeMax = random.chance(0.5) ? random.pick([1, 4, 10, 40]) : null;
  }

  #often(ms: number, act: () => void): void {
    const { time, random, isCalm } = this.#world;
    time.schedule(random.integer(1, 2 * ms), () => {
      if (isCalm()) return;
      act();
      this.#often(ms, act);
    });
  }
}

/** An answer that never comes, unless nobody waits for it any more. */
function hang(signal?: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal?.addEventListener("abort", () => reject(new Error("aborted")));
  });
}
