import { advanceSync } from "../controllers/advance-sync.ts";
import type { Controller } from "../controllers/decision.ts";
import { planChunks } from "../controllers/plan-chunks.ts";
import { settleRun } from "../controllers/settle-run.ts";
import { needForTicks, tickSchedule } from "../controllers/tick-schedule.ts";
import type { Instant } from "../core/instant.ts";
import type { BackfillRow } from "../core/rows/backfill-rows.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { RunRow } from "../core/rows/run-rows.ts";
import type { ScheduleRow } from "../core/rows/schedule-rows.ts";
import type { Condition } from "../core/rows/table.ts";
import { TABLES } from "../core/rows/tables.ts";
import type { Reader } from "../store/store.ts";
import { type Commit, ENGINE_CAUSE } from "./commit.ts";
import { isStoreFailure, reasonOf } from "./commit-loop.ts";
import { DirtyShardWork } from "./dirty-shard-work.ts";
import { DirtySyncs } from "./dirty-syncs.ts";
import type { Environment } from "./environment.ts";

/** Most events that the controllers add to one commit; what is left stays dirty for the next. */
const EVENTS_ADDED_MAX = 2_000;
/** Most schedules that tick in one commit, so that the first need not wait for the last. */
const SCHEDULES_TICKED_MAX = 250;
/** Most syncs that are looked at in one commit: each look reads some of its segments. */
const SYNCS_ADVANCED_MAX = 200;
/** Most looks at one sync in a row: a plan, its runs, and that nothing is left. */
const SYNC_ROUNDS_MAX = 4;
/** Rows after which no further sync is looked at: one plan writes hundreds. */
const ROWS_ADDED_MAX = 700;
/** Most entities that a sweep marks at once. */
const SWEPT_MAX = 10_000;

/** How the names of syncs begin among those of entities. */
const SYNC_PREFIX = "sync ";

const ACTIVE_BACKFILLS: Condition[] = [
  { cell: "state", is: "in", values: ["PENDING", "RUNNING", "PAUSED", "CANCELLING"] },
];
const ACTIVE_RUNS: Condition[] = [{ cell: "state", is: "in", values: ["PENDING", "RUNNING"] }];

function cancelDue(now: Instant): Condition[] {
  return [...ACTIVE_RUNS, { cell: "cancel_deadline_at", is: "<=", value: now }];
}

function schedulesDue(now: Instant): Condition[] {
  return [{ cell: "due_at", is: "<=", value: now }];
}

/**
 * Which entities the controllers have to look at. What a commit changed is dirty; so is everything
 * unfinished after a start. Level-triggered: looking once too often changes nothing.
 */
export class Controllers {
  readonly #backfills = new Set<string>();
  readonly #runs = new Set<number>();
  readonly #schedules = new Set<string>();
  readonly #syncs = new DirtySyncs();
  readonly #shardWork = new DirtyShardWork();
  readonly #poisoned = new Map<string, string>();
  #sweep = false;
  #nextRetryAt: Instant | null = null;
  #nextTickAt: Instant | null = null;
  #areTicksMoved = true;

  hasDirty(): boolean {
    return this.#sweep || this.#dirty > 0;
  }

  get #dirty(): number {
    const ofShards = this.#shardWork.size;
    return (
      this.#backfills.size + this.#runs.size + this.#schedules.size + this.#syncs.size + ofShards
    );
  }

  /** Everything unfinished is to be looked at. */
  sweepAll(): void {
    this.#sweep = true;
  }

  /** A commit failed: what was taken for looked at in it was not. */
  lost(): void {
    this.#syncs.isSwept = false;
    this.#sweep = true;
  }

  poisoned(): Record<string, string> {
    return Object.fromEntries(this.#poisoned);
  }

  /** The next time at which a task may be tried again, as of the last commit. */
  nextRetryAt(): Instant | null {
    return this.#nextRetryAt;
  }

  /** The next time at which a schedule or a split is due, as of the last commit. */
  nextTickAt(): Instant | null {
    const { dueAt } = this.#shardWork;
    if (this.#nextTickAt === null || dueAt === null) return this.#nextTickAt ?? dueAt;
    return this.#nextTickAt < dueAt ? this.#nextTickAt : dueAt;
  }

  /** Whether a due time has passed, looked up without the lock. */
  async isAnythingDue(reader: Reader, now: Instant): Promise<boolean> {
    const runs = await reader.find({
      table: TABLES.runs,
      where: cancelDue(now),
      order: [{ cell: "run_pos" }],
      limit: 1,
    });
    if (runs.length > 0) return true;
    if (await this.#shardWork.isAnythingDue(reader, now)) return true;
    const where = schedulesDue(now);
    const order = [{ cell: "due_at" }];
    return (await reader.find({ table: TABLES.schedules, where, order, limit: 1 })).length > 0;
  }

  /** Whether there is a backfill, a sync, a move or a split that is not finished, looked up without the lock. */
  async hasUnfinished(reader: Reader): Promise<boolean> {
    if (this.#poisoned.size > 0) return true;
    const backfills = await reader.find({
      table: TABLES.backfills,
      where: ACTIVE_BACKFILLS,
      order: [{ cell: "created_pos" }],
      limit: 1,
    });
    if (backfills.length > 0) return true;
    if (await this.#shardWork.hasUnfinished(reader)) return true;
    return this.#syncs.hasUnfinished(reader);
  }

  /** Marks what has fallen due. */
  async findDue(commit: Commit): Promise<void> {
    const { result } = await commit.decide(
      (rows, { now }) => ({
        events: [],
        result: {
          runs: rows.runs.find(cancelDue(now), [{ cell: "run_pos" }], SWEPT_MAX),
          schedules: rows.schedules.find(schedulesDue(now), [{ cell: "due_at" }], SWEPT_MAX),
        },
      }),
      ENGINE_CAUSE,
    );
    for (const run of result.runs) this.#runs.add(run.run_pos);
    for (const { schedule_id } of result.schedules) this.#schedules.add(schedule_id);
    await this.#shardWork.markDue(commit);
  }

  /** Lets the controllers add what follows from the rows, until they settle or the bound is reached. */
  async run(commit: Commit, environment: Environment): Promise<void> {
    const isSweep = this.#sweep;
    if (isSweep) await this.#markUnfinished(commit);
    const start = commit.events.length;
    this.#markTouched(commit);
    const rowsBefore = commit.rowsWritten;
    while (this.#dirty > 0) {
      for (const runPos of this.#runs) {
        this.#runs.delete(runPos);
        await this.#control(
          commit,
          `run ${runPos}`,
          environment,
          (rows) => rows.runs.get(runPos),
          settleRun,
        );
      }
      this.#markTouched(commit);
      for (const id of this.#backfills) {
        this.#backfills.delete(id);
        await this.#control(
          commit,
          `backfill ${id}`,
          environment,
          (rows) => rows.backfills.get(id),
          planChunks,
        );
        if (commit.events.length - start > EVENTS_ADDED_MAX) break;
      }
      this.#markTouched(commit);
      const isMoreDue = await this.#tick(commit, environment);
      this.#markTouched(commit);
      await this.#shardWork.advance(
        (name, rowOf, controller) => this.#control(commit, name, environment, rowOf, controller),
        () => commit.events.length - start > EVENTS_ADDED_MAX,
      );
      this.#markTouched(commit);
      const isMoreDirty = await this.#advance(commit, environment, start, rowsBefore);
      this.#markTouched(commit);
      if (isMoreDue || isMoreDirty || commit.events.length - start > EVENTS_ADDED_MAX) break;
    }
    // A commit about none of these leaves the retries as they were.
    const mayHaveChanged =
      isSweep ||
      this.#nextRetryAt !== null ||
      commit.events.some(({ type }) => type === "TasksFinished" || type === "TaskLeaseExpired");
    if (mayHaveChanged) await this.#findNextRetry(commit);
    // One that has passed was decided by another server, of which nothing is heard here.
    const isPast = this.#nextTickAt !== null && this.#nextTickAt <= commit.now;
    if (isSweep || isPast || this.#areTicksMoved) await this.#findNextTick(commit);
    await this.#shardWork.findDue(commit);
  }

  /** Lets the schedules tick that are due, so many at once; answers whether more are. */
  async #tick(commit: Commit, environment: Environment): Promise<boolean> {
    const ids = [...this.#schedules].slice(0, SCHEDULES_TICKED_MAX);
    if (ids.length > 1) {
      const need = (rows: Rows) => ({ events: [], result: needForTicks(rows, ids) });
      await commit.decide(need, ENGINE_CAUSE);
    }
    for (const id of ids) {
      this.#schedules.delete(id);
      const rowOf = (rows: Rows) => rows.schedules.get(id);
      await this.#control(commit, `schedule ${id}`, environment, rowOf, tickSchedule);
    }
    return this.#schedules.size > 0;
  }

  /** Lets syncs go on, so many at once; answers whether there are more. */
  async #advance(
    commit: Commit,
    environment: Environment,
    eventsBefore: number,
    rowsBefore: number,
  ): Promise<boolean> {
    if (this.#syncs.size === 0) return false;
    const ids = await this.#syncs.take(commit, SYNCS_ADVANCED_MAX);
    for (const [index, id] of ids.entries()) {
      const isFull =
        commit.rowsWritten - rowsBefore > ROWS_ADDED_MAX ||
        commit.events.length - eventsBefore > EVENTS_ADDED_MAX;
      if (isFull) {
        this.#syncs.putBack(ids.slice(index));
        return true;
      }
      await this.#settle(commit, environment, id);
    }
    return this.#syncs.size > 0;
  }

  /** Lets one sync go on until it has nothing to add: what is planned is also asked for. */
  async #settle(commit: Commit, environment: Environment, id: string): Promise<void> {
    const rowOf = (rows: Rows) => rows.syncs.get(id);
    for (let round = 0; round < SYNC_ROUNDS_MAX; round++) {
      const name = `${SYNC_PREFIX}${id}`;
      const added = await this.#control(commit, name, environment, rowOf, advanceSync);
      if (added > 0) continue;
      // Whatever changes it from here on makes it dirty again.
      commit.touchedSyncs.delete(id);
      return;
    }
  }

  /** Answers how many events the controller added. */
  async #control<Row>(
    commit: Commit,
    name: string,
    environment: Environment,
    rowOf: (rows: Rows) => Row | null,
    controller: Controller<Row>,
  ): Promise<number> {
    try {
      const { event_ids } = await commit.decide((rows, context) => {
        const row = rowOf(rows);
        return { events: row === null ? [] : controller(rows, row, context), result: null };
      }, ENGINE_CAUSE);
      this.#poisoned.delete(name);
      return event_ids.length;
    } catch (error) {
      // A bug about one entity must not stop the others: it is shown, and tried again after a sweep.
      if (isStoreFailure(error)) throw error;
      const reason = reasonOf(error);
      this.#poisoned.set(name, reason);
      environment.warn("a controller failed", { entity: name, reason });
      return 0;
    }
  }

  #markTouched(commit: Commit): void {
    for (const row of commit.touchedRuns.values()) {
      const run = row as RunRow;
      const open = run.tasks_waiting + run.tasks_ready + run.tasks_running + run.tasks_retry_wait;
      if (run.finished_at === null && open === 0) this.#runs.add(run.run_pos);
    }
    commit.touchedRuns.clear();
    for (const row of commit.touchedBackfills.values()) {
      const backfill = row as BackfillRow;
      if (backfill.finished_at === null) this.#backfills.add(backfill.backfill_id);
      else for (const follower of backfill.followers) this.#backfills.add(follower);
    }
    commit.touchedBackfills.clear();
    for (const row of commit.touchedSchedules.values()) {
      const { schedule_id, due_at } = row as ScheduleRow;
      if (due_at !== null && due_at <= commit.now) this.#schedules.add(schedule_id);
      this.#areTicksMoved = true;
    }
    commit.touchedSchedules.clear();
    this.#syncs.noteTouched(commit);
    this.#shardWork.noteTouched(commit);
  }

  async #markUnfinished(commit: Commit): Promise<void> {
    const { result } = await commit.decide(
      (rows) => ({
        events: [],
        result: {
          backfills: rows.backfills.find(ACTIVE_BACKFILLS, [{ cell: "created_pos" }], SWEPT_MAX),
          runs: rows.runs.find(
            [
              ...ACTIVE_RUNS,
              { cell: "tasks_ready", is: "=", value: 0 },
              { cell: "tasks_running", is: "=", value: 0 },
            ],
            [{ cell: "run_pos" }],
            SWEPT_MAX,
          ),
        },
      }),
      ENGINE_CAUSE,
    );
    for (const { backfill_id } of result.backfills) this.#backfills.add(backfill_id);
    for (const { run_pos } of result.runs) this.#runs.add(run_pos);
    await this.#shardWork.sweep(commit);
    await this.#syncs.sweep(commit);
    const poisoned = [...this.#poisoned.keys()].filter((name) => name.startsWith(SYNC_PREFIX));
    this.#syncs.putBack(poisoned.map((name) => name.slice(SYNC_PREFIX.length)));
    this.#sweep = false;
  }

  async #findNextTick(commit: Commit): Promise<void> {
    const { result } = await commit.decide(
      (rows, { now }) => ({
        events: [],
        // What is due already is dirty, or was found wanting and is looked at again by a sweep.
        result: rows.schedules.find(
          [{ cell: "due_at", is: ">", value: now }],
          [{ cell: "due_at" }],
          1,
        )[0],
      }),
      ENGINE_CAUSE,
    );
    this.#nextTickAt = result?.due_at ?? null;
    this.#areTicksMoved = false;
  }

  async #findNextRetry(commit: Commit): Promise<void> {
    const { result } = await commit.decide(
      (rows, { now }) => ({
        events: [],
        // What is due already and was not taken waits for a slot or a worker, not for the time.
        result: rows.tasks.find(
          [
            { cell: "state", is: "=", value: "RETRY_WAIT" },
            { cell: "retry_at", is: ">", value: now },
          ],
          [{ cell: "retry_at" }],
          1,
        )[0],
      }),
      ENGINE_CAUSE,
    );
    this.#nextRetryAt = result?.retry_at ?? null;
  }
}
