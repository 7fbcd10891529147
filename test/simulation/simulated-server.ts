import { Engine } from "../../src/engine/engine.ts";
import { type Environment, nodeHash } from "../../src/engine/config.ts";
import type { Store } from "../../src/store/store.ts";
import { type FaultRates, FaultyStore, INJECTED } from "./faulty-store.ts";
import type { Random } from "./random.ts";
import type { SimulatedTime } from "./simulated-time.ts";

/** The tenant's secret in every simulation. */
export const SECRET = "the secret of the simulation";
export const TENANT = "simulation";

/** The other side is not there, or its answer was lost: the caller cannot know which. */
export class ConnectionLost extends Error {
  override readonly name = "ConnectionLost";
}

/** One life of a server process. */
type Life = {
  engine: Engine | null;
  store: FaultyStore;
  isGone: boolean;
  /** What tells those who still wait for an answer that it will not come. */
  ends: Set<() => void>;
};

/** What servers need from the simulation around them. */
export type ServerWorld = {
  time: SimulatedTime;
  random: Random;
  store: Store;
  workspaceId: string;
  rates: FaultRates;
  leaseMs: number;
  newId: () => string;
  /** Something in a server's log that no injected fault explains. */
  unexpected: (what: string) => void;
};

/** A server that crashes with everything in its memory, and starts again some time later. */
export class SimulatedServer {
  readonly #world: ServerWorld;
  #life: Life | null = null;
  #isShut = false;
  restarts = 0;
  #transactionsBefore = 0;

  constructor(world: ServerWorld) {
    this.#world = world;
  }

  get engine(): Engine | null {
    return this.#life?.engine ?? null;
  }

  /** Transactions of all lives. */
  get transactions(): number {
    return this.#transactionsBefore + (this.#life?.store.transactions ?? 0);
  }

  /** Starts the process; a process that fails while it starts is started again. */
  async start(): Promise<void> {
    const { time, random, store, rates } = this.#world;
    const life: Life = {
      engine: null,
      isGone: false,
      ends: new Set(),
      store: new FaultyStore(store, { time, random, rates, crash: () => this.#end(life) }),
    };
    this.#life = life;
    try {
      const engine = await Engine.open({
        store: life.store,
        tenantId: TENANT,
        workspaceId: this.#world.workspaceId,
        environment: this.#environment(life),
        leaseMs: this.#world.leaseMs,
      });
      if (life.isGone) return;
      life.engine = engine;
      engine.start();
    } catch {
      this.#end(life);
    }
  }

  crash(): void {
    if (this.#life !== null) this.#end(this.#life);
  }

  /** The process is asked to stop: it finishes what it has accepted, and is started again. */
  stop(): void {
    const life = this.#life;
    if (life === null || life.engine === null) return;
    const end = (): void => this.#end(life);
    life.engine.stop().then(end, end);
  }

  /** The process ends and is not started again. */
  shut(): void {
    this.#isShut = true;
    this.crash();
  }

  /** From now on the store is kind. */
  heal(rates: FaultRates): void {
    this.#world.rates = rates;
    if (this.#life !== null) this.#life.store.rates = rates;
  }

  /** Asks the server; `ConnectionLost` when it is down or goes down meanwhile. */
  ask<Result>(question: (engine: Engine) => Promise<Result>): Promise<Result> {
    const life = this.#life;
    const engine = life?.engine ?? null;
    if (life === null || engine === null || life.isGone) {
      return Promise.reject(new ConnectionLost("the server is down"));
    }
    return new Promise((resolve, reject) => {
      const end = (): void => reject(new ConnectionLost("the server went down"));
      life.ends.add(end);
      question(engine).then(
        (answer) => {
          life.ends.delete(end);
          resolve(answer);
        },
        (error: unknown) => {
          life.ends.delete(end);
          reject(error);
        },
      );
    });
  }

  #end(life: Life): void {
    if (life.isGone) return;
    life.isGone = true;
    life.store.die();
    for (const end of life.ends) end();
    if (this.#life !== life) return;
    this.#life = null;
    this.#transactionsBefore += life.store.transactions;
    if (this.#isShut) return;
    const { time, random } = this.#world;
    time.schedule(random.integer(1, 8_000), () => {
      if (this.#isShut) return;
      this.restarts += 1;
      void this.start();
    });
  }

  #environment(life: Life): Environment {
    const { time, random, newId, unexpected } = this.#world;
    const whileAlive = (callback: () => void) => (): void => {
      if (!life.isGone) callback();
    };
    return {
      hash: nodeHash,
      zoneDatabase: "2026a",
      checksEvents: true,
      random: () => random.next(),
      newId,
      newSecret: () => SECRET,
      elapsedMs: () => time.now,
      defer: (callback) => {
        time.schedule(0, whileAlive(callback));
      },
      timer: (ms, callback) => time.schedule(ms, whileAlive(callback)),
      warn: (message, details) => {
        const text = JSON.stringify(details);
        if (!text.includes(INJECTED)) unexpected(`${message}: ${text}`);
      },
    };
  }
}
