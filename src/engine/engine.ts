import { repeatClaim } from "../work/run/claim.ts";
import type { Decide } from "../work/decision.ts";
import { type Actor, LOCAL_ACTOR, type RecordedEvent } from "../work/envelope.ts";
import type { Instant } from "../kernel/instant.ts";
import type { Tenant } from "../work/keys.ts";
import type {
  HeadClaimRequest,
  HeadReportAnswer,
  HeadReportRequest,
  ProbeClaimRequest,
  ProbeReportAnswer,
  ProbeReportRequest,
  SourceExchange,
  SourceExchangeAnswer,
} from "../work/probe-protocol.ts";
import type {
  AcceptedAnswer,
  CheckpointRequest,
  ClaimAnswer,
  ClaimRequest,
  HeartbeatAnswer,
  HeartbeatRequest,
  LogRequest,
  ReportAnswer,
  ReportRequest,
} from "../work/run/protocol.ts";
import type { StepAnswer, StepWord } from "../work/shard/step-protocol.ts";
import type { LearntSource, Reader, Store, Workspace } from "../store/store.ts";
import { ClaimQueue, mayFillClaims } from "./claim-queue.ts";
import { type DecisionCause, type Commit, ENGINE_CAUSE } from "./commit.ts";
import {
  type Afterwards,
  CommitLoop,
  decideOnce,
  type Submitted,
  evaluateDecision,
  PosWaiters,
  type ReadOptions,
} from "./commit-loop.ts";
import { readInTurn } from "./asking.ts";
import { Controllers } from "./controllers.ts";
import { DueTimer, Sweeper } from "./sweeper.ts";
import {
  type EngineOptions,
  type EngineStatus,
  type Environment,
  LEASE_MS,
  type SubmitOptions,
} from "./config.ts";
import { HeadPolls, type HeadStatus } from "./probes/head-polls.ts";
import {
  type AwaitedEvaluation,
  type EvaluationRequest,
  SensorPolls,
} from "./probes/sensor-polls.ts";
import { matchFoldVersion } from "./ledger/refold.ts";
import {
  type HeardClaim,
  hearStep,
  reportIn,
  serveClaims,
  workerCause,
  WorkerDesk,
} from "./serve-claims.ts";
import type { SensorStatus } from "./probes/sensor-view.ts";
import { type AuditCounts, SyncAudit } from "./probes/sync-audit.ts";
import type { Polling } from "./probes/polls.ts";

/** How long the answer to a report waits for the claim that came along. */
const CLAIM_ALONG_MS = 1_000;

/** The claim of a report, as one by itself. */
function claimAlong({ claim, worker_id, code_version }: ReportRequest): ClaimRequest | null {
  return claim === undefined ? null : { ...claim, worker_id, code_version, wait_ms: 0 };
}

/**
 * Runs one workspace: records commands, lets the controllers add what follows, and hands ready
 * tasks to workers. Everything it knows is in the store; it can be killed at any time.
 */
export class Engine {
  readonly workspace: Workspace;
  readonly #store: Store;
  readonly #environment: Environment;
  readonly #leaseMs: number;
  readonly #tenant: Tenant;
  readonly #controllers = new Controllers();
  readonly #claims: ClaimQueue;
  readonly #waiters = new PosWaiters();
  readonly #desk: WorkerDesk;
  readonly #loop: CommitLoop;
  readonly #sweeper: Sweeper;
  readonly #sensors: SensorPolls;
  readonly #heads: HeadPolls;
  /** All kinds of polls. */
  readonly #polls: readonly Polling[];
  readonly #audit: SyncAudit;
  readonly #retryTimer: DueTimer;
  readonly #tickTimer: DueTimer;
  readonly #unsubscribe: () => void;
  readonly #commitListeners: ((events: readonly RecordedEvent[]) => void)[] = [];
  #stopped = false;
  #isStarted = false;

  private constructor(options: EngineOptions, workspace: Workspace, secret: string) {
    const { store, environment } = options;
    const { ws } = workspace;
    this.workspace = workspace;
    this.#store = store;
    this.#environment = environment;
    this.#leaseMs = options.leaseMs ?? LEASE_MS;
    this.#tenant = { ...workspace, secret };
    this.#claims = new ClaimQueue(environment);
    this.#desk = new WorkerDesk(options, ws);
    this.#loop = new CommitLoop(store, ws, this.#tenant, environment, {
      hasWork: () => this.#hasWork(),
      run: (commit, afterwards) => this.#follow(commit, afterwards),
      failed: () => {
        this.#controllers.lost();
        this.#sweeper.isDue = true;
        this.#claims.unserve();
      },
    });
    const wake = (): void => this.#loop.wake();
    const { logs } = this.#desk;
    this.#sweeper = new Sweeper(store, ws, environment, this.#controllers, logs, wake);
    this.#retryTimer = new DueTimer(environment, () => {
      this.#claims.wake();
      wake();
    });
    this.#tickTimer = new DueTimer(environment, () => {
      this.#sweeper.isDue = true;
      wake();
    });
    const record = <Result>(decide: Decide<Result>, cause: DecisionCause): Promise<Result> =>
      this.#record(decide, cause);
    const reckon = async <Result>(decide: Decide<Result>): Promise<Result> =>
      (await this.evaluate(decide)).result;
    const host = { store, ws, environment, record, reckon, leaseMs: this.#leaseMs };
    this.#sensors = new SensorPolls(host);
    this.#heads = new HeadPolls(host);
    this.#polls = [this.#sensors.polls, this.#heads.polls];
    this.#audit = new SyncAudit(host);
    this.onCommit((events) => {
      for (const polls of this.#polls) polls.committed(events);
    });
    this.#unsubscribe = store.onAppend((appendedTo, pos) => {
      if (appendedTo === ws) this.#appended(pos);
    });
  }

  /** Opens the workspace, making it when it is new. Throws `LEDGER_NEWER` when newer code wrote it. */
  static async open(options: EngineOptions): Promise<Engine> {
    const { store, tenantId, workspaceId, environment } = options;
    const workspace = await store.workspace(tenantId, workspaceId);
    const secret = await store.tenantSecret(tenantId, environment.newSecret());
    await matchFoldVersion(store, workspace, options.onRefold);
    return new Engine(options, workspace, secret);
  }

  /** Begins to act by itself: sweeps what is not finished, and goes on from there. */
  start(): void {
    this.#isStarted = true;
    this.#controllers.sweepAll();
    this.#sweeper.force();
    this.#sweeper.start();
    for (const polls of this.#polls) polls.start();
    this.#audit.start();
    this.#loop.wake();
  }

  /** Ends waiting claims and lets what is queued be committed. */
  async stop(): Promise<void> {
    this.#stopped = true;
    const swept = this.#sweeper.stop();
    this.#retryTimer.cancel();
    this.#tickTimer.cancel();
    this.#unsubscribe();
    for (const claim of this.#claims.unserved()) claim.resolve({ groups: [] });
    this.#waiters.close();
    await Promise.all([swept, ...[...this.#polls, this.#audit].map((each) => each.stop())]);
    this.#loop.close();
    await this.#loop.settled();
  }

  /** Records a command; resolves when it is durable, rejects with its refusal. */
  submit<Result>(
    decide: Decide<Result>,
    options: SubmitOptions<Result>,
  ): Promise<Submitted<Result>> {
    const cause = { actor: options.actor, correlationId: options.correlationId };
    return this.#loop.enqueue(false, (commit) =>
      decideOnce(commit, decide, cause, options.idempotency),
    );
  }

  #record<Result>(decide: Decide<Result>, cause: DecisionCause): Promise<Result> {
    return this.#loop.enqueue(true, async (commit) => (await commit.decide(decide, cause)).result);
  }

  /** Runs a decision on a snapshot and records nothing. */
  evaluate<Result>(
    decide: Decide<Result>,
    actor: Actor = ENGINE_CAUSE.actor,
  ): Promise<{ result: Result; pos: number }> {
    const { ws } = this.workspace;
    return evaluateDecision(this.#store, ws, this.#tenant, this.#environment, decide, actor);
  }

  /**
   * Reads one snapshot, at `minPos` or later; `NOT_YET` when that does not come in time,
   * `STORE_UNAVAILABLE` when the signal, which is asked for only when there is a wait, aborts first.
   */
  async read<Result>(
    body: (reader: Reader) => Promise<Result>,
    options: ReadOptions = {},
  ): Promise<Result> {
    const { ws } = this.workspace;
    const { minPos } = options;
    if (minPos !== undefined) {
      await this.#waiters.reach(this.#store, ws, this.#environment, { ...options, minPos });
    }
    return readInTurn(this.#store, ws, body);
  }

  /** Gives a worker tasks, waiting for some to become ready. */
  async claim(
    request: ClaimRequest,
    signal?: AbortSignal,
    actor = LOCAL_ACTOR,
  ): Promise<ClaimAnswer> {
    return this.#grant(request, await this.#desk.hear(request, actor), signal, actor);
  }

  async #grant(
    request: ClaimRequest,
    { held, heardPos }: HeardClaim,
    signal: AbortSignal | undefined,
    actor: Actor,
  ): Promise<ClaimAnswer> {
    if (held !== null) {
      const { result } = await this.evaluate(repeatClaim(held.tasks));
      return this.#desk.answer(request.lease_id, result);
    }
    const waiting = this.#stopped
      ? { groups: [] }
      : this.#claims.wait(this.#desk.patient(request), actor, heardPos, signal);
    this.#loop.wake();
    return this.#desk.answer(request.lease_id, await waiting);
  }

  /** Records how attempts ended, and gives the worker what the claim beside it asks for. */
  async report(request: ReportRequest, actor = LOCAL_ACTOR): Promise<ReportAnswer> {
    const claim = claimAlong(request);
    const heard = claim === null ? null : await this.#desk.hear(claim, actor).catch(() => null);
    const verdicts: ReportAnswer["results"] = [];
    const callOff = new AbortController();
    const along: { claiming: Promise<ClaimAnswer | null> | null } = { claiming: null };
    const reporting = this.#loop.enqueue(true, async (commit) => {
      const rest = await reportIn(commit, request, actor, verdicts);
      if (rest !== null || claim === null || heard === null) return rest;
      // Not before: a commit that has gone past its reports would find nothing for the claim. Now it is
      // looked at in this one, whatever was not ready before.
      this.#claims.wake();
      // Where the claim fails, the worker hears why when it claims by itself.
      along.claiming = this.#grant(claim, heard, callOff.signal, actor).catch(() => null);
      return rest;
    });
    try {
      await reporting;
    } catch (error) {
      callOff.abort();
      throw error;
    }
    this.#desk.countLost(verdicts.filter((verdict) => verdict === "lost").length);
    const cancel = this.#environment.timer(CLAIM_ALONG_MS, () => callOff.abort());
    const claimed = await along.claiming;
    cancel();
    return { results: verdicts, ...(claimed === null ? {} : { claimed }) };
  }

  /** Renews leases and keeps progress; says what the worker should stop. */
  heartbeat(request: HeartbeatRequest, actor = LOCAL_ACTOR): Promise<HeartbeatAnswer> {
    return this.#desk.heartbeat(request, actor);
  }

  checkpoint(request: CheckpointRequest, actor = LOCAL_ACTOR): Promise<AcceptedAnswer> {
    return this.#desk.checkpoint(request, actor);
  }

  log(request: LogRequest, actor = LOCAL_ACTOR): Promise<AcceptedAnswer> {
    return this.#desk.log(request, actor);
  }

  /** Gives a worker evaluations of sensors, waiting for some to fall due. */
  claimProbes(request: ProbeClaimRequest, signal?: AbortSignal, actor = LOCAL_ACTOR) {
    return this.#sensors.claim(this.#desk.patient(request), signal, actor);
  }

  /** Records what evaluations of sensors came to. */
  reportProbes(request: ProbeReportRequest, actor = LOCAL_ACTOR): Promise<ProbeReportAnswer> {
    return this.#sensors.report(request, actor);
  }

  /** Asks for an evaluation of a sensor, by id or name, now; `awaitEvaluation` says what came of it. */
  requestEvaluation(
    request: EvaluationRequest & { sensor: string },
  ): Promise<{ probe_id: string; sensor_id: string }> {
    return this.#sensors.request(request);
  }

  /** What became of an evaluation that was asked for, at whatever server. */
  awaitEvaluation(probeId: string, timeoutMs: number): Promise<AwaitedEvaluation> {
    return this.#sensors.await(probeId, timeoutMs);
  }

  /** The names of sensors that workers have asked this server for, and when last. */
  claimedSensors(): Map<string, Instant> {
    return this.#sensors.claimedSensors();
  }

  /** How sensors are doing, for metrics. */
  sensorStatus(): Promise<SensorStatus> {
    return this.#sensors.status();
  }

  /** Gives a worker heads of sources to look up, waiting for some to fall due. */
  claimHeads(request: HeadClaimRequest, signal?: AbortSignal, actor = LOCAL_ACTOR) {
    return this.#heads.claim(this.#desk.patient(request), signal, actor);
  }

  /** Records how far sources have got, and what they rewrote. */
  reportHeads(request: HeadReportRequest, actor = LOCAL_ACTOR): Promise<HeadReportAnswer> {
    return this.#heads.report(request, actor);
  }

  /** How the looks at heads go. */
  headStatus(): Promise<HeadStatus[]> {
    return this.#heads.status();
  }

  /** Shares what a worker learnt about sources, and answers what all together know. */
  exchangeSources(request: SourceExchange, actor = LOCAL_ACTOR): Promise<SourceExchangeAnswer> {
    return this.#heads.exchangeSources(request, actor);
  }

  /** Keeps how far a step on shards is, records what it asks for, and says whether to stop. */
  sayStep(word: StepWord, actor = LOCAL_ACTOR): Promise<StepAnswer> {
    return hearStep(word, {
      keep: (items) => this.#desk.checkpoint({ items }, actor),
      record: (decide) => this.#record(decide, workerCause(actor)),
      evaluate: (decide) => this.evaluate(decide, actor),
    });
  }

  /** What all workers together learnt about sources. */
  learntSources(): Promise<LearntSource[]> {
    return this.#heads.learntSources();
  }

  /** What came of the audits of syncs. */
  syncAudits(): AuditCounts {
    return { ...this.#audit.counts };
  }

  /** One full pass: everything due is decided; answers how far the ledger got. */
  async tick(): Promise<{ pos: number; events: number }> {
    const before = (await this.read((reader) => reader.head())).pos;
    this.#controllers.sweepAll();
    this.#sweeper.force();
    this.#loop.wake();
    await this.#loop.settled();
    await Promise.all(this.#polls.map((polls) => polls.tick()));
    await this.#loop.settled();
    const { pos } = await this.read((reader) => reader.head());
    return { pos, events: pos - before };
  }

  /** Calls back after every append, also of other servers; answers a function that ends it. */
  onAppend(listener: (pos: number) => void): () => void {
    return this.#waiters.listen(listener);
  }

  /** Calls back with the events of every commit of this engine, once they are durable. */
  onCommit(listener: (events: readonly RecordedEvent[]) => void): void {
    this.#commitListeners.push(listener);
  }

  /** The assets that workers have asked for lately, and when: what is not here nobody can run. */
  claimedAssets(): Map<string, Instant> {
    return this.#desk.claimedAssets();
  }

  /** The bytes of all that tasks have logged and that is kept. */
  logBytes(): Promise<number> {
    return this.#store.logBytes(this.workspace.ws);
  }

  /** How it is doing, for health and metrics. */
  status(): EngineStatus {
    return {
      pos: Math.max(0, this.#loop.headPos),
      commits: this.#loop.commits,
      queued_jobs: this.#loop.queued,
      waiting_claims: this.#claims.size,
      results_refused: this.#desk.resultsLost,
      log_lines_dropped: this.#desk.logs.dropped,
      log_lines_expired: this.#desk.logs.expired,
      last_error: this.#loop.lastError,
      poisoned: this.#controllers.poisoned(),
    };
  }

  #hasWork(): boolean {
    return (
      this.#sweeper.isDue || this.#controllers.hasDirty() || this.#claims.worthTrying().length > 0
    );
  }

  /** What follows from a commit's jobs: due things, the controllers, and tasks for who waits. */
  async #follow(commit: Commit, afterwards: Afterwards): Promise<void> {
    if (this.#sweeper.isDue) {
      this.#claims.dismiss(await this.#sweeper.sweep(commit));
      this.#claims.wake();
    }
    const retryAt = this.#controllers.nextRetryAt();
    if (retryAt !== null && retryAt <= commit.now) this.#claims.wake();
    await this.#controllers.run(commit, this.#environment);
    if (commit.events.some(mayFillClaims)) this.#claims.wake();
    if (await serveClaims(commit, this.#claims, this.#leaseMs, this.#environment, afterwards)) {
      // Runs may have ended with it, and others may be free: that is for the next commit.
      this.#controllers.noteTouched(commit);
      this.#claims.wake();
    }
    afterwards.push(() => this.#watchDueTimes(commit));
    for (const listener of this.#commitListeners) afterwards.push(() => listener(commit.events));
  }

  /** Sets the timers for the next task that may be tried again, and for the next schedule. */
  #watchDueTimes(commit: Commit): void {
    if (this.#stopped) return;
    this.#retryTimer.set(commit, this.#controllers.nextRetryAt());
    if (this.#isStarted) this.#tickTimer.set(commit, this.#controllers.nextTickAt());
  }

  #appended(pos: number): void {
    this.#waiters.reached(pos);
    if (pos <= this.#loop.ownPos) return;
    // Another server appended: there may be work for the claims that wait here.
    this.#claims.wake();
    if (this.#claims.size > 0) this.#loop.wake();
    for (const polls of this.#polls) polls.appendedElsewhere();
  }
}
