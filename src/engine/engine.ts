import { claimTasks, repeatClaim } from "../controllers/claim-tasks.ts";
import type { Context, Decide } from "../controllers/decision.ts";
import { type Expired, expireLeases, expireUncovered } from "../controllers/expire-leases.ts";
import { reportTasks } from "../controllers/report-tasks.ts";
import { AssertionFailure } from "../core/assert.ts";
import type { Json } from "../core/canonical.ts";
import { PawlError } from "../core/errors.ts";
import { FOLD_VERSION } from "../core/fold/fold.ts";
import { addMs, epochMsOf, type Instant, msBetween } from "../core/instant.ts";
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
} from "../core/protocol.ts";
import { TABLES } from "../core/rows/tables.ts";
import { RowsMissing, WorkingSet } from "../core/rows/working-set.ts";
import type { Answer, Lease, Reader, Store, Workspace } from "../store/store.ts";
import { ClaimQueue, type WaitingClaim } from "./claim-queue.ts";
import { type Accepted, type Cause, Commit, ENGINE_CAUSE, loadMissing } from "./commit.ts";
import { Controllers } from "./controllers.ts";
import type { Environment } from "./environment.ts";
import { PosWaiters } from "./pos-waiters.ts";
import { WorkerDesk } from "./worker-desk.ts";

/** A request that must have its effect once, and how its answer is kept. */
export type Idempotency<Result> = {
  scope: string;
  key: string;
  bodyHash: string;
  respond: (accepted: Accepted<Result>) => { status: number; answer: Json };
};

/** How a command comes in. */
export type SubmitOptions<Result> = {
  actor: Cause["actor"];
  correlationId: string;
  idempotency?: Idempotency<Result> | undefined;
};

/** A command that was recorded, now or, when `replayed` is there, by an earlier equal request. */
export type Submitted<Result> = Accepted<Result> & { replayed: Answer | null };

/** How the engine is opened. */
export type EngineOptions = {
  store: Store;
  tenantId: string;
  workspaceId: string;
  environment: Environment;
  leaseMs?: number;
};

/** How long a worker may be silent before its tasks are taken back. */
export const LEASE_MS = 15_000;
/** How often leases, deadlines and left-overs are looked at. */
const SWEEP_MS = 1_000;
/** How often running tasks are compared with the leases there are. */
const UNCOVERED_SWEEP_MS = 30_000;
/** Most jobs in one commit: a commit is bounded by its work, not by the number of callers. */
const JOBS_MAX = 256;
/** Most leases that one sweep looks at, those that end soonest first. */
const LEASES_SWEPT_MAX = 10_000;

/** Something that waits for the next commit. */
type Job = {
  /** Reports before commands, as in the order of the write path. */
  isReport: boolean;
  run(commit: Commit): Promise<void>;
  /** Called after the commit is durable. */
  succeed(): void;
  fail(error: unknown): void;
};

/**
 * Runs one workspace: gathers what waits into commits, lets the controllers add what follows, and
 * hands ready tasks to workers. Everything it knows is in the store; it can be killed at any time.
 */
export class Engine {
  readonly workspace: Workspace;
  readonly #store: Store;
  readonly #environment: Environment;
  readonly #leaseMs: number;
  readonly #secret: string;
  readonly #set = new WorkingSet();
  readonly #controllers = new Controllers();
  readonly #claims = new ClaimQueue();
  readonly #desk: WorkerDesk;
  readonly #waiters = new PosWaiters();
  readonly #unsubscribe: () => void;
  #jobs: Job[] = [];
  #sweepDue = true;
  #uncoveredDueAt: Instant | null = null;
  #looping = false;
  #stopped = false;
  #idle: (() => void)[] = [];
  #cancelTimer: (() => void) | null = null;
  #cancelRetryTimer: (() => void) | null = null;
  /** The head after the last commit of this engine: rows in memory are current while it stands. */
  #headPos = -1;
  #commits = 0;
  #lastError: string | null = null;

  private constructor(options: EngineOptions, workspace: Workspace, secret: string) {
    this.workspace = workspace;
    this.#store = options.store;
    this.#environment = options.environment;
    this.#leaseMs = options.leaseMs ?? LEASE_MS;
    this.#secret = secret;
    this.#desk = new WorkerDesk(options.store, workspace.ws, this.#leaseMs);
    this.#unsubscribe = options.store.onAppend((ws, pos) => {
      if (ws === workspace.ws) this.#appended(pos);
    });
  }

  /** Opens the workspace, making it when it is new. Throws `LEDGER_NEWER` when newer code wrote it. */
  static async open(options: EngineOptions): Promise<Engine> {
    const { store, tenantId, workspaceId, environment } = options;
    const workspace = await store.workspace(tenantId, workspaceId);
    const secret = await store.tenantSecret(tenantId, environment.newSecret());
    const head = await store.read(workspace.ws, (reader) => reader.head());
    if (head.fold_version > FOLD_VERSION) {
      throw new PawlError(
        "LEDGER_NEWER",
        `The workspace ${workspaceId} was written by a newer version of Pawl ` +
          `(fold version ${head.fold_version}, this one has ${FOLD_VERSION}). Upgrade Pawl.`,
      );
    }
    return new Engine(options, workspace, secret);
  }

  /** Begins to act by itself: sweeps what is not finished, and goes on from there. */
  start(): void {
    this.#controllers.sweepAll();
    this.#sweepDue = true;
    this.#scheduleSweep();
    this.#wake();
  }

  /** Ends waiting claims and lets what is queued be committed. */
  async stop(): Promise<void> {
    this.#cancelTimer?.();
    this.#cancelRetryTimer?.();
    this.#unsubscribe();
    this.#stopped = true;
    for (const claim of this.#claims.drain()) claim.resolve(this.#emptyAnswer(claim.request));
    this.#waiters.close();
    await this.#settled();
  }

  /** Records a command; resolves when it is durable, rejects with its refusal. */
  submit<Result>(
    decide: Decide<Result>,
    options: SubmitOptions<Result>,
  ): Promise<Submitted<Result>> {
    const cause = { actor: options.actor, correlationId: options.correlationId };
    return this.#enqueue(false, async (commit) => {
      const { idempotency } = options;
      if (idempotency === undefined) {
        return { ...(await commit.decide(decide, cause)), replayed: null };
      }
      const known = await commit.answerTo(idempotency.scope, idempotency.key);
      if (known !== null) return replay(known, idempotency, commit);
      const accepted = await commit.decide(decide, cause);
      const { scope, key, bodyHash } = idempotency;
      commit.answers.set(`${scope}\u0000${key}`, {
        scope,
        key,
        body_hash: bodyHash,
        ...idempotency.respond(accepted),
        stored_at: commit.now,
      });
      return { ...accepted, replayed: null };
    });
  }

  /** Runs a decision on a snapshot and records nothing. */
  async evaluate<Result>(
    decide: Decide<Result>,
    principal = "pawl",
  ): Promise<{ result: Result; pos: number }> {
    const now = await this.#store.now();
    return await this.#store.read(this.workspace.ws, async (reader) => {
      const { pos } = await reader.head();
      const set = new WorkingSet();
      const context = this.#context(now, pos, principal);
      for (;;) {
        try {
          return { result: decide(set.rows, context).result, pos };
        } catch (error) {
          if (!(error instanceof RowsMissing)) throw error;
          await loadMissing(set, reader, error);
        }
      }
    });
  }

  /** Reads one snapshot, at `minPos` or later; `NOT_YET` when that does not come in time. */
  async read<Result>(
    body: (reader: Reader) => Promise<Result>,
    options: { minPos?: number | undefined; timeoutMs?: number | undefined } = {},
  ): Promise<Result> {
    if (options.minPos !== undefined) await this.#waitFor(options.minPos, options.timeoutMs);
    return await this.#store.read(this.workspace.ws, body);
  }

  /** Gives a worker tasks, waiting for some to become ready. */
  async claim(request: ClaimRequest, signal?: AbortSignal): Promise<ClaimAnswer> {
    const repeated = this.#desk.heldBy(request.lease_id);
    if (repeated !== null) {
      const { result } = await this.evaluate(repeatClaim(repeated));
      return await this.#desk.answer(request.lease_id, result);
    }
    const answer = await new Promise<ClaimAnswer>((resolve, reject) => {
      const claim: WaitingClaim = { request, resolve, reject };
      const remove = this.#claims.add(claim);
      const giveUp = (): void => {
        remove();
        resolve(this.#emptyAnswer(request));
      };
      if (this.#stopped || signal?.aborted === true) {
        giveUp();
        return;
      }
      const cancel = this.#environment.timer(request.wait_ms, giveUp);
      signal?.addEventListener("abort", giveUp, { once: true });
      const settle = <Value>(then: (value: Value) => void) => {
        return (value: Value): void => {
          cancel();
          signal?.removeEventListener("abort", giveUp);
          then(value);
        };
      };
      Object.assign(claim, { resolve: settle(resolve), reject: settle(reject) });
      this.#wake();
    });
    return await this.#desk.answer(answer.lease_id, answer.groups);
  }

  /** Records how attempts ended. */
  async report(request: ReportRequest): Promise<ReportAnswer> {
    const { result } = await this.#enqueue(true, async (commit) => {
      const accepted = await commit.decide(reportTasks(request), workerCause(request.worker_id));
      commit.leasesReleased.push(...request.released_leases);
      return accepted;
    });
    this.#desk.released(request.released_leases);
    this.#desk.countLost(result.filter((verdict) => verdict === "lost").length);
    return { results: result };
  }

  /** Renews leases and keeps progress; says what the worker should stop. */
  heartbeat(request: HeartbeatRequest): Promise<HeartbeatAnswer> {
    return this.#desk.heartbeat(request);
  }

  checkpoint(request: CheckpointRequest): Promise<AcceptedAnswer> {
    return this.#desk.checkpoint(request);
  }

  log(request: LogRequest): Promise<AcceptedAnswer> {
    return this.#desk.log(request);
  }

  /** One full pass: everything due is decided; answers how far the ledger got. */
  async tick(): Promise<{ pos: number; events: number }> {
    const before = (await this.read((reader) => reader.head())).pos;
    this.#controllers.sweepAll();
    this.#sweepDue = true;
    this.#uncoveredDueAt = null;
    this.#wake();
    await this.#settled();
    const { pos } = await this.read((reader) => reader.head());
    return { pos, events: pos - before };
  }

  /** Calls back after every append, also of other servers; answers a function that ends it. */
  onAppend(listener: (pos: number) => void): () => void {
    return this.#waiters.listen(listener);
  }

  /** How it is doing, for health and metrics. */
  status(): EngineStatus {
    return {
      pos: Math.max(0, this.#headPos),
      commits: this.#commits,
      queued_jobs: this.#jobs.length,
      waiting_claims: this.#claims.size,
      results_refused: this.#desk.resultsLost,
      last_error: this.#lastError,
      poisoned: this.#controllers.poisoned(),
    };
  }

  async #waitFor(minPos: number, timeoutMs = 5_000): Promise<void> {
    const { pos } = await this.#store.read(this.workspace.ws, (reader) => reader.head());
    if (pos >= minPos) return;
    const reached = await this.#waiters.until(minPos, timeoutMs, this.#environment);
    if (reached) return;
    throw new PawlError(
      "NOT_YET",
      `The ledger has not reached position ${minPos} within ${timeoutMs} ms; it was at ${pos}.`,
      { details: { min_pos: minPos, pos } },
    );
  }

  #enqueue<Result>(isReport: boolean, run: (commit: Commit) => Promise<Result>): Promise<Result> {
    if (this.#stopped) {
      return Promise.reject(
        new PawlError("STORE_UNAVAILABLE", "This server is stopping; try again on another one."),
      );
    }
    return new Promise<Result>((resolve, reject) => {
      let outcome: { value: Result } | null = null;
      this.#jobs.push({
        isReport,
        run: async (commit) => {
          outcome = { value: await run(commit) };
        },
        succeed: () => {
          if (outcome !== null) resolve(outcome.value);
        },
        fail: reject,
      });
      this.#wake();
    });
  }

  #emptyAnswer(request: ClaimRequest): ClaimAnswer {
    return { lease_id: request.lease_id, ttl_ms: this.#leaseMs, groups: [] };
  }

  #wake(): void {
    if (this.#looping) return;
    this.#looping = true;
    this.#environment.defer(() => void this.#loop());
  }

  #hasWork(): boolean {
    return (
      this.#jobs.length > 0 ||
      this.#sweepDue ||
      this.#controllers.hasDirty() ||
      this.#claims.worthTrying().length > 0
    );
  }

  async #loop(): Promise<void> {
    while (this.#hasWork()) {
      const failed = await this.#commitOnce();
      // Whatever input came meanwhile joins the next commit.
      await new Promise<void>((resolve) => {
        if (failed) this.#environment.timer(200, resolve);
        else this.#environment.defer(resolve);
      });
    }
    this.#looping = false;
    for (const resolve of this.#idle.splice(0)) resolve();
  }

  #settled(): Promise<void> {
    if (!this.#looping) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  /** One commit of everything that waits, up to a bound; answers whether the store failed. */
  async #commitOnce(): Promise<boolean> {
    const jobs = this.#takeJobs();
    const done: (() => void)[] = [];
    const sweeps = this.#sweepDue;
    this.#sweepDue = false;
    try {
      const head = await this.#store.transact(this.workspace.ws, async (transaction) => {
        if (transaction.start.pos !== this.#headPos) this.#set.forget();
        this.#set.forgetAnswers();
        const tenant = { ...this.workspace, secret: this.#secret };
        const commit = new Commit(this.#set, transaction, tenant, this.#environment);
        await this.#runJobs(commit, jobs, done);
        if (sweeps) await this.#sweep(commit);
        await this.#controllers.run(commit, this.#environment);
        await this.#runClaims(commit, done);
        await commit.flush();
        this.#after(commit, done);
        return commit.pos;
      });
      this.#set.committed();
      this.#headPos = head;
      this.#commits += 1;
      this.#lastError = null;
      for (const call of done) call();
      return false;
    } catch (error) {
      this.#failed(error, jobs, sweeps);
      return true;
    }
  }

  #takeJobs(): Job[] {
    const jobs = this.#jobs.splice(0, JOBS_MAX);
    return [...jobs.filter((job) => job.isReport), ...jobs.filter((job) => !job.isReport)];
  }

  async #runJobs(commit: Commit, jobs: readonly Job[], done: (() => void)[]): Promise<void> {
    for (const job of jobs) {
      try {
        await job.run(commit);
        done.push(() => job.succeed());
      } catch (error) {
        // A refusal takes back only its own decision. A failure of the store ends the commit.
        if (error instanceof PawlError && !isStoreFailure(error)) done.push(() => job.fail(error));
        else if (error instanceof AssertionFailure) {
          this.#environment.warn("a decision was refused by an assertion", {
            assertion: error.message,
          });
          done.push(() => job.fail(internal(error)));
        } else throw error;
      }
    }
  }

  async #runClaims(commit: Commit, done: (() => void)[]): Promise<void> {
    for (const claim of this.#claims.worthTrying()) {
      const { request } = claim;
      const { result } = await commit.decide(claimTasks(request), workerCause(request.worker_id));
      if (result.tasks.length === 0) {
        done.push(() => this.#claims.wasEmpty(claim));
        continue;
      }
      const lease: Lease = {
        lease_id: request.lease_id,
        worker_id: request.worker_id,
        granted_at: commit.now,
        expires_at: addMs(commit.now, this.#leaseMs),
        tasks: result.tasks,
      };
      commit.leasesGranted.push(lease);
      done.push(() => {
        this.#claims.remove(claim);
        this.#desk.granted(lease);
        claim.resolve({
          lease_id: request.lease_id,
          ttl_ms: this.#leaseMs,
          groups: result.groups,
        });
      });
    }
  }

  /** Takes back what no worker holds any more, and looks for what has fallen due. */
  async #sweep(commit: Commit): Promise<void> {
    const leases = await commit.leases(LEASES_SWEPT_MAX);
    const { result } = await commit.decide((rows, context) => {
      const expired = expireLeases(rows, leases, context);
      return { events: expired.events, result: expired };
    }, ENGINE_CAUSE);
    commit.leasesReleased.push(...(result satisfies Expired).ended);
    this.#desk.released(result.ended);
    if (result.events.length > 0) this.#sweepDue = true;
    const complete = leases.length < LEASES_SWEPT_MAX;
    const due = this.#uncoveredDueAt === null || this.#uncoveredDueAt <= commit.now;
    if (complete && due) {
      const held = [...leases, ...commit.leasesGranted];
      const { result: lost } = await commit.decide((rows, context) => {
        const events = expireUncovered(rows, held, context);
        return { events, result: events.length };
      }, ENGINE_CAUSE);
      if (lost > 0) this.#sweepDue = true;
      else this.#uncoveredDueAt = addMs(commit.now, UNCOVERED_SWEEP_MS);
    }
    await this.#controllers.findDue(commit);
    this.#claims.wake();
  }

  /** What the commit means for the time after it. */
  #after(commit: Commit, done: (() => void)[]): void {
    const frees = commit.events.some(({ type }) => WAKES_CLAIMS.has(type));
    if (frees) done.push(() => this.#claims.wake());
    const retryAt = this.#controllers.nextRetryAt();
    if (retryAt === null) return;
    done.push(() => {
      this.#cancelRetryTimer?.();
      const ms = Math.max(0, msBetween(commit.now, retryAt));
      this.#cancelRetryTimer = this.#environment.timer(Math.min(ms, 2 ** 30), () => {
        this.#claims.wake();
        if (this.#claims.size > 0) this.#wake();
      });
    });
  }

  #failed(error: unknown, jobs: readonly Job[], swept: boolean): void {
    // Rows in memory may be ahead of the database: all of them are read again.
    this.#set.forget();
    this.#headPos = -1;
    this.#controllers.sweepAll();
    if (swept) this.#sweepDue = true;
    const failure = error instanceof PawlError ? error : internal(error);
    this.#lastError = failure.message;
    this.#environment.warn("a commit failed", { code: failure.code, reason: failure.message });
    for (const job of jobs) job.fail(failure);
  }

  #appended(pos: number): void {
    this.#waiters.reached(pos);
    if (pos <= this.#headPos) return;
    // Another server appended: there may be work for the claims that wait here.
    this.#claims.wake();
    if (this.#claims.size > 0) this.#wake();
  }

  #scheduleSweep(): void {
    this.#cancelTimer = this.#environment.timer(SWEEP_MS, () => {
      if (this.#stopped) return;
      void this.#lookAround().finally(() => this.#scheduleSweep());
    });
  }

  /** Looks, without the lock, whether a sweep has anything to do. */
  async #lookAround(): Promise<void> {
    try {
      const now = await this.#store.now();
      const due = await this.#store.read(this.workspace.ws, async (reader) => {
        const [lease] = await reader.leases(1);
        if (lease !== undefined && this.#desk.mayBeDue(lease, now)) return true;
        if (this.#uncoveredDueAt !== null && this.#uncoveredDueAt <= now) {
          const running = await reader.find({
            table: TABLES.runAssets,
            where: [{ cell: "running", is: ">", value: 0 }],
            order: [{ cell: "run_pos" }],
            limit: 1,
          });
          if (running.length > 0) return true;
        }
        return await this.#controllers.isAnythingDue(reader, now);
      });
      if (!due) return;
      this.#sweepDue = true;
      this.#wake();
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.#environment.warn("looking for due work failed", { reason });
    }
  }

  #context(now: Instant, pos: number, principal: string): Context {
    return {
      now,
      nextPos: pos + 1,
      hash: this.#environment.hash,
      tenant: { ...this.workspace, secret: this.#secret },
      principal,
      random: () => this.#environment.random(),
      newId: () => this.#environment.newId(epochMsOf(now)),
    };
  }
}

/** How an engine is doing. */
export type EngineStatus = {
  pos: number;
  commits: number;
  queued_jobs: number;
  waiting_claims: number;
  results_refused: number;
  last_error: string | null;
  /** Entities whose controller failed an assertion, with the reason. */
  poisoned: Record<string, string>;
};

/** Events after which a claim that found nothing may find something. */
const WAKES_CLAIMS = new Set([
  "RunRequested",
  "TasksFinished",
  "TaskLeaseExpired",
  "DefinitionsPublished",
]);

function workerCause(workerId: string): Cause {
  return { actor: { principal: `worker:${workerId}`, token_id: null }, correlationId: null };
}

function replay<Result>(
  known: Answer,
  { key, bodyHash }: Idempotency<Result>,
  commit: Commit,
): Submitted<Result> {
  if (known.body_hash !== bodyHash) {
    throw new PawlError(
      "IDEMPOTENCY_KEY_REUSED",
      `The idempotency key ${JSON.stringify(key)} was used before with another request. ` +
        "Use a new key for a new request.",
      { details: { key } },
    );
  }
  const replayed = { event_ids: [], pos: commit.pos, at: known.stored_at, replayed: known };
  return replayed as unknown as Submitted<Result>;
}

function isStoreFailure({ code }: PawlError): boolean {
  return code === "STORE_UNAVAILABLE" || code === "STORE_LOCKED" || code === "STORE_CORRUPT";
}

function internal(error: unknown): PawlError {
  const reason = error instanceof Error ? error.message : String(error);
  return new PawlError("INTERNAL", `Pawl failed inside: ${reason}. Nothing was recorded.`, {
    cause: error,
  });
}
