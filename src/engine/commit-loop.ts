import { PawlError } from "../kernel/errors.ts";
import { FOLD_VERSION } from "../work/fold.ts";
import type { Tenant } from "../work/keys.ts";
import { WorkingSet, RowsMissing } from "../work/working-set.ts";
import { damageRefusal } from "../store/ledger-head.ts";
import type { Reader, Store, WorkspaceId, Answer } from "../store/store.ts";
import {
  Commit,
  CommitSize,
  STAGE_PARTS,
  type RecordedDecision,
  type DecisionCause,
  loadMissing,
} from "./commit.ts";
import { askingAs, readInTurn } from "./asking.ts";
import type { Environment } from "./config.ts";
import { type Decide, type Context, DECISION_ROOM } from "../work/decision.ts";
import type { Json } from "../kernel/canonical.ts";
import { type Actor, holderOf } from "../work/envelope.ts";
import { epochMsOf } from "../kernel/instant.ts";

/** The pause after a commit that the store failed. */
const RETRY_MS = 200;

/** Things to do once the commit is durable. */
export type Afterwards = (() => void)[];

/** What joins every commit besides the jobs that wait. */
export interface Stages {
  /** Whether there is something to do without a job. */
  hasWork(): boolean;
  /** Adds what follows from the jobs, and hands out what is ready. */
  run(commit: Commit, afterwards: Afterwards): Promise<void>;
  /** The store failed: what was taken for done is not. */
  failed(): void;
}

/** What a job answers that has more to do than the commit has room for: it is run in the next one too. */
export const TO_BE_CONTINUED = Symbol("to be continued");

type Job = {
  /** Answers whether it is done. */
  run(commit: Commit): Promise<boolean>;
  succeed(): void;
  fail(error: unknown): void;
};

/**
 * Gathers the decisions that wait into commits: one transaction, one flush to disk for all of them,
 * in the order reports, commands, whatever follows from them. A refusal takes back only its own.
 */
export class CommitLoop {
  readonly #store: Store;
  readonly #ws: WorkspaceId;
  readonly #tenant: Tenant;
  readonly #environment: Environment;
  readonly #stages: Stages;
  readonly #set = new WorkingSet();
  readonly #size = new CommitSize();
  /** Two queues, so that a command need not wait for all the reports there are. */
  readonly #reports: Job[] = [];
  readonly #commands: Job[] = [];
  #looping = false;
  #closed = false;
  #idle: (() => void)[] = [];
  /** The head after the last commit here: rows in memory are current while it stands. */
  headPos = -1;
  /** The newest position written here, also while it is still being committed. */
  ownPos = -1;
  commits = 0;
  lastError: string | null = null;

  constructor(
    store: Store,
    ws: WorkspaceId,
    tenant: Tenant,
    environment: Environment,
    stages: Stages,
  ) {
    this.#store = store;
    this.#ws = ws;
    this.#tenant = tenant;
    this.#environment = environment;
    this.#stages = stages;
  }

  get queued(): number {
    return this.#reports.length + this.#commands.length;
  }

  /**
   * Runs `job` in the next commit, or in as many as it wants; resolves when all of it is durable,
   * rejects with its refusal.
   */
  enqueue<Result>(
    isReport: boolean,
    job: (commit: Commit) => Promise<Result | typeof TO_BE_CONTINUED>,
  ): Promise<Result> {
    if (this.#closed) return Promise.reject(stopping());
    return new Promise<Result>((resolve, reject) => {
      let outcome: { value: Result } | null = null;
      const queue = isReport ? this.#reports : this.#commands;
      queue.push({
        run: async (commit) => {
          const value = await job(commit);
          if (value === TO_BE_CONTINUED) return false;
          outcome = { value };
          return true;
        },
        succeed: () => {
          if (outcome !== null) resolve(outcome.value);
        },
        fail: reject,
      });
      this.wake();
    });
  }

  /** There may be something to do. */
  wake(): void {
    if (this.#looping) return;
    this.#looping = true;
    // Commits are for all, and read in nobody's name.
    askingAs(null, () => this.#environment.defer(() => void this.#loop()));
  }

  /** Takes no further jobs. */
  close(): void {
    this.#closed = true;
  }

  /** Resolves when nothing is left to do. */
  settled(): Promise<void> {
    if (!this.#looping) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  /** What nobody asked for is not begun any more once the loop is closed. */
  #hasWork(): boolean {
    return this.queued > 0 || (!this.#closed && this.#stages.hasWork());
  }

  async #loop(): Promise<void> {
    while (this.#hasWork()) {
      const failed = await this.#commitOnce();
      // Who waits for everything due need not wait for the jobs that keep coming.
      if (failed || !this.#stages.hasWork()) this.#resolveIdle();
      // Whatever input came meanwhile joins the next commit.
      await new Promise<void>((resolve) => {
        if (failed) this.#environment.timer(RETRY_MS, resolve);
        else this.#environment.defer(resolve);
      });
    }
    this.#looping = false;
    this.#resolveIdle();
  }

  #resolveIdle(): void {
    if (this.#closed && this.queued > 0) return;
    for (const resolve of this.#idle.splice(0)) resolve();
  }

  /** One commit of what waits, up to a bound; answers whether the store failed. */
  async #commitOnce(): Promise<boolean> {
    const taken: Job[] = [];
    const afterwards: Afterwards = [];
    try {
      const pos = await this.#store.transact(
        this.#ws,
        async (transaction) => {
          refuseOtherFold(transaction.start.fold_version);
          if (transaction.start.damage !== null) throw damageRefusal(transaction.start.damage);
          // Somebody else wrote since: what is in memory may be old.
          if (transaction.start.pos !== this.headPos) this.#set.forget();
          const commit = new Commit(
            this.#set,
            transaction,
            this.#tenant,
            this.#environment,
            this.#size,
          );
          await this.#runJobs(commit, this.#reports, STAGE_PARTS.reports, taken, afterwards);
          await this.#runJobs(commit, this.#commands, STAGE_PARTS.commands, taken, afterwards);
          await this.#stages.run(commit, afterwards);
          await commit.flush();
          this.ownPos = commit.pos;
          return commit.pos;
        },
        { isPatient: this.#size.isPatient },
      );
      this.#set.committed();
      this.headPos = pos;
      this.commits += 1;
      this.lastError = null;
      this.#size.succeeded();
      for (const call of afterwards) call();
      return false;
    } catch (error) {
      // Where nothing can be committed for long, nobody is kept waiting for it.
      const rest = isRefusal(error)
        ? [...this.#reports.splice(0), ...this.#commands.splice(0)]
        : [];
      this.#failed(error, [...taken, ...rest]);
      return true;
    }
  }

  /** Runs jobs in order until their part of the commit is full, at least one of them. */
  async #runJobs(
    commit: Commit,
    queue: Job[],
    share: number,
    taken: Job[],
    afterwards: Afterwards,
  ): Promise<void> {
    const part = commit.part(share);
    while (!part.isFull()) {
      const job = queue.shift();
      if (job === undefined) return;
      taken.push(job);
      const isDone = await this.#runJob(commit, job, afterwards);
      if (isDone) continue;
      // Behind the others: what is small need not wait for all of what is large.
      afterwards.push(() => queue.push(job));
      return;
    }
  }

  /** Answers whether the job need not be run again. */
  async #runJob(commit: Commit, job: Job, afterwards: Afterwards): Promise<boolean> {
    try {
      const isDone = await job.run(commit);
      if (isDone) afterwards.push(() => job.succeed());
      return isDone;
    } catch (error) {
      if (isStoreFailure(error)) throw error;
      if (error instanceof PawlError) afterwards.push(() => job.fail(error));
      else {
        this.#environment.warn("a decision failed", { reason: reasonOf(error) });
        afterwards.push(() => job.fail(internal(error)));
      }
      return true;
    }
  }

  #failed(error: unknown, jobs: readonly Job[]): void {
    // Rows in memory may be ahead of the database: all of them are read again.
    this.#set.forget();
    this.headPos = -1;
    this.#stages.failed();
    const isNewer = error instanceof PawlError && error.code === "LEDGER_NEWER";
    const failure = isNewer || isStoreFailure(error) ? error : internal(error);
    if (isNewer) this.close();
    if (mayBeTooLarge(failure)) this.#size.failed();
    // A damaged ledger stays so until a person decides: it is said once.
    if (failure.message !== this.lastError || failure.code !== "LEDGER_CORRUPT") {
      const { code, message: reason, cause } = failure;
      // What the database itself says is for the log only: it may name files of the server.
      const said = cause instanceof Error ? { cause: cause.message } : {};
      this.#environment.warn("a commit failed", { code, reason, ...said });
    }
    this.lastError = failure.message;
    for (const job of jobs) job.fail(failure);
  }
}

/** The refusal of a server that stops. */
export function stopping(): PawlError {
  return new PawlError("STORE_UNAVAILABLE", "This server is stopping; try again in a moment.");
}

/** Rows that another fold wrote may not be written over: an upgrade is under way. */
function refuseOtherFold(foldVersion: number): void {
  if (foldVersion === FOLD_VERSION) return;
  throw new PawlError(
    "LEDGER_NEWER",
    `Another version of Pawl has folded this workspace (fold version ${foldVersion}; this one has ` +
      `${FOLD_VERSION}). Stop this server and start the newer version.`,
    { details: { fold_version: foldVersion, known_fold_version: FOLD_VERSION } },
  );
}

/** Whether a workspace takes nothing until somebody does something about it. */
function isRefusal(error: unknown): boolean {
  if (!(error instanceof PawlError)) return false;
  return error.code === "LEDGER_NEWER" || error.code === "LEDGER_CORRUPT";
}

/** Whether the store failed: that ends a commit, while anything else is about one decision only. */
export function isStoreFailure(error: unknown): error is PawlError {
  if (!(error instanceof PawlError)) return false;
  const { code } = error;
  return (
    code === "STORE_UNAVAILABLE" ||
    code === "STORE_LOCKED" ||
    code === "STORE_CORRUPT" ||
    code === "LEDGER_CORRUPT"
  );
}

/** Whether a smaller commit may succeed where this one failed: all but what has nothing to do with it. */
function mayBeTooLarge({ code }: PawlError): boolean {
  return (
    code !== "STORE_LOCKED" &&
    code !== "STORE_CORRUPT" &&
    code !== "LEDGER_NEWER" &&
    code !== "LEDGER_CORRUPT"
  );
}

/** What an error says. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function internal(error: unknown): PawlError {
  const reason = reasonOf(error);
  return new PawlError("INTERNAL", `Pawl failed inside: ${reason}. Nothing was recorded.`, {
    cause: error,
  });
}

/** A request that must have its effect once, and how its answer is kept. */
export type Idempotency<Result> = {
  scope: string;
  key: string;
  bodyHash: string;
  /** The answer to keep; null when a repeat is to be decided anew. */
  respond: (accepted: RecordedDecision<Result>) => { status: number; answer: Json } | null;
};

/** A command that was recorded, now or, when `replayed` is there, by an earlier equal request. */
export type Submitted<Result> = RecordedDecision<Result> & { replayed: Answer | null };

/**
 * Decides a command; with an idempotency key, only when no equal request was decided before. The
 * answer is stored with the effect, so that it is there exactly when the effect is.
 */
export async function decideOnce<Result>(
  commit: Commit,
  decide: Decide<Result>,
  cause: DecisionCause,
  idempotency: Idempotency<Result> | undefined,
): Promise<Submitted<Result>> {
  if (idempotency === undefined) {
    return { ...(await commit.decide(decide, cause)), replayed: null };
  }
  const { scope, key, bodyHash } = idempotency;
  const known = await commit.answerTo(scope, key);
  if (known !== null) return replay(known, idempotency, commit);
  const accepted = await commit.decide(decide, cause);
  const answered = idempotency.respond(accepted);
  if (answered !== null) {
    commit.answers.set(`${scope}\u0000${key}`, {
      scope,
      key,
      body_hash: bodyHash,
      ...answered,
      stored_at: commit.now,
    });
  }
  return { ...accepted, replayed: null };
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

/** Runs a decision on a snapshot and records nothing; answers also the position it was read at. */
export async function evaluateDecision<Result>(
  store: Store,
  ws: WorkspaceId,
  tenant: Tenant,
  environment: Environment,
  decide: Decide<Result>,
  actor: Actor,
): Promise<{ result: Result; pos: number }> {
  const now = await store.now();
  const look = async (reader: Reader): Promise<{ result: Result; pos: number }> => {
    const { pos } = await reader.head();
    const set = new WorkingSet();
    const context: Context = {
      now,
      nextPos: pos + 1,
      hash: environment.hash,
      tenant,
      zoneDatabase: environment.zoneDatabase,
      principal: actor.principal,
      holder: holderOf(actor),
      room: DECISION_ROOM,
      random: () => environment.random(),
      newId: () => environment.newId(epochMsOf(now)),
    };
    for (;;) {
      try {
        return { result: decide(set.rows, context).result, pos };
      } catch (error) {
        if (!(error instanceof RowsMissing)) throw error;
        await loadMissing(set, reader, error);
      }
    }
  };
  return readInTurn(store, ws, look);
}

/** How new what is read must be, how long that may take, and what ends the wait. */
export type ReadOptions = {
  minPos?: number | undefined;
  timeoutMs?: number | undefined;
  signal?: (() => AbortSignal) | undefined;
};

/** Whoever waits for the ledger to reach a position, or wants to hear of every append. */
export class PosWaiters {
  readonly #listeners = new Set<(pos: number) => void>();
  readonly #giveUps = new Set<() => void>();

  /** Calls back after every append; answers a function that ends it. */
  listen(listener: (pos: number) => void): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  /** Whether the ledger reaches the position within the time, and before the signal aborts. */
  until(
    minPos: number,
    timeoutMs: number,
    environment: Environment,
    signal?: AbortSignal,
  ): Promise<boolean> {
    if (signal?.aborted === true) return Promise.resolve(false);
    return new Promise((resolve) => {
      const end = (reached: boolean): void => {
        cancel();
        stop();
        this.#giveUps.delete(giveUp);
        signal?.removeEventListener("abort", giveUp);
        resolve(reached);
      };
      const giveUp = (): void => end(false);
      const cancel = environment.timer(timeoutMs, giveUp);
      const stop = this.listen((pos) => {
        if (pos >= minPos) end(true);
      });
      this.#giveUps.add(giveUp);
      signal?.addEventListener("abort", giveUp, { once: true });
    });
  }

  /** Waits for the ledger to be at a position; `NOT_YET` when that does not come in time. */
  async reach(
    store: Store,
    ws: WorkspaceId,
    environment: Environment,
    { minPos, timeoutMs = 5_000, signal }: ReadOptions & { minPos: number },
  ): Promise<void> {
    const { pos } = await readInTurn(store, ws, (reader) => reader.head());
    if (pos >= minPos) return;
    const ended = signal?.();
    if (await this.until(minPos, timeoutMs, environment, ended)) return;
    if (ended?.aborted === true) throw stopping();
    throw new PawlError(
      "NOT_YET",
      `The ledger has not reached position ${minPos} within ${timeoutMs} ms; it was at ${pos}.`,
      { details: { min_pos: minPos, pos } },
    );
  }

  /** The ledger is at this position now. */
  reached(pos: number): void {
    for (const listener of this.#listeners) listener(pos);
  }

  /** Nobody need wait any longer. */
  close(): void {
    for (const giveUp of this.#giveUps) giveUp();
    this.#listeners.clear();
  }
}
