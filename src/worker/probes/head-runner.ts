import type { WorkerConnection } from "../../client/worker-connection.ts";
import { PawlError } from "../../kernel/errors.ts";
import {
  type ClaimedHead,
  type HeadClaimAnswer,
  type HeadOutcome,
  type HeadResult,
  HEADS_MAX,
} from "../../work/sync/source-protocol.ts";
import type { SyncSpec } from "../../work/sync/spec.ts";
import type { Project } from "../../define/define-pawl.ts";
import type { SourceContext } from "../../define/automation-context.ts";
import { claimPatiently } from "../tasks/task-slots.ts";
import { type Clock, pause, Outbox } from "../outbox.ts";
import { lookAtHead } from "./look-at-head.ts";
import { plainSyncCode } from "../segments/source-failure.ts";
import { logFields, messageOf, textOf } from "../plain-values.ts";
import type { SourceGates } from "../segments/source-gates.ts";
import { outcomeOfError } from "../tasks/outcome.ts";
import { LOOKS_HELD_UP_MS, type Solitude } from "../solitude.ts";
import type { KeepLook } from "../tasks/runner.ts";
import type { WorkerLogger } from "../run-worker.ts";

/** Most heads that are looked up at once: they only wait for answers. */
const CONCURRENCY = 32;
const CLAIM_WAIT_MS = 20_000;
/** A claim that comes back empty sooner than this was not kept waiting; the next one waits here. */
const EMPTY_CLAIM_MS = 100;
/** Longest line that a function logs, and most that its fields may be as JSON. */
const LOG_TEXT_MAX = 10_000;

/** What looks at heads need around them. */
export type HeadRunnerOptions = {
  connection: WorkerConnection;
  project: Project;
  workerId: string;
  logger: WorkerLogger;
  clock: Clock;
  random: () => number;
  gates: SourceGates;
  /** How long a function may go on after it was told to stop. */
  abandonMs: number;
  /** The same when the whole worker stops. */
  stopAbandonMs: number;
  keepLook: KeepLook;
  solitude: Solitude;
};

type Held = {
  readonly head: ClaimedHead;
  /** After this nobody can be waiting for the result; null while the lease is kept. */
  deadAt: number | null;
  /** Lets go of the lease. */
  letGo: () => void;
  readonly controller: AbortController;
};

type Report = { held: Held; outcome: HeadResult["outcome"] };

/**
 * Claims looks at heads and makes them. Their leases are renewed as those of tasks are; what is not
 * reported runs out by itself and is looked up again, so a look can be dropped at any moment.
 */
export class HeadRunner {
  readonly #options: HeadRunnerOptions;
  /** The syncs that have a function for it. */
  readonly #names: readonly string[];
  readonly #specs: ReadonlyMap<string, SyncSpec>;
  readonly #reports: Outbox<Report>;
  readonly #running = new Set<Held>();
  #listeners: (() => void)[] = [];

  constructor(options: HeadRunnerOptions) {
    this.#options = options;
    const { specs, syncs } = options.project;
    this.#names = [...syncs].filter(([, { head }]) => head !== null).map(([name]) => name);
    const defined = specs.filter((spec) => spec.kind === "sync");
    this.#specs = new Map(defined.map((spec) => [spec.name, spec]));
    this.#reports = this.#openReports();
  }

  /** Claims until the signal aborts; throws when the server will not have this worker. */
  async run(stop: AbortSignal): Promise<void> {
    const { clock, solitude } = this.#options;
    if (this.#names.length === 0) return;
    while (!stop.aborted) {
      await this.#runningAtMost(CONCURRENCY - 1, null, stop);
      await solitude.untilFree(this, stop, LOOKS_HELD_UP_MS);
      if (stop.aborted) return;
      const wasTrial = solitude.isTrial;
      const askedAt = clock.now();
      const answer = await this.#claim(stop);
      if (answer === null) return;
      // The worker stops, or a task that is to be alone came first.
      const isTooLate = stop.aborted || (solitude.isTrial && !wasTrial);
      for (const head of answer.heads) this.#begin(head, answer.ttl_ms, isTooLate);
      if (answer.heads.length === 0 && clock.now() - askedAt < EMPTY_CLAIM_MS) {
        await pause(clock, EMPTY_CLAIM_MS, stop);
      }
    }
  }

  /** Lets what runs finish for the grace time, gives the rest back, and sends the last reports. */
  async stop(graceMs: number, drainMs: number): Promise<void> {
    const { clock, stopAbandonMs } = this.#options;
    await this.#runningAtMost(0, graceMs);
    const stopped = new DOMException("The worker stops.", "AbortError");
    for (const { controller } of this.#running) controller.abort(stopped);
    await this.#runningAtMost(0, stopAbandonMs);
    const drained = new AbortController();
    await Promise.race([
      this.#reports.flush().finally(() => drained.abort()),
      pause(clock, drainMs, drained.signal),
    ]);
  }

  async #claim(stop: AbortSignal): Promise<HeadClaimAnswer | null> {
    const { connection, workerId, logger } = this.#options;
    const request = {
      worker_id: workerId,
      syncs: [...this.#names],
      slots: Math.min(HEADS_MAX, CONCURRENCY - this.#running.size),
      wait_ms: CLAIM_WAIT_MS,
    };
    try {
      const ask = (signal: AbortSignal) => connection.claimHeads(request, signal);
      return (await claimPatiently(stop, ask, this.#options))?.answer ?? null;
    } catch (error) {
      if (!(error instanceof PawlError) || error.code !== "ROUTE_NOT_FOUND") throw error;
      logger.warn({}, "The server is older and knows no syncs; this worker looks at no heads.");
      return null;
    }
  }

  #begin(head: ClaimedHead, ttlMs: number, isTooLate: boolean): void {
    const { clock, keepLook } = this.#options;
    const controller = new AbortController();
    const held: Held = { head, deadAt: null, letGo: () => undefined, controller };
    if (isTooLate) {
      this.#reports.add({ held, outcome: { type: "released" } });
      return;
    }
    const look = { head: resultOf(head, { type: "released" }) };
    held.letGo = keepLook(look, { ttlMs, timeoutMs: head.timeout_ms }, () => {
      // What is seen already may still be taken: the server looks at the fence.
      held.deadAt = clock.now() + ttlMs;
      controller.abort(new DOMException("The look is somebody else's by now.", "NotFoundError"));
    });
    this.#running.add(held);
    void this.#look(held);
  }

  async #look(held: Held): Promise<void> {
    const { clock, logger, abandonMs } = this.#options;
    const { head, controller } = held;
    const { signal } = controller;
    const message = `The look at the head took longer than its timeout of ${head.timeout_ms} ms.`;
    const callOff = clock.after(head.timeout_ms, () =>
      controller.abort(new DOMException(message, "TimeoutError")),
    );
    let keep = (): void => undefined;
    const abandoned = new Promise<null>((resolve) => {
      signal.addEventListener("abort", () => {
        keep = clock.after(abandonMs, () => resolve(null));
      });
    });
    const seen = this.#seen(head, signal).catch((error: unknown) => failedLook(error));
    const outcome = await Promise.race([seen, abandoned]);
    callOff();
    keep();
    this.#running.delete(held);
    for (const listener of this.#listeners.splice(0)) listener();
    // What a function made of its abort is not its result; a worker that stops has none.
    const isLate = signal.aborted && nameOf(signal.reason) === "TimeoutError";
    if (signal.aborted && !isLate) {
      if (held.deadAt === null) this.#reports.add({ held, outcome: { type: "released" } });
      return;
    }
    const final = isLate || outcome === null ? failed("timeout", message) : outcome;
    if (final.type === "failed") {
      const fields = { sync: head.sync, source: head.source, class: final.error.class };
      logger.warn(fields, final.error.message);
    }
    this.#reports.add({ held, outcome: final });
  }

  async #seen(head: ClaimedHead, signal: AbortSignal): Promise<HeadOutcome> {
    const { project, gates, logger } = this.#options;
    const code = project.syncs.get(head.sync);
    if (code === undefined) {
      throw new PawlError("SYNC_NOT_FOUND", `This worker's code has no sync ${head.sync}.`);
    }
    const spec = this.#specs.get(head.sync);
    const definition = {
      requestSize: spec?.request_size ?? null,
      requestsPerSecond: spec?.requests_per_second ?? null,
    };
    const { sync, source, target } = head;
    const gate = await gates.gateOf(source, definition, signal);
    const context: SourceContext = {
      sync,
      source,
      target,
      signal,
      turn: () => gate.turn({ isLive: true, signal, alive: () => undefined }),
      log: (message, fields) => {
        const kept = { sync, source, ...logFields(fields, LOG_TEXT_MAX) };
        logger.info(kept, textOf(message, LOG_TEXT_MAX));
      },
    };
    return lookAtHead(head, { code: plainSyncCode(code), gate, context, signal });
  }

  #openReports(): Outbox<Report> {
    const { connection, workerId, clock, random, logger } = this.#options;
    return new Outbox<Report>({
      itemsMax: HEADS_MAX,
      gatherMs: 0,
      triesMax: Number.POSITIVE_INFINITY,
      clock,
      random,
      isWanted: ({ held }) => held.deadAt === null || clock.now() < held.deadAt,
      giveUp({ held: { head, letGo } }, error) {
        letGo();
        const fields = { sync: head.sync, source: head.source, code: error?.code ?? "LEASE_LOST" };
        logger.warn(fields, "A look at a head was dropped; it will be made again.");
      },
      async send(items) {
        const results = items.map(({ held: { head }, outcome }) => resultOf(head, outcome));
        await connection.reportHeads({ worker_id: workerId, results });
        for (const { held } of items) held.letGo();
      },
    });
  }

  /** Resolves when at most `level` looks run, after `ms` at the latest, or at the signal. */
  async #runningAtMost(level: number, ms: number | null, signal?: AbortSignal): Promise<void> {
    if (this.#running.size <= level || signal?.aborted === true) return;
    const ended = new AbortController();
    const end = (): void => ended.abort();
    const callOff = ms === null ? null : this.#options.clock.after(ms, end);
    signal?.addEventListener("abort", end, { once: true });
    while (this.#running.size > level && !ended.signal.aborted) {
      await new Promise<void>((resolve) => {
        this.#listeners.push(resolve);
        ended.signal.addEventListener("abort", () => resolve(), { once: true });
      });
    }
    callOff?.();
    signal?.removeEventListener("abort", end);
  }
}

function resultOf(head: ClaimedHead, outcome: HeadResult["outcome"]): HeadResult {
  const { probe_id, attempt, sync, source, as_of } = head;
  const ref = { probe_id, attempt, sync, source };
  return as_of === undefined ? { ...ref, outcome } : { ...ref, as_of, outcome };
}

function failedLook(error: unknown): HeadOutcome {
  const { error: known } = outcomeOfError(error);
  return failed(known?.class ?? "user", known?.message ?? messageOf(error));
}

function failed(kind: string, message: string): HeadOutcome {
  return { type: "failed", error: { class: kind, message: message.slice(0, 2_000) } };
}

function nameOf(reason: unknown): string {
  return reason instanceof Error ? reason.name : "";
}
