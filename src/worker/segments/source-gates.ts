import type { WorkerConnection } from "../../client/worker-connection.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { SourceExchangeAnswer } from "../../work/probe-protocol.ts";
import { type Clock, pause } from "../outbox.ts";
import { SourceGate } from "./source-gate.ts";
import type { WorkerLogger } from "../run-worker.ts";

/** How often what is learnt is exchanged while a source is used. */
const EXCHANGE_MS = 5_000;
/** How soon it is when something was learnt; what is learnt meanwhile goes with it. */
const GATHER_MS = 250;
/** How long the first request to a source waits to hear what others know of it. */
const FIRST_MS_MAX = 2_000;
/** Most sources in one message. */
const SOURCES_MAX = 1_000;

/** What the gates of a worker need around them. */
export type SourceGatesOptions = {
  connection: Pick<WorkerConnection, "exchangeSources">;
  workerId: string;
  logger: WorkerLogger;
  clock: Clock;
  wallNow: () => number;
};

type Entry = {
  gate: SourceGate;
  /** Whether something was learnt that the server has not been told. */
  isDirty: boolean;
  /** Aborts when the server was asked for the first time: that ends the wait for it. */
  known: AbortSignal;
  becomeKnown: () => void;
};

/** The gates of all sources that this worker uses, and what workers tell each other about them. */
export class SourceGates {
  readonly #options: SourceGatesOptions;
  readonly #entries = new Map<string, Entry>();
  #wakeAt = Number.POSITIVE_INFINITY;
  #callOff: (() => void) | null = null;
  #isAsking = false;
  #isClosed = false;

  constructor(options: SourceGatesOptions) {
    this.#options = options;
  }

  /** The gate of a source, once it is known what other workers learnt about it. */
  async gateOf(
    source: string,
    definition: { requestSize: number | null; requestsPerSecond: number | null },
    signal: AbortSignal,
  ): Promise<SourceGate> {
    const entry = this.#entries.get(source) ?? this.#open(source);
    const { gate } = entry;
    if (!entry.known.aborted) {
      const either = AbortSignal.any([entry.known, signal]);
      await pause(this.#options.clock, FIRST_MS_MAX, either);
    }
    signal.throwIfAborted();
    gate.begin(definition.requestSize, definition.requestsPerSecond);
    return gate;
  }

  /** Tells the server what it does not know yet, if it is there, and stops. */
  async close(): Promise<void> {
    if (!this.#isAsking && [...this.#entries.values()].some(({ isDirty }) => isDirty)) {
      await this.#exchange();
    }
    this.#isClosed = true;
    this.#callOff?.();
  }

  #open(source: string): Entry {
    const { clock, wallNow } = this.#options;
    const controller = new AbortController();
    const gate = new SourceGate({
      source,
      clock,
      wallNow,
      used: () => this.#wakeIn(EXCHANGE_MS),
      learnt: () => {
        entry.isDirty = true;
        this.#wakeIn(GATHER_MS);
      },
    });
    const becomeKnown = (): void => controller.abort();
    const entry: Entry = { gate, isDirty: false, known: controller.signal, becomeKnown };
    this.#entries.set(source, entry);
    this.#wakeIn(0);
    return entry;
  }

  #wakeIn(ms: number): void {
    const { clock } = this.#options;
    const at = clock.now() + ms;
    if (at >= this.#wakeAt || this.#isClosed) return;
    this.#callOff?.();
    this.#wakeAt = at;
    this.#callOff = clock.after(ms, () => {
      this.#wakeAt = Number.POSITIVE_INFINITY;
      if (this.#isAsking) this.#wakeIn(GATHER_MS);
      else void this.#exchange();
    });
  }

  async #exchange(): Promise<void> {
    const since = this.#options.clock.now() - 2 * EXCHANGE_MS;
    const entries = [...this.#entries.values()].filter(
      ({ gate, isDirty }) => isDirty || gate.usedAt >= since,
    );
    if (entries.length === 0) return;
    this.#isAsking = true;
    for (let start = 0; start < entries.length; start += SOURCES_MAX) {
      await this.#exchangeSome(entries.slice(start, start + SOURCES_MAX));
    }
    this.#isAsking = false;
    this.#wakeIn(EXCHANGE_MS);
  }

  async #exchangeSome(entries: readonly Entry[]): Promise<void> {
    const { connection, workerId } = this.#options;
    const sources = entries.map(({ gate, isDirty }) => ({
      source: gate.source,
      learnt: isDirty ? gate.learnt() : null,
    }));
    for (const entry of entries) entry.isDirty = false;
    try {
      this.#take(await connection.exchangeSources({ worker_id: workerId, sources }));
    } catch (error) {
      for (const [at, { learnt }] of sources.entries()) {
        const entry = entries[at];
        if (learnt !== null && entry !== undefined) entry.isDirty = true;
      }
      this.#missed(error);
    } finally {
      for (const { becomeKnown } of entries) becomeKnown();
    }
  }

  #take({ sources }: SourceExchangeAnswer): void {
    for (const { source, learnt, workers } of sources) {
      const entry = this.#entries.get(source);
      if (entry?.isDirty === true) entry.gate.adoptWorkers(workers);
      else entry?.gate.adopt(learnt, workers);
    }
  }

  /** Each worker keeps to what it learnt itself until the server is there again. */
  #missed(error: unknown): void {
    const { logger } = this.#options;
    if (!(error instanceof PawlError) || error.retryable) return;
    if (error.code === "ROUTE_NOT_FOUND") this.#isClosed = true;
    logger.warn(
      { code: error.code },
      `What was learnt about sources is not kept: ${error.message}`,
    );
  }
}
