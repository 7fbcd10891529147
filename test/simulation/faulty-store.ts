import { PawlError } from "../../src/kernel/errors.ts";
import type {
  Reader,
  Store,
  TransactOptions,
  Transaction,
  WorkspaceId,
} from "../../src/store/store.ts";
import type { Random } from "./random.ts";
import type { SimulatedTime } from "./simulated-time.ts";

/** How likely each misfortune is at one call of the store. */
export type FaultRates = {
  /** The call fails and has done nothing. */
  failBefore: number;
  /** The call fails half-way: a transaction is rolled back. */
  failMiddle: number;
  /** The call has done its work and fails nevertheless. */
  failAfter: number;
  crashBefore: number;
  crashMiddle: number;
  crashAfter: number;
  slow: number;
  /** News of an append come late, or never. */
  lateNews: number;
  lostNews: number;
};

/** A store that never fails. */
export const NO_FAULTS: FaultRates = {
  failBefore: 0,
  failMiddle: 0,
  failAfter: 0,
  crashBefore: 0,
  crashMiddle: 0,
  crashAfter: 0,
  slow: 0,
  lateNews: 0,
  lostNews: 0,
};

/** The message of every failure that the simulation makes up. */
export const INJECTED = "injected by the simulation";

type Fault = Exclude<keyof FaultRates, "slow" | "lateNews" | "lostNews">;
const FAULTS: readonly Fault[] = [
  "failBefore",
  "failMiddle",
  "failAfter",
  "crashBefore",
  "crashMiddle",
  "crashAfter",
];

/**
 * The real store as one server process sees it: calls fail before, during or after their work, take
 * long, or take the process down. What a process that is gone still asks for never happens.
 */
export class FaultyStore implements Store {
  readonly description = "a faulty store";
  readonly unsafe = null;
  readonly #store: Store;
  readonly #time: SimulatedTime;
  readonly #random: Random;
  readonly #crash: () => void;
  readonly #unsubscribe: (() => void)[] = [];
  rates: FaultRates;
  #isGone = false;
  transactions = 0;

  constructor(
    store: Store,
    options: { time: SimulatedTime; random: Random; rates: FaultRates; crash: () => void },
  ) {
    this.#store = store;
    this.#time = options.time;
    this.#random = options.random;
    this.#crash = options.crash;
    this.rates = options.rates;
  }

  /** The process is gone: nothing of it reaches the store any more, nothing comes back. */
  die(): void {
    this.#isGone = true;
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
  }

  transact<Result>(
    ws: WorkspaceId,
    body: (transaction: Transaction) => Promise<Result>,
    options?: TransactOptions,
  ): Promise<Result> {
    this.transactions += 1;
    return this.#call((middle) =>
      this.#store.transact(
        ws,
        async (transaction) => {
          const result = await body(transaction);
          await middle();
          return result;
        },
        options,
      ),
    );
  }

  read<Result>(
    ws: WorkspaceId,
    body: (reader: Reader) => Promise<Result>,
    asker?: string | null,
  ): Promise<Result> {
    return this.#call((middle) =>
      this.#store.read(
        ws,
        async (reader) => {
          const result = await body(reader);
          await middle();
          return result;
        },
        asker,
      ),
    );
  }

  workspace = (...args: Parameters<Store["workspace"]>) =>
    this.#call(() => this.#store.workspace(...args));
  workspaces = () => this.#call(() => this.#store.workspaces());
  renewLeases = (...args: Parameters<Store["renewLeases"]>) =>
    this.#call(() => this.#store.renewLeases(...args));
  saveCheckpoints = (...args: Parameters<Store["saveCheckpoints"]>) =>
    this.#call(() => this.#store.saveCheckpoints(...args));
  saveProgress = (...args: Parameters<Store["saveProgress"]>) =>
    this.#call(() => this.#store.saveProgress(...args));
  checkpointBytes = (...args: Parameters<Store["checkpointBytes"]>) =>
    this.#call(() => this.#store.checkpointBytes(...args));
  appendLogs = (...args: Parameters<Store["appendLogs"]>) =>
    this.#call(() => this.#store.appendLogs(...args));
  logBytes = (...args: Parameters<Store["logBytes"]>) =>
    this.#call(() => this.#store.logBytes(...args));
  pruneLogs = (...args: Parameters<Store["pruneLogs"]>) =>
    this.#call(() => this.#store.pruneLogs(...args));
  addProbes = (...args: Parameters<Store["addProbes"]>) =>
    this.#call(() => this.#store.addProbes(...args));
  rescheduleProbes = (...args: Parameters<Store["rescheduleProbes"]>) =>
    this.#call(() => this.#store.rescheduleProbes(...args));
  leaseProbes = (...args: Parameters<Store["leaseProbes"]>) =>
    this.#call(() => this.#store.leaseProbes(...args));
  renewProbes = (...args: Parameters<Store["renewProbes"]>) =>
    this.#call(() => this.#store.renewProbes(...args));
  settleProbes = (...args: Parameters<Store["settleProbes"]>) =>
    this.#call(() => this.#store.settleProbes(...args));
  exchangeSources = (...args: Parameters<Store["exchangeSources"]>) =>
    this.#call(() => this.#store.exchangeSources(...args));
  learntSources = (...args: Parameters<Store["learntSources"]>) =>
    this.#call(() => this.#store.learntSources(...args));
  removeProbes = (...args: Parameters<Store["removeProbes"]>) =>
    this.#call(() => this.#store.removeProbes(...args));
  addSamples = (...args: Parameters<Store["addSamples"]>) =>
    this.#call(() => this.#store.addSamples(...args));
  setSamples = (...args: Parameters<Store["setSamples"]>) =>
    this.#call(() => this.#store.setSamples(...args));
  samples = (...args: Parameters<Store["samples"]>) =>
    this.#call(() => this.#store.samples(...args));
  pruneSamples = (...args: Parameters<Store["pruneSamples"]>) =>
    this.#call(() => this.#store.pruneSamples(...args));
  secrets = (...args: Parameters<Store["secrets"]>) =>
    this.#call(() => this.#store.secrets(...args));
  addSecret = (...args: Parameters<Store["addSecret"]>) =>
    this.#call(() => this.#store.addSecret(...args));
  pruneAnswers = (...args: Parameters<Store["pruneAnswers"]>) =>
    this.#call(() => this.#store.pruneAnswers(...args));
  tokenByHash = (...args: Parameters<Store["tokenByHash"]>) =>
    this.#call(() => this.#store.tokenByHash(...args));
  tokens = (...args: Parameters<Store["tokens"]>) => this.#call(() => this.#store.tokens(...args));
  saveToken = (...args: Parameters<Store["saveToken"]>) =>
    this.#call(() => this.#store.saveToken(...args));
  revokeToken = (...args: Parameters<Store["revokeToken"]>) =>
    this.#call(() => this.#store.revokeToken(...args));
  tenantSecret = (...args: Parameters<Store["tenantSecret"]>) =>
    this.#call(() => this.#store.tenantSecret(...args));
  ledgerNotes = (...args: Parameters<Store["ledgerNotes"]>) =>
    this.#call(() => this.#store.ledgerNotes(...args));
  saveVerified = (...args: Parameters<Store["saveVerified"]>) =>
    this.#call(() => this.#store.saveVerified(...args));
  markDamage = (...args: Parameters<Store["markDamage"]>) =>
    this.#call(() => this.#store.markDamage(...args));
  saveAccepted = (...args: Parameters<Store["saveAccepted"]>) =>
    this.#call(() => this.#store.saveAccepted(...args));
  now = () => this.#call(() => this.#store.now());

  onAppend(listener: (ws: WorkspaceId, pos: number) => void): () => void {
    const unsubscribe = this.#store.onAppend((ws, pos) => {
      if (this.#random.chance(this.rates.lostNews)) return;
      if (!this.#random.chance(this.rates.lateNews)) {
        listener(ws, pos);
        return;
      }
      void this.#dawdle().then(() => {
        if (!this.#isGone) listener(ws, pos);
      });
    });
    this.#unsubscribe.push(unsubscribe);
    return unsubscribe;
  }

  async close(): Promise<void> {
    this.die();
  }

  /** One call with its misfortunes. `middle` stands where the work is done and not yet committed. */
  async #call<Result>(work: (middle: () => Promise<void>) => Promise<Result>): Promise<Result> {
    if (this.#isGone) return never();
    const fault = this.#drawFault();
    if (this.#random.chance(this.rates.slow)) await this.#dawdle();
    if (this.#isGone) return never();
    this.#strike(fault, "failBefore", "crashBefore");
    if (this.#isGone) return never();
    const middle = async (): Promise<void> => {
      if (this.#random.chance(this.rates.slow)) await this.#dawdle();
      this.#strike(fault, "failMiddle", "crashMiddle");
      // A process that is gone commits nothing.
      if (this.#isGone) throw unavailable();
    };
    try {
      const result = await work(middle);
      this.#strike(fault, "failAfter", "crashAfter");
      if (this.#random.chance(this.rates.slow)) await this.#dawdle();
      if (this.#isGone) return await never();
      return result;
    } catch (error) {
      if (this.#isGone) return never();
      throw error;
    }
  }

  #drawFault(): Fault | null {
    let rest = this.#random.next();
    for (const fault of FAULTS) {
      rest -= this.rates[fault];
      if (rest < 0) return fault;
    }
    return null;
  }

  #strike(fault: Fault | null, fails: Fault, crashes: Fault): void {
    if (fault === fails) throw unavailable();
    if (fault === crashes) this.#crash();
  }

  #dawdle(): Promise<void> {
    return this.#time.sleep(this.#random.integer(1, 2_000));
  }
}

function unavailable(): PawlError {
  return new PawlError("STORE_UNAVAILABLE", INJECTED);
}

function never<Result>(): Promise<Result> {
  return new Promise<Result>(() => undefined);
}
