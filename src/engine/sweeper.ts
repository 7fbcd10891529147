import { expireLeases, expireUncovered } from "../controllers/expire-leases.ts";
import { addMs, type Instant } from "../core/instant.ts";
import { TABLES } from "../core/rows/tables.ts";
import type { Lease, Reader, Store, WorkspaceId } from "../store/store.ts";
import { type Commit, ENGINE_CAUSE } from "./commit.ts";
import type { Controllers } from "./controllers.ts";
import type { Environment } from "./environment.ts";

/** How often leases, deadlines and left-overs are looked at. */
const SWEEP_MS = 1_000;
/** How often running tasks are compared with the leases there are. */
const UNCOVERED_SWEEP_MS = 30_000;
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
  readonly #wake: () => void;
  #cancelTimer: (() => void) | null = null;
  #uncoveredDueAt: Instant | null = null;
  #stopped = false;
  /** A sweep is to join the next commit. */
  isDue = true;

  constructor(
    store: Store,
    ws: WorkspaceId,
    environment: Environment,
    controllers: Controllers,
    wake: () => void,
  ) {
    this.#store = store;
    this.#ws = ws;
    this.#environment = environment;
    this.#controllers = controllers;
    this.#wake = wake;
  }

  start(): void {
    this.#cancelTimer = this.#environment.timer(SWEEP_MS, () => {
      void this.#lookAround().finally(() => {
        if (!this.#stopped) this.start();
      });
    });
  }

  stop(): void {
    this.#stopped = true;
    this.#cancelTimer?.();
  }

  /** Everything is to be looked at with the next commit, whenever it was last. */
  force(): void {
    this.isDue = true;
    this.#uncoveredDueAt = null;
  }

  /** Takes back what no worker holds any more. */
  async sweep(commit: Commit): Promise<void> {
    this.isDue = false;
    const leases = await commit.leases(LEASES_SWEPT_MAX);
    const { result } = await commit.decide((rows, context) => {
      const expired = expireLeases(rows, leases, context);
      return { events: expired.events, result: expired };
    }, ENGINE_CAUSE);
    commit.leasesReleased.push(...result.ended);
    if (result.events.length > 0) this.isDue = true;
    const uncoveredDue = this.#uncoveredDueAt === null || this.#uncoveredDueAt <= commit.now;
    if (uncoveredDue && leases.length < LEASES_SWEPT_MAX)
      await this.#sweepUncovered(commit, leases);
    await this.#controllers.findDue(commit);
  }

  async #sweepUncovered(commit: Commit, leases: readonly Lease[]): Promise<void> {
    const { result: lost } = await commit.decide((rows, context) => {
      const events = expireUncovered(rows, leases, context);
      return { events, result: events.length };
    }, ENGINE_CAUSE);
    if (lost > 0) this.isDue = true;
    else this.#uncoveredDueAt = addMs(commit.now, UNCOVERED_SWEEP_MS);
  }

  async #lookAround(): Promise<void> {
    try {
      const now = await this.#store.now();
      if (!(await this.#store.read(this.#ws, (reader) => this.#isAnythingDue(reader, now)))) return;
      this.isDue = true;
      this.#wake();
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.#environment.warn("looking for due work failed", { reason });
    }
  }

  async #isAnythingDue(reader: Reader, now: Instant): Promise<boolean> {
    const leases = await reader.leases(LEASES_SWEPT_MAX);
    if (leases.some((lease) => isOverdue(lease, now))) return true;
    if (this.#uncoveredDueAt !== null && this.#uncoveredDueAt <= now) {
      const running = await reader.find({
        table: TABLES.runAssets,
        where: [{ cell: "running", is: ">", value: 0 }],
        order: [{ cell: "run_pos" }],
        limit: 1,
      });
      if (running.length > 0) return true;
    }
    return this.#controllers.isAnythingDue(reader, now);
  }
}

function isOverdue(lease: Lease, now: Instant): boolean {
  return lease.expires_at <= now || lease.tasks.some((task) => task.deadline_at <= now);
}
