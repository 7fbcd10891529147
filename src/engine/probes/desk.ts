import type { Environment } from "../config.ts";
import type { Json } from "../../kernel/canonical.ts";
import { PawlError } from "../../kernel/errors.ts";
import { type Actor, holderOf, type RecordedEvent } from "../../work/envelope.ts";
import { type Instant, msBetween } from "../../kernel/instant.ts";
import type {
  EvaluatedRequest,
  EvaluationOutcome,
  ProbeClaimAnswer,
  ProbeClaimRequest,
  ProbeReportAnswer,
  ProbeReportRequest,
  ProbeResult,
} from "../../work/probe-protocol.ts";
import type { SensorTarget } from "../../work/definition/automation.ts";
import { requestOfTarget, requestsOfTarget } from "../../work/sensor/target.ts";
import type { Store, WorkspaceId } from "../../store/store.ts";
import { checkToken } from "../claim-queue.ts";
import { ENGINE_CAUSE } from "../commit.ts";
import { HeardNames } from "./heard-names.ts";
import {
  addManualProbe,
  type AwaitedEvaluation,
  awaitManualProbe,
  type EvaluationRequest,
} from "./by-hand.ts";
import { KEEPER_EVENTS, ProbeKeeper } from "./keeper.ts";
import { type Deciding, ProbeReports } from "./reports.ts";
import { workerCause } from "../serve-claims.ts";
import { type SensorStatus, sensorStatus, SensorView } from "./sensor-view.ts";
import { Steps } from "../sweeper.ts";
import { type Claimant, ProbeTaker, type Take, type Taken } from "./take.ts";

const TIMER_MS_MAX = 2 ** 30;

/** One look of a claim: woken by news that come from its beginning on. */
export type Listening = {
  /** Resolves on news, or after so many milliseconds when they are given. */
  until(ms: number | null): Promise<void>;
  end(): void;
};

/** The claims that wait for evaluations to fall due. */
export class ProbeWaits {
  readonly #environment: Environment;
  readonly #wakes = new Set<() => void>();

  constructor(environment: Environment) {
    this.#environment = environment;
  }

  get size(): number {
    return this.#wakes.size;
  }

  /** There may be something for whoever waits. */
  wake(): void {
    for (const wake of this.#wakes) wake();
  }

  /** Begins to listen before a look, so that nothing which happens during it is missed. */
  listen(): Listening {
    let wake: () => void = () => {};
    let cancel: () => void = () => {};
    const woken = new Promise<void>((resolve) => {
      wake = resolve;
    });
    this.#wakes.add(wake);
    return {
      until: (ms) => {
        if (ms !== null) {
          cancel = this.#environment.timer(Math.min(Math.max(1, ms), TIMER_MS_MAX), wake);
        }
        return woken;
      },
      end: () => {
        cancel();
        this.#wakes.delete(wake);
      },
    };
  }

  /** How long a claim has patience: until its time is up or its caller goes away. */
  patience(waitMs: number, signal: AbortSignal | undefined): { isOver(): boolean; end(): void } {
    let isLate = waitMs === 0;
    const late = (): void => {
      isLate = true;
      this.wake();
    };
    const cancel = waitMs === 0 ? () => {} : this.#environment.timer(waitMs, late);
    signal?.addEventListener("abort", late, { once: true });
    return {
      isOver: () => isLate || signal?.aborted === true,
      end: () => {
        cancel();
        signal?.removeEventListener("abort", late);
      },
    };
  }
}

/** How often all probes are compared with the rows. */
const SWEEP_MS = 30_000;
/** The pause before news of the ledger are looked at, so that many are looked at at once. */
const NEWS_MS = 20;
/** How often it is looked whether a person asked another server for an evaluation. */
const ELSEWHERE_MS = 1_000;
/** Evaluations that the server makes by itself in one go, and goes of one step. */
const SERVED_MAX = 100;
const ROUNDS_MAX = 20;

/**
 * Hands evaluations of sensors to workers, makes those that need no code itself, and takes in what
 * they come to. Probes live in a side table; nothing here takes the workspace lock but a result that
 * changes something, and an idle system only reads.
 */
export class ProbeDesk {
  readonly #store: Store;
  readonly #ws: WorkspaceId;
  readonly #environment: Environment;
  readonly #deciding: Deciding;
  readonly #view = new SensorView();
  readonly #keeper: ProbeKeeper;
  readonly #taker: ProbeTaker;
  readonly #reports: ProbeReports;
  readonly #waits: ProbeWaits;
  readonly #steps: Steps;
  readonly #heard = new HeardNames();
  #followedPos: number | null = null;
  #hasNews = false;
  #isStarted = false;
  #stopped = false;
  #cancelSweepTimer: (() => void) | null = null;
  #cancelNewsTimer: (() => void) | null = null;
  #cancelElsewhereTimer: (() => void) | null = null;

  constructor(store: Store, ws: WorkspaceId, environment: Environment, deciding: Deciding) {
    this.#store = store;
    this.#ws = ws;
    this.#environment = environment;
    this.#deciding = deciding;
    this.#waits = new ProbeWaits(environment);
    this.#steps = new Steps(
      environment,
      () => this.#stepOnce(),
      (reason) => {
        environment.warn("looking after sensors failed", { reason });
        this.#keeper.isSweepDue = true;
      },
    );
    this.#keeper = new ProbeKeeper(store, ws, this.#view);
    this.#taker = new ProbeTaker(store, ws, this.#view, deciding.leaseMs);
    this.#reports = new ProbeReports(store, ws, this.#view, deciding);
  }

  /** Begins to act by itself. */
  start(): void {
    this.#isStarted = true;
    this.#view.isFollowing = true;
    this.#sweepLater();
    this.#steps.ask();
  }

  /** Ends waiting claims and lets the step under way finish. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelSweepTimer?.();
    this.#cancelNewsTimer?.();
    this.#cancelElsewhereTimer?.();
    this.#waits.wake();
    await this.#steps.stop();
  }

  /** Hears what this server committed. */
  committed(events: readonly RecordedEvent[]): void {
    if (!this.#isStarted) return;
    let isStepDue = false;
    let isLookDue = false;
    for (const event of events) {
      if (this.#keeper.note(event)) isStepDue = true;
      else if (this.#taker.hasLedgerWatch && LEDGER_EVENTS.has(event.type)) isLookDue = true;
    }
    if (isStepDue) this.#steps.ask();
    else if (isLookDue) this.#stepSoon();
  }

  /** Hears that another server committed something. */
  appendedElsewhere(): void {
    if (!this.#isStarted) return;
    this.#hasNews = true;
    this.#stepSoon();
  }

  /** One full step: probes are brought in step, and what the server can evaluate is. */
  async tick(): Promise<void> {
    this.#keeper.isSweepDue = true;
    await this.#steps.makeAll();
  }

  /** Gives a worker evaluations, waiting for some to fall due. */
  async claim(
    request: ProbeClaimRequest,
    signal: AbortSignal | undefined,
    actor: Actor,
  ): Promise<ProbeClaimAnswer> {
    const sensors = new Set(request.sensors);
    const now = await this.#store.now();
    const claimant = { type: "worker", sensors, holder: holderOf(actor) } as const;
    this.#heard.hear(claimant.holder, sensors, now);
    const patience = this.#waits.patience(request.wait_ms, signal);
    this.#lookElsewhere();
    try {
      for (;;) {
        await checkToken(this.#store, this.#ws, actor);
        const answer = await this.#tryClaim(request, claimant, patience, signal);
        if (answer !== null) return answer;
      }
    } finally {
      patience.end();
    }
  }

  /** One look for a claim; when there is nothing, waits until there may be, and answers null. */
  async #tryClaim(
    { slots }: ProbeClaimRequest,
    claimant: Claimant,
    patience: { isOver(): boolean },
    signal: AbortSignal | undefined,
  ): Promise<ProbeClaimAnswer | null> {
    const heard = this.#waits.listen();
    try {
      const take = await this.#taker.take(claimant, slots);
      const ttl_ms = take.ttlMs;
      if (signal?.aborted === true) {
        await this.#giveBack(take);
        return { ttl_ms, probes: [] };
      }
      const probes = await this.#handOut(take.probes);
      if (probes.length > 0 || patience.isOver() || this.#stopped) return { ttl_ms, probes };
      const { nextAt } = take;
      await heard.until(nextAt === null ? null : msBetween(await this.#store.now(), nextAt));
      return null;
    } finally {
      heard.end();
    }
  }

  /** Takes in what evaluations came to. */
  async report(request: ProbeReportRequest, actor: Actor): Promise<ProbeReportAnswer> {
    const results = await this.#reports.report(request.results, workerCause(actor));
    this.#waits.wake();
    return { results };
  }

  /** Asks for an evaluation now, of a sensor by id or name; the same request twice is one. */
  async request(
    request: EvaluationRequest & { sensor: string },
  ): Promise<{ probe_id: string; sensor_id: string }> {
    const { sensor, ...asked } = request;
    const row = await this.#deciding.sensorOf(sensor);
    const { probe_id } = await addManualProbe(this.#store, this.#ws, row, asked);
    if (this.#isStarted) this.#steps.ask();
    else this.#waits.wake();
    return { probe_id, sensor_id: row.sensor_id };
  }

  /** What became of an evaluation that was asked for, here or at another server. */
  await(probeId: string, timeoutMs: number): Promise<AwaitedEvaluation> {
    return awaitManualProbe(this.#store, this.#ws, this.#environment, probeId, timeoutMs);
  }

  /** How sensors are doing, for metrics. */
  status(): Promise<SensorStatus> {
    const { counts, lastLookAt } = this.#reports;
    return sensorStatus(this.#store, this.#ws, this.#view, { ...counts }, lastLookAt);
  }

  /** The names of sensors that workers have asked for, and when last. */
  claimedSensors(): Map<string, Instant> {
    return this.#heard.all();
  }

  /** Evaluations for a worker; those that cannot be made are reported as failed right here. */
  async #handOut(taken: readonly Taken[]): Promise<Taken[]> {
    const unfit = taken.filter(({ failure }) => failure !== null);
    if (unfit.length > 0) await this.#reports.report(unfit.map(resultOf), ENGINE_CAUSE);
    const fit = taken.filter(({ failure }) => failure === null);
    for (const probe of fit) if (probe.isCut) this.#reports.noteCut(probe);
    return fit;
  }

  /** Nobody listens any more: the evaluations are free again. */
  async #giveBack({ probes }: Take): Promise<void> {
    if (probes.length === 0) return;
    const kept = await this.#store.read(this.#ws, (reader) =>
      reader.probes(probes.map(({ probe_id }) => probe_id)),
    );
    const ends = kept.map(({ probe_id, attempt, due_at, value }) => {
      return { probe_id, attempt, due_at, value };
    });
    await this.#store.settleProbes(this.#ws, ends);
    this.#waits.wake();
  }

  #sweepLater(): void {
    this.#cancelSweepTimer = this.#environment.timer(SWEEP_MS, () => {
      this.#keeper.isSweepDue = true;
      this.#steps.ask();
      this.#sweepLater();
    });
  }

  async #stepOnce(): Promise<void> {
    await this.#readNews();
    await this.#keeper.step();
    const nextAt = await this.#serve();
    this.#waits.wake();
    if (nextAt === null || !this.#isStarted) return;
    const ms = msBetween(await this.#store.now(), nextAt);
    this.#steps.askAfter(Math.min(Math.max(1, ms), TIMER_MS_MAX));
  }

  /** A step in a moment, for news that come in numbers. */
  #stepSoon(): void {
    this.#cancelNewsTimer ??= this.#environment.timer(NEWS_MS, () => {
      this.#cancelNewsTimer = null;
      this.#steps.ask();
    });
  }

  /** Notes what other servers committed. */
  async #readNews(): Promise<void> {
    const isFirst = this.#followedPos === null;
    if (!isFirst && !this.#hasNews) return;
    this.#hasNews = false;
    const after = this.#followedPos ?? 0;
    const { pos, events } = await this.#store.read(this.#ws, async (reader) => ({
      pos: (await reader.head()).pos,
      events: isFirst
        ? []
        : await reader.events({ after, types: KEEPER_EVENTS, limit: NEWS_LIMIT }),
    }));
    for (const event of events) this.#keeper.note(event);
    if (events.length === NEWS_LIMIT) this.#keeper.isSweepDue = true;
    this.#followedPos = pos;
  }

  /** Evaluates what needs no worker; answers when the next of it is due. */
  async #serve(): Promise<Instant | null> {
    for (let round = 0; round < ROUNDS_MAX && !this.#stopped; round++) {
      const { probes, nextAt } = await this.#taker.take({ type: "server" }, SERVED_MAX);
      if (probes.length === 0) return nextAt;
      for (const probe of probes) if (probe.isCut) this.#reports.noteCut(probe);
      await this.#reports.report(probes.map(resultOf), ENGINE_CAUSE);
    }
    this.#steps.ask();
    return null;
  }

  /** While claims wait, looks for evaluations that were asked for at another server. */
  #lookElsewhere(): void {
    if (this.#cancelElsewhereTimer !== null || this.#stopped) return;
    this.#cancelElsewhereTimer = this.#environment.timer(ELSEWHERE_MS, () => {
      this.#cancelElsewhereTimer = null;
      if (this.#waits.size === 0) return;
      this.#store
        .read(this.#ws, (reader) => reader.probesOf("manual", null, 1))
        .then(
          ([probe]) => {
            if (probe?.leased_until === null) this.#waits.wake();
          },
          // A store that is away is heard of by those who need it.
          () => undefined,
        )
        .finally(() => this.#lookElsewhere());
    });
  }
}

const NEWS_LIMIT = 1_000;

/** Events that sensors may watch. */
const LEDGER_EVENTS: ReadonlySet<string> = new Set(["TasksFinished", "RunFinished"]);

/** What the server itself finds out, from the target alone. */
function resultOf(taken: Taken): ProbeResult {
  const { probe_id, attempt, cursor, expected_state_version, poll_epoch } = taken;
  const outcome = outcomeOf(taken);
  return { probe_id, attempt, cursor, expected_state_version, poll_epoch, outcome };
}

function outcomeOf({ failure, target, found, message, cursor }: Taken): EvaluationOutcome {
  if (failure !== null) return { type: "failed", error: failure };
  try {
    const run_requests = target === null ? [] : requestsFor(target, found?.items, message);
    return { type: "evaluated", cursor: found === null ? cursor : found.cursor, run_requests };
  } catch (error) {
    if (!(error instanceof PawlError)) throw error;
    return { type: "failed", error: { class: "input", message: error.message } };
  }
}

function requestsFor(
  target: SensorTarget,
  items: readonly Json[] | undefined,
  message: Taken["message"],
): EvaluatedRequest[] {
  if (items !== undefined) return requestsOfTarget(target, items);
  return message === null ? [] : [requestOfTarget(target, message)];
}
