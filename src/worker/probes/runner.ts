import type { Json } from "../../kernel/canonical.ts";
import { PawlError, type ErrorCode } from "../../kernel/errors.ts";
import {
  type ClaimedProbe,
  type EvaluatedRequest,
  type EvaluationOutcome,
  PROBES_MAX,
  type ProbeClaimAnswer,
  type ProbeResult,
} from "../../work/probe-protocol.ts";
import { requestOfTarget, requestsOfTarget } from "../../work/sensor/target.ts";
import type { SensorCode } from "../../define/sensor.ts";
import { openWatcher, listableFolders } from "../steps/watch/open-watcher.ts";
import { callUser, messageOf, plainError } from "../plain-values.ts";
import { cursorFrom, refuseTooManyRequests, sensorContext } from "./sensor-context.ts";
import type { WorkerLogger } from "../run-worker.ts";
import type { WorkerConnection } from "../../client/worker-connection.ts";
import type { Project } from "../../define/define-pawl.ts";
import { Skip } from "../../define/errors.ts";
import { claimPatiently } from "../tasks/task-slots.ts";
import { type Clock, pause, Outbox } from "../outbox.ts";
import { outcomeOfError } from "../tasks/outcome.ts";
import { LOOKS_HELD_UP_MS, type Solitude } from "../solitude.ts";
import type { KeepLook } from "../tasks/runner.ts";

/** What an evaluation needs of the worker it is made in. */
export type EvaluationHost = {
  /** What the project has of the sensor; null for one that it does not define. */
  code: SensorCode | null;
  environment: Readonly<Record<string, string | undefined>>;
  /** Where relative paths start. */
  folder: string;
  /** The folders that sensors may list, with all below them. */
  listable: readonly string[];
  logger: WorkerLogger;
};

/** Looks where there is something to look at, then lets the target or the function decide. */
export async function evaluateProbe(
  probe: ClaimedProbe,
  host: EvaluationHost,
  signal: AbortSignal,
): Promise<EvaluationOutcome> {
  const { watch, target, message } = probe;
  const found = await foundBy(probe, host, signal);
  if (found !== null && found.items.length === 0) return evaluated(found.cursor, []);
  const items = found?.items ?? [];
  if (target !== null) {
    const requests =
      watch === null && message !== null
        ? [requestOfTarget(target, message)]
        : requestsOfTarget(target, items);
    refuseTooManyRequests(probe, requests.length);
    return evaluated(found === null ? probe.cursor : found.cursor, requests);
  }
  const evaluate = host.code?.evaluate ?? null;
  if (evaluate === null) {
    throw new PawlError(
      "SENSOR_NOT_FOUND",
      `This worker's code has no function for the sensor ${probe.name}; deploy the code that does.`,
    );
  }
  const { context, said } = sensorContext(probe, items, signal, host.logger);
  const cursor = await callUser(async () => {
    const result: unknown = await evaluate(context);
    if (typeof result !== "object" || result === null) return said.cursor;
    const { cursor: returned } = result as { cursor?: unknown };
    return returned === undefined ? said.cursor : cursorFrom(probe, returned);
  });
  return evaluated(found === null ? cursor : found.cursor, said.requests);
}

/** What there is for a sensor with a watch; null without one. */
async function foundBy(
  { watch, target, found, cursor, max_run_requests }: ClaimedProbe,
  { code, environment, folder, listable }: EvaluationHost,
  signal: AbortSignal,
): Promise<{ items: readonly Json[]; cursor: string | null } | null> {
  if (watch === null) return null;
  if (found !== null) return found;
  // Each item may ask for a run of its own; the function of a watch of rows says itself how many.
  const limit = watch.type === "rows" && target === null ? watch.limit : max_run_requests;
  const watcher = openWatcher(watch, {
    code,
    environment,
    folder,
    listable,
    limit,
    now: Date.now,
  });
  return watcher.look(cursor, signal);
}

function evaluated(cursor: string | null, run_requests: EvaluatedRequest[]): EvaluationOutcome {
  return { type: "evaluated", cursor, run_requests };
}

/** Most evaluations that run at once. */
const CONCURRENCY = 8;
/** Most evaluations that are held: those of a sensor follow each other. */
const HELD_MAX = 16;
const CLAIM_WAIT_MS = 20_000;
/** How long few free places wait for more of them. */
const GATHER_MS = 10;
/** A claim that comes back empty sooner than this was not kept waiting; the next one waits here. */
const EMPTY_CLAIM_MS = 100;
/** Cursors and configurations are large, and a message is bounded. */
const REPORT_MAX = Math.min(PROBES_MAX, HELD_MAX);
/** How long an evaluation may wait for others of its sensor before it is given back. */
const WAIT_MS_MAX = 5_000;

/** Refusals of a result by itself: a failure is reported in its place. */
const REFUSAL_CODES: ReadonlySet<ErrorCode> = new Set(["INPUT_INVALID", "SELECTION_TOO_LARGE"]);

/** What the evaluations of a worker need around them. */
export type ProbeRunnerOptions = {
  connection: WorkerConnection;
  project: Project;
  workerId: string;
  logger: WorkerLogger;
  clock: Clock;
  random: () => number;
  environment: Readonly<Record<string, string | undefined>>;
  folder: string;
  /** How long a function may go on after it was told to stop. */
  abandonMs: number;
  /** The same when the whole worker stops. */
  stopAbandonMs: number;
  keepLook: KeepLook;
  solitude: Solitude;
};

type Held = {
  readonly probe: ClaimedProbe;
  readonly claimedAt: number;
  /** After this nobody can be waiting for the result; null while the lease is kept. */
  deadAt: number | null;
  /** Lets go of the lease. */
  letGo: () => void;
  readonly controller: AbortController;
  stopCause: "timeout" | "stopped" | "lost" | null;
  /** Calls off that the function is given up. */
  keep: () => void;
};

type Report = { held: Held; outcome: ProbeResult["outcome"]; isReplacement: boolean };

/**
 * Claims evaluations of sensors and makes them: so many at once, and one of a sensor after the
 * other. Their leases are renewed as those of tasks are; what is not reported runs out by itself and
 * is evaluated again, from where the sensor was, so an evaluation can be dropped at any moment.
 */
export class ProbeRunner {
  readonly #options: ProbeRunnerOptions;
  readonly #reports: Outbox<Report>;
  #waiting: Held[] = [];
  /** What runs, by sensor. */
  readonly #running = new Map<string, Held>();
  #listeners: (() => void)[] = [];

  constructor(options: ProbeRunnerOptions) {
    this.#options = options;
    this.#reports = this.#openReports();
  }

  /** Claims until the signal aborts; throws when the server will not have this worker. */
  async run(stop: AbortSignal): Promise<void> {
    const { clock, solitude } = this.#options;
    while (!stop.aborted) {
      await this.#room(stop);
      await solitude.untilFree(this, stop, LOOKS_HELD_UP_MS);
      if (stop.aborted) return;
      const wasTrial = solitude.isTrial;
      const askedAt = clock.now();
      const answer = await this.#claim(stop);
      if (answer === null) return;
      // A task that is to be alone came first.
      this.#accept(answer, solitude.isTrial && !wasTrial);
      if (answer.probes.length === 0 && clock.now() - askedAt < EMPTY_CLAIM_MS) {
        await pause(clock, EMPTY_CLAIM_MS, stop);
      }
    }
  }

  /** Lets what runs finish for the grace time, gives the rest back, and sends the last reports. */
  async stop(graceMs: number, drainMs: number): Promise<void> {
    const { clock, stopAbandonMs } = this.#options;
    for (const held of this.#waiting.splice(0)) this.#release(held);
    await this.#heldAtMost(0, graceMs);
    for (const held of this.#running.values()) this.#break(held, "stopped");
    await this.#heldAtMost(0, stopAbandonMs);
    const drained = new AbortController();
    await Promise.race([
      this.#reports.flush().finally(() => drained.abort()),
      pause(clock, drainMs, drained.signal),
    ]);
  }

  get #heldCount(): number {
    return this.#waiting.length + this.#running.size;
  }

  /** Resolves when a good part of the places is free, or a few have been for a moment. */
  async #room(stop: AbortSignal): Promise<void> {
    await this.#heldAtMost(HELD_MAX - 1, null, stop);
    await this.#heldAtMost(HELD_MAX / 2, GATHER_MS, stop);
  }

  async #claim(stop: AbortSignal): Promise<ProbeClaimAnswer | null> {
    const { connection, project, workerId, logger } = this.#options;
    const request = {
      worker_id: workerId,
      sensors: [...project.sensors.keys()],
      slots: HELD_MAX - this.#heldCount,
      wait_ms: CLAIM_WAIT_MS,
    };
    try {
      const ask = (signal: AbortSignal) => connection.claimProbes(request, signal);
      return (await claimPatiently(stop, ask, this.#options))?.answer ?? null;
    } catch (error) {
      if (!(error instanceof PawlError) || error.code !== "ROUTE_NOT_FOUND") throw error;
      logger.warn({}, "The server is older and knows no sensors; this worker only runs tasks.");
      return null;
    }
  }

  #accept({ ttl_ms, probes }: ProbeClaimAnswer, isTooLate: boolean): void {
    const { clock, keepLook } = this.#options;
    const claimedAt = clock.now();
    for (const probe of probes) {
      const held: Held = {
        probe,
        claimedAt,
        deadAt: null,
        letGo: () => undefined,
        controller: new AbortController(),
        stopCause: null,
        keep: () => undefined,
      };
      if (isTooLate) {
        this.#release(held);
        continue;
      }
      const times = { ttlMs: ttl_ms, timeoutMs: probe.timeout_ms + WAIT_MS_MAX };
      const look = { probe: resultOf(probe, { type: "released" }) };
      held.letGo = keepLook(look, times, () => {
        // What is made already may still be taken: the server looks at the fence.
        held.deadAt = clock.now() + ttl_ms;
        this.#break(held, "lost");
      });
      this.#waiting.push(held);
    }
    this.#startWaiting();
  }

  #startWaiting(): void {
    const { clock, logger } = this.#options;
    const kept: Held[] = [];
    for (const held of this.#waiting) {
      const { probe, claimedAt } = held;
      if (held.stopCause === "lost") continue;
      if (clock.now() - claimedAt > WAIT_MS_MAX) {
        const message = "An evaluation waited too long for others of its sensor and is given back.";
        logger.warn({ sensor: probe.name }, message);
        this.#release(held);
      } else if (this.#running.size < CONCURRENCY && !this.#running.has(probe.sensor_id)) {
        this.#running.set(probe.sensor_id, held);
        void this.#evaluate(held);
      } else {
        kept.push(held);
      }
    }
    this.#waiting = kept;
  }

  async #evaluate(held: Held): Promise<void> {
    const { clock, project, environment, folder, logger, abandonMs } = this.#options;
    const { probe, controller } = held;
    const callOff = clock.after(probe.timeout_ms, () => this.#break(held, "timeout"));
    const code = project.sensors.get(probe.name) ?? null;
    const listable = listableFolders(folder, project.specs, environment);
    const host = { code, environment, folder, listable, logger };
    const abandoned = new Promise<null>((resolve) => {
      controller.signal.addEventListener("abort", () => {
        held.keep = clock.after(abandonMs, () => resolve(null));
      });
    });
    const outcome = await Promise.race([
      evaluateProbe(probe, host, controller.signal).catch((error) => thrownOutcome(probe, error)),
      abandoned,
    ]);
    callOff();
    held.keep();
    this.#running.delete(probe.sensor_id);
    this.#report(held, outcome);
    this.#startWaiting();
    this.#changed();
  }

  #break(held: Held, cause: "timeout" | "stopped" | "lost"): void {
    if (held.stopCause !== null) return;
    held.stopCause = cause;
    const name = cause === "timeout" ? "TimeoutError" : "AbortError";
    held.controller.abort(new DOMException(breakMessage(held), name));
  }

  /** What the function made of its abort is not its result, as with tasks. */
  #report(held: Held, outcome: EvaluationOutcome | null): void {
    const { logger } = this.#options;
    if (held.stopCause === "lost") return;
    if (held.stopCause === "stopped") {
      this.#release(held);
      return;
    }
    const final =
      held.stopCause === "timeout" || outcome === null
        ? failure("timeout", breakMessage(held))
        : outcome;
    if (final.type === "failed") {
      logger.warn({ sensor: held.probe.name, class: final.error.class }, final.error.message);
    }
    this.#reports.add({ held, outcome: final, isReplacement: false });
  }

  /** The evaluation was not made: somebody else may, at once. */
  #release(held: Held): void {
    this.#reports.add({ held, outcome: { type: "released" }, isReplacement: true });
  }

  #openReports(): Outbox<Report> {
    const { connection, workerId, clock, random, logger } = this.#options;
    const reports: Outbox<Report> = new Outbox<Report>({
      itemsMax: REPORT_MAX,
      gatherMs: 0,
      triesMax: Number.POSITIVE_INFINITY,
      clock,
      random,
      isWanted: ({ held }) => held.deadAt === null || clock.now() < held.deadAt,
      giveUp({ held, isReplacement }, error) {
        if (error !== null && REFUSAL_CODES.has(error.code) && !isReplacement) {
          const outcome = failure("input", `The server refused the result: ${error.message}`);
          reports.add({ held, outcome, isReplacement: true });
          return;
        }
        held.letGo();
        const fields = { sensor: held.probe.name, code: error?.code ?? "LEASE_LOST" };
        logger.warn(fields, "The result of an evaluation was dropped; it will be made again.");
      },
      async send(items) {
        const results = items.map(({ held, outcome }) => resultOf(held.probe, outcome));
        await connection.reportProbes({ worker_id: workerId, results });
        for (const { held } of items) held.letGo();
      },
    });
    return reports;
  }

  /** Resolves when at most `level` are held, after `ms` at the latest, or at the signal. */
  async #heldAtMost(level: number, ms: number | null, signal?: AbortSignal): Promise<void> {
    if (this.#heldCount <= level || signal?.aborted === true) return;
    const ended = new AbortController();
    const end = (): void => ended.abort();
    const callOff = ms === null ? null : this.#options.clock.after(ms, end);
    signal?.addEventListener("abort", end, { once: true });
    while (this.#heldCount > level && !ended.signal.aborted) {
      await new Promise<void>((resolve) => {
        this.#listeners.push(resolve);
        ended.signal.addEventListener("abort", () => resolve(), { once: true });
      });
    }
    callOff?.();
    signal?.removeEventListener("abort", end);
  }

  #changed(): void {
    for (const listener of this.#listeners.splice(0)) listener();
  }
}

function breakMessage({ probe, stopCause }: Held): string {
  if (stopCause === "stopped") return "The worker stops.";
  return stopCause === "lost"
    ? "The evaluation is somebody else's by now."
    : `The evaluation took longer than its timeout of ${probe.timeout_ms} ms.`;
}

function thrownOutcome({ cursor }: ClaimedProbe, error: unknown): EvaluationOutcome {
  // Nothing to ask for, and nothing wrong: what was found is found again next time.
  if (plainError(error) instanceof Skip) return { type: "evaluated", cursor, run_requests: [] };
  const { error: known } = outcomeOfError(error);
  return failure(known?.class ?? "user", known?.message ?? messageOf(error));
}

function failure(kind: string, message: string): EvaluationOutcome {
  return { type: "failed", error: { class: kind, message: message.slice(0, 2_000) } };
}

function resultOf(probe: ClaimedProbe, outcome: ProbeResult["outcome"]): ProbeResult {
  const { probe_id, attempt, cursor, expected_state_version, poll_epoch } = probe;
  return { probe_id, attempt, cursor, expected_state_version, poll_epoch, outcome };
}
