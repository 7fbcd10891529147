import { advanceSync } from "../work/sync/advance.ts";
import type { Controller } from "../work/decision.ts";
import { planChunks } from "../work/backfill/advance.ts";
import { settleRun } from "../work/run/settle.ts";
import { needForTicks, tickSchedule } from "../work/schedule/tick.ts";
import type { Instant } from "../kernel/instant.ts";
import type { Rows } from "../work/rows.ts";
import type { Condition } from "../kernel/table.ts";
import { TABLES } from "../work/tables.ts";
import type { Reader } from "../store/store.ts";
import { type Commit, ENGINE_CAUSE, STAGE_PARTS } from "./commit.ts";
import { isStoreFailure, reasonOf } from "./commit-loop.ts";
import { type Control, DirtyShardWork, DirtySyncs } from "./dirty.ts";
import type { Environment } from "./config.ts";

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
/** Most runs that one look-up brings: the row of a run holds all keys of its partitions. */
const RUNS_SWEPT_MAX = 100;

/** The part of a commit that all controllers together may fill. */
const CONTROLLERS_PART =
  STAGE_PARTS.runs +
  STAGE_PARTS.backfills +
  STAGE_PARTS.schedules +
  STAGE_PARTS.shardWork +
  STAGE_PARTS.syncs;

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
  /** Runs up to here were marked by the sweep that goes on; null while there is none. */
  #runsSweptTo: number | null = null;
  #nextRetryAt: Instant | null = null;
  #nextTickAt: Instant | null = null;
  #areTicksMoved = true;

  hasDirty(): boolean {
    return this.#sweep || this.#runsSweptTo !== null || this.#dirty > 0;
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
    this.#runsSweptTo = null;
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

  /** Marks what has fallen due; answers whether there may be more. */
  async findDue(commit: Commit): Promise<boolean> {
    const { result } = await commit.decide(
      (rows, { now }) => ({
        events: [],
        result: {
          runs: rows.runs.find(cancelDue(now), [{ cell: "run_pos" }], RUNS_SWEPT_MAX),
          schedules: rows.schedules.find(schedulesDue(now), [{ cell: "due_at" }], SWEPT_MAX),
        },
      }),
      ENGINE_CAUSE,
    );
    for (const run of result.runs) this.#runs.add(run.run_pos);
    for (const { schedule_id } of result.schedules) this.#schedules.add(schedule_id);
    await this.#shardWork.markDue(commit);
    return result.runs.length === RUNS_SWEPT_MAX;
  }

  /**
   * Lets the controllers add what follows from the rows, until they settle or one of them has filled
   * its part of the commit: what is left stays dirty for the next.
   */
  async run(commit: Commit, environment: Environment): Promise<void> {
    const isSweep = this.#sweep;
    if (isSweep) await this.#markUnfinished(commit);
    if (this.#runsSweptTo !== null) await this.#markUnfinishedRuns(commit, this.#runsSweptTo);
    this.#markTouched(commit);
    const whole = commit.part(CONTROLLERS_PART);
    while (this.#dirty > 0 && !whole.isFull()) {
      const isFull = await this.#pass(commit, environment);
      if (isFull) break;
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

  /** Asks every controller about what is dirty; answers whether one of them left something. */
  async #pass(commit: Commit, environment: Environment): Promise<boolean> {
    const control: Control = (name, rowOf, controller) =>
      this.#control(commit, name, environment, rowOf, controller);
    const runs = commit.part(STAGE_PARTS.runs);
    for (const runPos of this.#runs) {
      this.#runs.delete(runPos);
      await control(`run ${runPos}`, (rows) => rows.runs.get(runPos), settleRun);
      if (runs.isFull()) break;
    }
    let isFull = runs.isFull();
    this.#markTouched(commit);
    const backfills = commit.part(STAGE_PARTS.backfills);
    for (const id of this.#backfills) {
      this.#backfills.delete(id);
      const added = await control(`backfill ${id}`, (rows) => rows.backfills.get(id), planChunks);
      // There may be more than one decision had room for, also where it changed only its runs.
      if (added > 0) this.#backfills.add(id);
      if (backfills.isFull()) break;
    }
    isFull ||= backfills.isFull();
    this.#markTouched(commit);
    isFull = (await this.#tick(commit, control)) || isFull;
    this.#markTouched(commit);
    const shardWork = commit.part(STAGE_PARTS.shardWork);
    await this.#shardWork.advance(control, () => shardWork.isFull());
    isFull ||= shardWork.isFull();
    this.#markTouched(commit);
    isFull = (await this.#advance(commit, control)) || isFull;
    this.#markTouched(commit);
    return isFull;
  }

  /** Lets the schedules tick that are due, so many at once; answers whether more are. */
  async #tick(commit: Commit, control: Control): Promise<boolean> {
    const ids = [...this.#schedules].slice(0, SCHEDULES_TICKED_MAX);
    if (ids.length > 1) {
      const need = (rows: Rows) => ({ events: [], result: needForTicks(rows, ids) });
      await commit.decide(need, ENGINE_CAUSE);
    }
    const part = commit.part(STAGE_PARTS.schedules);
    for (const id of ids) {
      this.#schedules.delete(id);
      await control(`schedule ${id}`, (rows) => rows.schedules.get(id), tickSchedule);
      if (part.isFull()) break;
    }
    return this.#schedules.size > 0;
  }

  /** Lets syncs go on, so many at once; answers whether there are more. */
  async #advance(commit: Commit, control: Control): Promise<boolean> {
    if (this.#syncs.size === 0) return false;
    const ids = await this.#syncs.take(commit, SYNCS_ADVANCED_MAX);
    const part = commit.part(STAGE_PARTS.syncs);
    const rowsBefore = commit.rowsWritten;
    for (const [index, id] of ids.entries()) {
      if (commit.rowsWritten - rowsBefore > ROWS_ADDED_MAX || part.isFull()) {
        this.#syncs.putBack(ids.slice(index));
        return true;
      }
      await this.#settle(commit, control, id);
    }
    return this.#syncs.size > 0;
  }

  /** Lets one sync go on until it has nothing to add: what is planned is also asked for. */
  async #settle(commit: Commit, control: Control, id: string): Promise<void> {
    const rowOf = (rows: Rows) => rows.syncs.get(id);
    for (let round = 0; round < SYNC_ROUNDS_MAX; round++) {
      const added = await control(`${SYNC_PREFIX}${id}`, rowOf, advanceSync);
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
    for (const run of commit.touchedRuns.values()) {
      const open = run.tasks_waiting + run.tasks_ready + run.tasks_running + run.tasks_retry_wait;
      const isOverdue = run.cancel_deadline_at !== null && run.cancel_deadline_at <= commit.now;
      if (run.finished_at === null && (open === 0 || isOverdue)) this.#runs.add(run.run_pos);
    }
    commit.touchedRuns.clear();
    for (const backfill of commit.touchedBackfills.values()) {
      if (backfill.finished_at === null) this.#backfills.add(backfill.backfill_id);
      else for (const follower of backfill.followers) this.#backfills.add(follower);
    }
    commit.touchedBackfills.clear();
    for (const { schedule_id, due_at } of commit.touchedSchedules.values()) {
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
        },
      }),
      ENGINE_CAUSE,
    );
    for (const { backfill_id } of result.backfills) this.#backfills.add(backfill_id);
    this.#runsSweptTo ??= 0;
    await this.#shardWork.sweep(commit);
    await this.#syncs.sweep(commit);
    const poisoned = [...this.#poisoned.keys()].filter((name) => name.startsWith(SYNC_PREFIX));
    this.#syncs.putBack(poisoned.map((name) => name.slice(SYNC_PREFIX.length)));
    this.#sweep = false;
  }

  /** Marks unfinished runs after a position, some at a time: a sweep goes on over several commits. */
  async #markUnfinishedRuns(commit: Commit, after: number): Promise<void> {
    const where: Condition[] = [
      ...ACTIVE_RUNS,
      { cell: "tasks_ready", is: "=", value: 0 },
      { cell: "tasks_running", is: "=", value: 0 },
      { cell: "run_pos", is: ">", value: after },
    ];
    const { result } = await commit.decide(
      (rows) => ({
        events: [],
        result: rows.runs.find(where, [{ cell: "run_pos" }], RUNS_SWEPT_MAX),
      }),
      ENGINE_CAUSE,
    );
    for (const { run_pos } of result) this.#runs.add(run_pos);
    const last = result.at(-1);
    const isAll = last === undefined || result.length < RUNS_SWEPT_MAX;
    this.#runsSweptTo = isAll ? null : last.run_pos;
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
