import { canonicalJson } from "../../src/kernel/canonical.ts";
import type { TaskRef } from "../../src/work/run/protocol.ts";
import type { RecordedEvent } from "../../src/work/envelope.ts";
import { rebuildRows } from "../../src/engine/ledger/refold.ts";
import { openSqliteStore } from "../../src/store/sqlite/store.ts";
import type { Store, Workspace } from "../../src/store/store.ts";
import { auditLedger } from "./audit-ledger.ts";
import { auditRows, compareRows, dumpRows, type RowDump } from "./audit-rows.ts";
import { type FaultRates, NO_FAULTS } from "./faulty-store.ts";
import { ASSETS } from "./project.ts";
import { Random } from "./random.ts";
import { SimulatedNetwork, SOUND_NETWORK } from "./simulated-network.ts";
import { SimulatedServer, TENANT } from "./simulated-server.ts";
import { settled, SimulatedTime } from "./simulated-time.ts";
import type { Acknowledged, ClientWorld } from "./simulated-client.ts";
import { type Knowledge, SimulatedUser } from "./simulated-user.ts";
import { SimulatedWorker, type WorkerWorld } from "./simulated-worker.ts";
import { SimulatedAutomation } from "./simulated-automation.ts";
import { SimulatedSyncs } from "./simulated-syncs.ts";
import { unfinishedWork } from "./unfinished-work.ts";
import { Violations } from "./violations.ts";

/** What became of one simulation. */
export type Simulated = {
  seed: number;
  events: number;
  restarts: number;
  /** How long everything took to end once faults had stopped. */
  calmMs: number;
  ledger: readonly RecordedEvent[];
  violations: Violations;
};

const START_MS = Date.parse("2026-03-10T08:00:00.000Z");
/** How long everything has to come to an end once faults have stopped. */
const CALM_MS_MAX = 5 * 60_000;
/** What is left of leases and timers, and then a time in which nothing may happen. */
const SETTLE_MS = 16_000;
const IDLE_MS = 31_000;
/** The share of simulations that have syncs. */
const SYNCS_SHARE = 0.15;

/** What a simulation is told besides its seed. */
export type SimulateOptions = {
  /** Whether there are syncs; a matter of the seed unless told. */
  syncs?: boolean;
};

/** Runs one simulation from its seed and checks every promise on what it left. */
export async function simulate(seed: number, options: SimulateOptions = {}): Promise<Simulated> {
  const violations = new Violations();
  const time = new SimulatedTime(START_MS);
  const store = await storeFor(seed, time);
  try {
    const simulated = await new Simulation(seed, time, store, violations, options).run();
    if (violations.count > 0) await dropStore();
    return simulated;
  } catch (error) {
    violations.add("I37", error instanceof Error ? (error.stack ?? error.message) : String(error));
    await dropStore();
    return { seed, events: 0, restarts: 0, calmMs: 0, ledger: [], violations };
  }
}

/** Simulations that share a store: to open one and to prepare its statements takes longer than to use it. */
const SEEDS_PER_STORE = 40;

/** A store in memory, in which each seed has a workspace of its own; its clock is that of the last one. */
let shared: { store: Store; time: SimulatedTime; seeds: Set<number> } | null = null;

async function storeFor(seed: number, time: SimulatedTime): Promise<Store> {
  if (shared !== null && (shared.seeds.size >= SEEDS_PER_STORE || shared.seeds.has(seed))) {
    await dropStore();
  }
  if (shared === null) {
    const clock = (): number => (shared?.time ?? time).wallMs();
    const elapsedMs = (): number => (shared?.time ?? time).now;
    const store = await openSqliteStore({ path: ":memory:", clock, elapsedMs });
    shared = { store, time, seeds: new Set() };
  }
  shared.time = time;
  shared.seeds.add(seed);
  return shared.store;
}

/** Whatever a simulation left behind in the store does not reach the next. */
async function dropStore(): Promise<void> {
  const store = shared?.store;
  shared = null;
  await store?.close();
}

class Simulation {
  readonly #seed: number;
  readonly #workspaceId: string;
  readonly #random: Random;
  readonly #time: SimulatedTime;
  readonly #store: Store;
  readonly #violations: Violations;
  readonly #servers: SimulatedServer[];
  readonly #network: SimulatedNetwork;
  readonly #leaseMs: number;
  readonly #automation: SimulatedAutomation;
  readonly #syncs: SimulatedSyncs | null;
  readonly #acknowledged: Acknowledged[] = [];
  readonly #recorded: TaskRef[] = [];
  readonly #granted: (TaskRef & { worker_id: string })[] = [];
  readonly #dumps: RowDump[] = [];
  #ids = 0;
  #calmMs = 0;
  #isCalm = false;
  #isOver = false;

  constructor(
    seed: number,
    time: SimulatedTime,
    store: Store,
    violations: Violations,
    options: SimulateOptions,
  ) {
    this.#seed = seed;
    this.#workspaceId = `seed-${seed}`;
    this.#random = new Random(seed);
    this.#time = time;
    this.#store = store;
    this.#violations = violations;
    this.#leaseMs = this.#random.pick([3_000, 15_000]);
    const rates = drawRates(this.#random);
    const count = this.#random.chance(0.3) ? 2 : 1;
    this.#servers = Array.from({ length: count }, () => this.#newServer(rates));
    this.#network = new SimulatedNetwork(time, this.#random.fork(), this.#servers, {
      lostRequest: this.#random.pick([0, 0.02, 0.05]),
      lostAnswer: this.#random.pick([0, 0.02, 0.08]),
      doubled: this.#random.pick([0, 0, 0.05]),
    });
    this.#automation = new SimulatedAutomation(
      { ...this.#clientWorld(), newId: this.#newId, isEnd: () => this.#isOver },
      { schedules: this.#random.chance(0.4), sensors: this.#random.chance(0.2) },
    );
    // Drawn apart, so that a seed without syncs is the simulation that it was before there were any.
    const random = new Random(seed + 1_000_003);
    const isDrawn = random.chance(SYNCS_SHARE);
    this.#syncs = (options.syncs ?? isDrawn) ? this.#newSyncs(random) : null;
  }

  async run(): Promise<Simulated> {
    const workspace = await this.#store.workspace(TENANT, this.#workspaceId);
    for (const server of this.#servers) void server.start();
    await this.#time.run(1);
    await this.#chaos(workspace);
    await this.#calm(workspace);
    await this.#idle(workspace);
    this.#isOver = true;
    const events = await this.#events(workspace);
    const live = await dumpRows(this.#store, workspace);
    this.#auditEffort(events.length);
    await auditLedger(
      {
        events,
        workspace,
        acknowledged: this.#acknowledged,
        recorded: this.#recorded,
        granted: this.#granted,
        live,
        kept: this.#automation.kept,
        items: this.#automation.items,
        chains: this.#syncs?.chains ?? [],
        stored: this.#syncs?.database.log ?? [],
        storedAt: this.#syncs?.storedAt ?? [],
      },
      this.#violations,
    );
    await auditRows(events, [...this.#dumps, live], this.#random.fork(), this.#violations);
    if (this.#random.chance(0.2)) await this.#deliverAgain(workspace, live);
    await this.#end(workspace);
    return {
      seed: this.#seed,
      events: events.length,
      restarts: this.#servers.reduce((sum, server) => sum + server.restarts, 0),
      calmMs: this.#calmMs,
      ledger: events,
      violations: this.#violations,
    };
  }

  /** Users, workers and misfortunes. */
  async #chaos(workspace: Workspace): Promise<void> {
    const knowledge = newKnowledge();
    const users = ["ann", "bob"].map((name) => this.#newUser(name, knowledge));
    const poison = new Set(
      ["a", "b", "3", "7", "2026-02-01", "t2", "day=2026-02-01,region=eu"].filter(() =>
        this.#random.chance(0.25),
      ),
    );
    const workers = Array.from({ length: this.#random.integer(1, 3) }, () =>
      this.#newWorker(poison),
    );
    const operations = this.#random.integer(4, 12);
    let acting = users.length;
    for (const user of users) {
      void user
        .publish()
        .then(() => user.run(operations))
        .finally(() => {
          acting -= 1;
        });
    }
    acting += 1;
    void this.#automation.run(operations).finally(() => {
      acting -= 1;
    });
    if (this.#syncs !== null) {
      acting += 1;
      void this.#syncs.run(operations).finally(() => {
        acting -= 1;
      });
    }
    for (const worker of workers) void worker.run();
    if (this.#random.chance(0.3)) this.#jumpClock();
    if (this.#random.chance(0.5)) this.#dumpNowAndThen(workspace);
    if (this.#random.chance(0.1)) this.#loseLeases(workspace);
    if (this.#random.chance(0.2)) this.#stopNowAndThen();
    await this.#time.run(5 * 60_000, () => acting === 0);
    await this.#time.run(this.#time.now + this.#random.integer(0, 8_000));
  }

  /** Faults stop; whatever was begun must come to its end. */
  async #calm(workspace: Workspace): Promise<void> {
    this.#isCalm = true;
    this.#network.rates = SOUND_NETWORK;
    for (const server of this.#servers) server.heal(NO_FAULTS);
    this.#syncs?.settle();
    await this.#automation.settle(this.#store, workspace);
    const start = this.#time.now;
    const deadline = start + CALM_MS_MAX;
    let unfinished: string[] = [];
    while (this.#time.now < deadline) {
      await this.#time.run(this.#time.now + 5_000);
      unfinished = [
        ...(await unfinishedWork(this.#store, workspace)),
        ...(await this.#automation.unfinished(this.#store, workspace)),
        ...((await this.#syncs?.unfinished(this.#store, workspace)) ?? []),
      ];
      this.#calmMs = this.#time.now - start;
      if (unfinished.length === 0) return;
    }
    this.#violations.add("I37", `still not finished: ${unfinished.join("; ")}`);
  }

  /** Nothing is due and nothing changes, so nothing is recorded. */
  async #idle(workspace: Workspace): Promise<void> {
    await this.#time.run(this.#time.now + SETTLE_MS);
    const before = await this.#pos(workspace);
    await this.#time.run(this.#time.now + IDLE_MS);
    const after = await this.#pos(workspace);
    if (after !== before) {
      this.#violations.add("I71", `an idle ledger grew from ${before} to ${after}`);
    }
    for (const server of this.#servers) {
      const poisoned = Object.entries(server.engine?.status().poisoned ?? {});
      for (const [name, why] of poisoned) this.#violations.add("I11", `${name}: ${why}`);
    }
  }

  /** Everybody is gone, and nobody holds the store. */
  async #end(workspace: Workspace): Promise<void> {
    for (const server of this.#servers) server.shut();
    this.#syncs?.close();
    const isFree = await Promise.race([
      this.#pos(workspace).then(() => true),
      settled().then(() => false),
    ]);
    this.#violations.check(isFree, "I37", "the store is held when all is over");
  }

  /** Nobody goes to the store without end and without anything to do there. */
  #auditEffort(events: number): void {
    const transactions = this.#servers.reduce((sum, server) => sum + server.transactions, 0);
    const seconds = (this.#time.now / 1_000) * this.#servers.length;
    const most = 3 * (events + seconds) + 200;
    const what = `${transactions} transactions for ${events} events in ${this.#time.now} ms`;
    this.#violations.check(transactions <= most, "I71", what);
  }

  /** The whole ledger once more over the rows there are, as after an upgrade. */
  async #deliverAgain(workspace: Workspace, live: RowDump): Promise<void> {
    await rebuildRows(this.#store, workspace, { batch: this.#random.integer(1, 50) });
    const again = await dumpRows(this.#store, workspace);
    compareRows(live, again, "I14", this.#violations);
  }

  async #pos({ ws }: Workspace): Promise<number> {
    return (await this.#store.read(ws, (reader) => reader.head())).pos;
  }

  async #events({ ws }: Workspace): Promise<RecordedEvent[]> {
    return this.#store.read(ws, (reader) => reader.events({ after: 0, limit: 1_000_000 }));
  }

  #jumpClock(): void {
    this.#time.schedule(this.#random.integer(1_000, 60_000), () => {
      if (this.#isCalm) return;
      this.#time.jump(this.#random.integer(-60_000, this.#random.pick([60_000, 60_000, 200_000])));
      this.#jumpClock();
    });
  }

  /** Keeps what the rows are in the middle of things, to be compared with a refold later. */
  #dumpNowAndThen(workspace: Workspace): void {
    this.#time.schedule(this.#random.integer(1_000, 60_000), () => {
      if (this.#isCalm) return;
      void dumpRows(this.#store, workspace).then((dump) => this.#dumps.push(dump));
      this.#dumpNowAndThen(workspace);
    });
  }

  #stopNowAndThen(): void {
    this.#time.schedule(this.#random.integer(1_000, 40_000), () => {
      if (this.#isCalm) return;
      this.#random.pick(this.#servers).stop();
      this.#stopNowAndThen();
    });
  }

  /** The table of leases is lost, as side rows may be. */
  #loseLeases({ ws }: Workspace): void {
    this.#time.schedule(this.#random.integer(5_000, 60_000), () => {
      if (this.#isCalm) return;
      void this.#store.transact(ws, async (transaction) => {
        const leases = await transaction.leases(1_000);
        await transaction.flush({
          events: [],
          changes: [],
          leasesGranted: [],
          leasesReleased: leases.map(({ lease_id }) => lease_id),
          answers: [],
          runsFinished: [],
        });
      });
    });
  }

  /** Looks like a ULID, and orders nothing. */
  #newId = (): string => String(this.#ids++).padStart(26, "0");

  #newServer(rates: FaultRates): SimulatedServer {
    return new SimulatedServer({
      time: this.#time,
      random: this.#random.fork(),
      store: this.#store,
      workspaceId: this.#workspaceId,
      rates,
      leaseMs: this.#leaseMs,
      newId: this.#newId,
      unexpected: (what) => this.#violations.add("I11", what),
    });
  }

  #clientWorld(random: Random = this.#random.fork()): ClientWorld {
    return {
      time: this.#time,
      random,
      network: this.#network,
      isOver: () => this.#isCalm,
      acknowledged: (command) => this.#acknowledged.push(command),
      broken: (promise, what) => this.#violations.add(promise, what),
    };
  }

  #newSyncs(random: Random): SimulatedSyncs {
    this.#time.hasTurns = true;
    const world = {
      ...this.#clientWorld(random),
      ...this.#workerWorld(random),
      isEnd: () => this.#isOver,
      publish: () => this.#newUser("ida", newKnowledge(), random).publish(),
    };
    return new SimulatedSyncs(world, this.#store);
  }

  #newUser(principal: string, knowledge: Knowledge, random?: Random): SimulatedUser {
    const { has } = this.#automation;
    const syncs = this.#syncs?.drawing ?? null;
    const world = { ...this.#clientWorld(random), newId: this.#newId, knowledge, has, syncs };
    return new SimulatedUser(world, principal);
  }

  #newWorker(poison: ReadonlySet<string>): SimulatedWorker {
    return new SimulatedWorker({
      ...this.#workerWorld(this.#random.fork()),
      isOver: () => this.#isOver,
      poison,
      assets: ASSETS,
    });
  }

  #workerWorld(random: Random): Omit<WorkerWorld, "isOver" | "poison" | "assets"> {
    return {
      time: this.#time,
      random,
      network: this.#network,
      leaseMs: this.#leaseMs,
      newId: this.#newId,
      isCalm: () => this.#isCalm,
      granted: (task) => this.#granted.push(task),
      recorded: ({ run_pos, task_key, attempt }) =>
        this.#recorded.push({ run_pos, task_key, attempt }),
      unexpected: (what) => this.#violations.add("I34", canonicalJson(what)),
    };
  }
}

function newKnowledge(): Knowledge {
  return { backfills: [], runs: [], requests: [], versions: new Map() };
}

/** Some simulations fail often, some rarely, some never. */
function drawRates(random: Random): FaultRates {
  const level = random.pick([0, 0.3, 1, 3]);
  return {
    failBefore: 0.01 * level,
    failMiddle: 0.01 * level,
    failAfter: 0.01 * level,
    crashBefore: 0.004 * level,
    crashMiddle: 0.004 * level,
    crashAfter: 0.006 * level,
    slow: 0.02 * level,
    lateNews: 0.1 * level,
    lostNews: 0.05 * level,
  };
}
