import { askingAs } from "./asking.ts";
import { type AssetPlace, expireLeases, expireUncovered } from "../work/run/expire-leases.ts";
import { addMs, type Instant, msBetween } from "../kernel/instant.ts";
import type { Context } from "../work/decision.ts";
import type { NewEvent } from "../work/events.ts";
import type { Rows } from "../work/rows.ts";
import { keyText } from "../kernel/table.ts";
import { TABLES } from "../work/tables.ts";
import { loadTasks } from "../work/run/task-blocks.ts";
import type { Lease, Reader, Store, WorkspaceId } from "../store/store.ts";
import { type Commit, ENGINE_CAUSE, STAGE_PARTS } from "./commit.ts";
import { isStoreFailure, reasonOf } from "./commit-loop.ts";
import type { Controllers } from "./controllers.ts";
import type { Environment } from "./config.ts";
import type { LogBudget } from "./budgets.ts";

/** How often leases, deadlines and left-overs are looked at. */
const SWEEP_MS = 1_000;
/**
 * How often running tasks are compared with the leases there are, and everything unfinished is looked
 * at again: another server may have died with something left to do.
 */
const FULL_SWEEP_MS = 30_000;
/** How often stored answers that nobody will ask for again are forgotten, and how old they are then. */
const PRUNE_MS = 3_600_000;
const ANSWERS_KEPT_MS = 8 * 24 * 3_600_000;
/** Most leases that one sweep looks at, those that end soonest first. */
const LEASES_SWEPT_MAX = 10_000;

/**
 * Finds what time alone makes due: leases that ran out, tasks that no lease covers, cancelled runs
 * past their grace. Looks without the lock, and asks for a commit only when there is something.
 */
export class Sweeper {
  readonly #store: Store;
  readonly #ws: WorkspaceId;
  readonly #environment: Environment;
  readonly #controllers: Controllers;
  readonly #logs: LogBudget;
  readonly #wake: () => void;
  #cancelTimer: (() => void) | null = null;
  #fullDueMs: number | null = null;
  /** From where the search for tasks that no lease covers goes on; null while there is none. */
  #search: { after: AssetPlace | null } | null = null;
  #pruneDueAt: Instant | null = null;
  /** When it was last looked around; null before the first time. */
  #lookedAt: Instant | null = null;
  /** Until when nothing falls due while the ledger ends at a position; null for ever. */
  #quiet: { pos: number; until: Instant | null } | null = null;
  /** Where the ledger ended when no task was running. */
  #noneRunningPos: number | null = null;
  #looking: Promise<void> = Promise.resolve();
  #stopped = false;
  /** A sweep is to join the next commit. */
  isDue = true;

  constructor(
    store: Store,
    ws: WorkspaceId,
    environment: Environment,
    controllers: Controllers,
    logs: LogBudget,
    wake: () => void,
  ) {
    this.#store = store;
    this.#ws = ws;
    this.#environment = environment;
    this.#controllers = controllers;
    this.#logs = logs;
    this.#wake = wake;
  }

  start(): void {
    this.#cancelTimer = this.#environment.timer(SWEEP_MS, () => {
      this.#looking = this.#lookAround().finally(() => {
        if (!this.#stopped) this.start();
      });
    });
  }

  /** Ends it after the look under way: nobody reads from a store that is closed then. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelTimer?.();
    await this.#looking;
  }

  /** Everything is to be looked at with the next commit, whenever it was last. */
  force(): void {
    this.isDue = true;
    this.#fullDueMs = null;
  }

  /** Takes back what no worker holds any more; answers who was not heard of in time. */
  async sweep(commit: Commit): Promise<ReadonlySet<string>> {
    this.isDue = false;
    const leases = await commit.leases(LEASES_SWEPT_MAX);
    const overdue = leases.filter((lease) => isOverdue(lease, commit.now));
    const part = commit.part(STAGE_PARTS.sweep);
    const taken = await this.#expire(commit, overdue);
    // One lease that cannot be ended must not keep the others.
    for (const lease of taken === null ? overdue : []) {
      if (part.isFull()) break;
      await this.#expire(commit, [lease]);
    }
    const elapsedMs = this.#environment.elapsedMs();
    const fullDue = this.#fullDueMs === null || this.#fullDueMs <= elapsedMs;
    if (fullDue && leases.length < LEASES_SWEPT_MAX) {
      this.#fullDueMs = elapsedMs + FULL_SWEEP_MS;
      this.#controllers.sweepAll();
      this.#search = { after: null };
    }
    if (this.#search !== null) await this.#expireUncovered(commit, leases, this.#search.after);
    if (await this.#controllers.findDue(commit)) this.isDue = true;
    const silent = overdue.filter(({ expires_at }) => expires_at <= commit.now);
    return new Set(silent.map(({ worker_id }) => worker_id));
  }

  /** Takes back tasks that no lease covers, as many as one commit has room for. */
  async #expireUncovered(
    commit: Commit,
    leases: readonly Lease[],
    after: AssetPlace | null,
  ): Promise<void> {
    this.#search = null;
    // Who has so many leases that not all were read cannot say what none covers.
    if (leases.length >= LEASES_SWEPT_MAX) return;
    let next: AssetPlace | null = null;
    await this.#decide(commit, (rows, context) => {
      const found = expireUncovered(rows, leases, after, context);
      next = found.next;
      return found.events;
    });
    if (next === null) return;
    this.#search = { after: next };
    this.isDue = true;
  }

  async #expire(commit: Commit, leases: readonly Lease[]): Promise<number | null> {
    let ended: string[] = [];
    const taken = await this.#decide(commit, (rows, context) => {
      const expired = expireLeases(rows, leases, context);
      ended = expired.ended;
      return expired.events;
    });
    if (taken !== null) commit.leasesReleased.push(...ended);
    return taken;
  }

  /** How many events the decision recorded; null when it failed, which is shown and harms no other. */
  async #decide(
    commit: Commit,
    decide: (rows: Rows, context: Context) => NewEvent[],
  ): Promise<number | null> {
    try {
      const { result } = await commit.decide((rows, context) => {
        const events = decide(rows, context);
        return { events, result: events.length };
      }, ENGINE_CAUSE);
      if (result > 0) this.isDue = true;
      return result;
    } catch (error) {
      if (isStoreFailure(error)) throw error;
      this.#environment.warn("a sweep failed", { reason: reasonOf(error) });
      return null;
    }
  }

  async #lookAround(): Promise<void> {
    try {
      const now = await this.#store.now();
      await this.#forget(now);
      const isDue = await this.#store.read(this.#ws, (reader) => this.#isAnythingDue(reader, now));
      this.#lookedAt = now;
      if (!isDue) return;
      this.isDue = true;
      this.#wake();
    } catch (error) {
      this.#environment.warn("looking for due work failed", { reason: reasonOf(error) });
    }
  }

  /** Forgets what is old; that it cannot is no reason not to look for work. */
  async #forget(now: Instant): Promise<void> {
    try {
      await this.#prune(now);
      await this.#logs.step(now);
    } catch (error) {
      this.#environment.warn("dropping what is old failed", { reason: reasonOf(error) });
    }
  }

  async #prune(now: Instant): Promise<void> {
    if (this.#pruneDueAt !== null && this.#pruneDueAt > now) return;
    this.#pruneDueAt = addMs(now, PRUNE_MS);
    await this.#store.pruneAnswers(this.#ws, addMs(now, -ANSWERS_KEPT_MS));
  }

  /** The next retry since the last look, due or not; its timer may have died with another server. */
  async #nextRetryAt(reader: Reader): Promise<Instant | null> {
    const since = this.#lookedAt;
    const [task] = await reader.find({
      table: TABLES.taskRetries,
      where: since === null ? [] : [{ cell: "retry_at", is: ">", value: since }],
      order: [{ cell: "retry_at" }],
      limit: 1,
    });
    return task?.retry_at ?? null;
  }

  async #isAnythingDue(reader: Reader, now: Instant): Promise<boolean> {
    const { pos } = await reader.head();
    if (!this.#isQuiet(pos, now) && (await this.#hasFallenDue(reader, pos, now))) return true;
    if (this.#fullDueMs === null || this.#fullDueMs > this.#environment.elapsedMs()) return false;
    if (this.#noneRunningPos !== pos) {
      const running = await reader.find({
        table: TABLES.runAssets,
        where: [{ cell: "running", is: ">", value: 0 }],
        order: [{ cell: "run_pos" }],
        limit: 1,
      });
      if (running.length > 0) return true;
      this.#noneRunningPos = pos;
    }
    return this.#controllers.hasUnfinished(reader, pos);
  }

  /** Rows are the same while the ledger is, and leases are only renewed: so are the next due times. */
  #isQuiet(pos: number, now: Instant): boolean {
    if (this.#quiet?.pos !== pos) return false;
    return this.#quiet.until === null || now < this.#quiet.until;
  }

  /** Whether a due time has passed; if not, notes when the next one will. */
  async #hasFallenDue(reader: Reader, pos: number, now: Instant): Promise<boolean> {
    this.#quiet = null;
    const leases = await reader.leases(LEASES_SWEPT_MAX);
    if (leases.some((lease) => lease.expires_at <= now)) return true;
    if (await hasOverdueTask(reader, leases, now)) return true;
    const times = [await this.#nextRetryAt(reader), ...(await this.#controllers.dueTimes(reader))];
    if (times.some((at) => at !== null && at <= now)) return true;
    // Of more leases than are read, others may come first once these are renewed.
    if (leases.length >= LEASES_SWEPT_MAX) return false;
    for (const { expires_at, tasks } of leases) {
      // A task beyond its time that was not running is not again: its attempt has ended.
      const deadlines = tasks.map((task) => task.deadline_at).filter((at) => at > now);
      times.push(expires_at, ...deadlines);
    }
    const until = times.reduce((a, b) => (a === null || (b !== null && b < a) ? b : a), null);
    this.#quiet = { pos, until };
    return false;
  }
}

/** Whether a task that is still running is beyond its time; most of a lease's tasks have ended. */
async function hasOverdueTask(
  reader: Reader,
  leases: readonly Lease[],
  now: Instant,
): Promise<boolean> {
  const overdue = leases.flatMap(({ tasks }) => tasks.filter((task) => task.deadline_at <= now));
  if (overdue.length === 0) return false;
  const attempts = new Map(overdue.map((task) => [keyText([task.run_pos, task.task_key]), task]));
  const rows = await loadTasks(reader, overdue);
  return rows.some(
    (row) =>
      row.state === "RUNNING" &&
      attempts.get(keyText([row.run_pos, row.task_key]))?.attempt === row.attempt,
  );
}

function isOverdue(lease: Lease, now: Instant): boolean {
  return lease.expires_at <= now || lease.tasks.some((task) => task.deadline_at <= now);
}

/** Longest time that a timer can be set for. */
const TIMER_MS_MAX = 2 ** 30;

/** Calls back at a due time, which every commit may move. */
export class DueTimer {
  readonly #environment: Environment;
  readonly #callback: () => void;
  #cancel: (() => void) | null = null;

  constructor(environment: Environment, callback: () => void) {
    this.#environment = environment;
    this.#callback = callback;
  }

  /**
   * Waits for this time instead of any earlier one; for nothing when it is null. It was `now` when the
   * commit began, which may be some time ago.
   */
  set({ now, startedMs }: Pick<Commit, "now" | "startedMs">, at: Instant | null): void {
    this.cancel();
    if (at === null) return;
    const passedMs = this.#environment.elapsedMs() - startedMs;
    const ms = Math.min(Math.max(1, Math.ceil(msBetween(now, at) - passedMs)), TIMER_MS_MAX);
    this.#cancel = this.#environment.timer(ms, this.#callback);
  }

  cancel(): void {
    this.#cancel?.();
    this.#cancel = null;
  }
}

/** The pause after a step that failed. */
const RETRY_MS = 1_000;

/**
 * Makes one step at a time: several wishes for one are one, a wish during a step leads to another
 * after it, and a step that failed is made again in a moment.
 */
export class SerialLoop {
  readonly #environment: Environment;
  readonly #step: () => Promise<void>;
  readonly #failed: (reason: string) => void;
  #running: Promise<void> | null = null;
  #isDue = false;
  #stopped = false;
  #cancelTimer: (() => void) | null = null;

  constructor(
    environment: Environment,
    step: () => Promise<void>,
    failed: (reason: string) => void,
  ) {
    this.#environment = environment;
    this.#step = step;
    this.#failed = failed;
  }

  /** Asks for a step. */
  ask(): void {
    this.#isDue = true;
    if (this.#running === null && !this.#stopped) this.#hold(this.#run());
  }

  /** Asks for a step after so many milliseconds, in the place of any that was to come later. */
  askAfter(ms: number): void {
    this.#cancelTimer?.();
    this.#cancelTimer = this.#environment.timer(ms, () => this.ask());
  }

  /** Makes steps until none is asked for any more; throws what one throws. */
  async makeAll(): Promise<void> {
    await this.#running;
    const made = this.#makeAll();
    this.#hold(made.catch(() => undefined));
    await made;
  }

  /** Ends it after the step under way. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelTimer?.();
    await this.#running;
  }

  /** Nothing else is begun until this has ended. */
  #hold(steps: Promise<void>): void {
    this.#running = steps.finally(() => {
      this.#running = null;
      // Somebody may have asked just when the last step had ended.
      if (this.#isDue) this.ask();
    });
  }

  async #makeAll(): Promise<void> {
    do {
      this.#isDue = false;
      // Whoever asked for it: it is done for all, and reads in nobody's name.
      await askingAs(null, this.#step);
    } while (this.#isDue && !this.#stopped);
  }

  async #run(): Promise<void> {
    while (this.#isDue && !this.#stopped) {
      this.#isDue = false;
      try {
        // Whoever asked for it: it is done for all, and reads in nobody's name.
        await askingAs(null, this.#step);
      } catch (error) {
        if (this.#stopped) return;
        this.#failed(reasonOf(error));
        this.askAfter(RETRY_MS);
      }
    }
  }
}
