import { PawlError } from "../core/errors.ts";
import { FOLD_VERSION } from "../core/fold/fold.ts";
import type { Tenant } from "../core/keys.ts";
import { WorkingSet } from "../core/rows/working-set.ts";
import { damageRefusal } from "../store/ledger-head.ts";
import type { Store, WorkspaceId } from "../store/store.ts";
import { Commit } from "./commit.ts";
import type { Environment } from "./environment.ts";

/** Most jobs in one commit: a commit is bounded by its work, not by the number of callers. */
const JOBS_MAX = 256;
/** Most events in one commit; what is left of the jobs joins the next. */
export const COMMIT_EVENTS_MAX = 5_000;
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

type Job = {
  isReport: boolean;
  run(commit: Commit): Promise<void>;
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
  #jobs: Job[] = [];
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
    return this.#jobs.length;
  }

  /** Runs `job` in the next commit; resolves when it is durable, rejects with its refusal. */
  enqueue<Result>(isReport: boolean, job: (commit: Commit) => Promise<Result>): Promise<Result> {
    if (this.#closed) return Promise.reject(stopping());
    return new Promise<Result>((resolve, reject) => {
      let outcome: { value: Result } | null = null;
      this.#jobs.push({
        isReport,
        run: async (commit) => {
          outcome = { value: await job(commit) };
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
    this.#environment.defer(() => void this.#loop());
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
    return this.#jobs.length > 0 || (!this.#closed && this.#stages.hasWork());
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
    if (this.#closed && this.#jobs.length > 0) return;
    for (const resolve of this.#idle.splice(0)) resolve();
  }

  /** One commit of everything that waits, up to a bound; answers whether the store failed. */
  async #commitOnce(): Promise<boolean> {
    const taken = this.#jobs.splice(0, JOBS_MAX);
    const waiting = [
      ...taken.filter((job) => job.isReport),
      ...taken.filter((job) => !job.isReport),
    ];
    const jobs: Job[] = [];
    const afterwards: Afterwards = [];
    try {
      const pos = await this.#store.transact(this.#ws, async (transaction) => {
        refuseOtherFold(transaction.start.fold_version);
        if (transaction.start.damage !== null) throw damageRefusal(transaction.start.damage);
        // Somebody else wrote since: what is in memory may be old.
        if (transaction.start.pos !== this.headPos) this.#set.forget();
        this.#set.forgetAnswers();
        const commit = new Commit(this.#set, transaction, this.#tenant, this.#environment);
        for (let job = waiting.shift(); job !== undefined; job = waiting.shift()) {
          jobs.push(job);
          await this.#runJob(commit, job, afterwards);
          if (commit.events.length >= COMMIT_EVENTS_MAX) break;
        }
        await this.#stages.run(commit, afterwards);
        await commit.flush();
        this.ownPos = commit.pos;
        return commit.pos;
      });
      this.#set.committed();
      this.headPos = pos;
      this.commits += 1;
      this.lastError = null;
      for (const call of afterwards) call();
      return false;
    } catch (error) {
      // Where nothing can be committed for long, nobody is kept waiting for it.
      this.#failed(error, isRefusal(error) ? [...jobs, ...waiting.splice(0)] : jobs);
      return true;
    } finally {
      this.#jobs.unshift(...waiting);
    }
  }

  async #runJob(commit: Commit, job: Job, afterwards: Afterwards): Promise<void> {
    try {
      await job.run(commit);
      afterwards.push(() => job.succeed());
    } catch (error) {
      if (isStoreFailure(error)) throw error;
      if (error instanceof PawlError) afterwards.push(() => job.fail(error));
      else {
        this.#environment.warn("a decision failed", { reason: reasonOf(error) });
        afterwards.push(() => job.fail(internal(error)));
      }
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
    // A damaged ledger stays so until a person decides: it is said once.
    if (failure.message !== this.lastError || failure.code !== "LEDGER_CORRUPT") {
      this.#environment.warn("a commit failed", { code: failure.code, reason: failure.message });
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
