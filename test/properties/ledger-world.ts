import { advanceMove } from "../../src/work/move/advance.ts";
import { advanceSplit } from "../../src/work/split/advance.ts";
import { advanceSync } from "../../src/work/sync/advance.ts";
import { claimTasks } from "../../src/work/run/claim.ts";
import { type Context, type Decide, DECISION_ROOM } from "../../src/work/decision.ts";
import { planChunks } from "../../src/work/backfill/advance.ts";
import { publishDefinitions } from "../../src/work/definition/publish.ts";
import type { AwaitedAssetRow } from "../../src/work/requires/rows.ts";
import { wakeWaiting } from "../../src/work/requires/wake.ts";
import { reportTasks } from "../../src/work/run/report.ts";
import { settleRun } from "../../src/work/run/settle.ts";
import { tickSchedule } from "../../src/work/schedule/tick.ts";
import type { NewEvent } from "../../src/work/events.ts";
import { foldingOf } from "../../src/work/fold.ts";
import { addMs, instantOf } from "../../src/kernel/instant.ts";
import type { ClaimedGroup, ReportedResult, TaskRef } from "../../src/work/run/protocol.ts";
import type { BackfillRow } from "../../src/work/backfill/rows.ts";
import type { MoveRow, MoveSegmentRow } from "../../src/work/move/rows.ts";
import type { Rows } from "../../src/work/rows.ts";
import type { RunRow } from "../../src/work/run/rows.ts";
import type { ScheduleRow, ScheduleTickRow } from "../../src/work/schedule/rows.ts";
import type { SplitRow } from "../../src/work/split/rows.ts";
import type { SegmentRow, SyncRow } from "../../src/work/sync/rows.ts";
import { TABLES } from "../../src/work/tables.ts";
import { RowsMissing, WorkingSet } from "../../src/work/working-set.ts";
import { Spec } from "../../src/work/definition/published-spec.ts";
import { nodeHash } from "../../src/engine/config.ts";
import { PawlError } from "../../src/kernel/errors.ts";

/** A ledger without a store: decisions are made and folded at once, on rows in memory. */
export class LedgerWorld {
  readonly events: (NewEvent & { pos: number })[] = [];
  readonly #set = new WorkingSet();
  now = instantOf(Date.UTC(2026, 2, 10));
  room = DECISION_ROOM;
  /** Whose token the next decisions are asked with. */
  holder = "token-1";
  #ids = 0;
  #lookUps = 0;
  #rowsLookedUp = 0;

  get rows(): Rows {
    return this.#set.rows;
  }

  get pos(): number {
    return this.events.length;
  }

  /** Makes a decision and folds what it records; a refusal leaves nothing. */
  submit<Result>(decide: Decide<Result>): Result {
    const { events, result } = this.evaluate(decide);
    this.record(events);
    return result;
  }

  /** Makes a decision and records nothing. */
  evaluate<Result>(decide: Decide<Result>): ReturnType<Decide<Result>> {
    return this.read((rows) => decide(rows, this.context()));
  }

  /** Reads rows; what is not in memory is nowhere. */
  read<Result>(body: (rows: Rows) => Result): Result {
    for (;;) {
      try {
        return body(this.rows);
      } catch (error) {
        if (!(error instanceof RowsMissing)) throw error;
        this.#lookUps += 1;
        for (const { table, keys } of error.keys) {
          this.#rowsLookedUp += keys.length;
          this.#set.loaded(table, keys, []);
        }
        if (error.find === null) continue;
        for (const each of error.find.where) {
          if (each.is === "in") this.#rowsLookedUp += each.values.length;
        }
        this.#set.found(error.find, []);
      }
    }
  }

  /** How often rows are looked up for a decision, when no look-up has been answered before. */
  lookUpsOf(body: () => unknown): number {
    this.#set.forgetAnswers();
    const before = this.#lookUps;
    body();
    return this.#lookUps - before;
  }

  /** How many rows are looked up for a decision that were not before, by key or by one of many values. */
  rowsLookedUpBy(body: () => unknown): number {
    const before = this.#rowsLookedUp;
    body();
    return this.#rowsLookedUp - before;
  }

  /** Folds events, all or none. */
  record(events: readonly NewEvent[]): void {
    const first = this.pos + 1;
    const recorded = events.map((event, index) => ({ ...event, pos: first + index }));
    try {
      for (const { type, data, pos } of recorded) {
        const folding = foldingOf(type);
        for (const [name, key] of folding.touches(data, pos)) {
          if (!this.#set.has(TABLES[name], key)) this.#set.loaded(TABLES[name], [key], []);
        }
        const event = { type, data, pos, event_id: `event-${pos}`, occurred_at: this.now };
        folding.apply(this.rows, event);
      }
    } catch (error) {
      this.#set.refuse();
      throw error;
    }
    this.#set.accept();
    this.events.push(...recorded);
  }

  context(): Context {
    return {
      now: this.now,
      nextPos: this.pos + 1,
      hash: nodeHash,
      zoneDatabase: "2026a",
      tenant: { tenant_id: "t", workspace_id: "w", secret: "s" },
      principal: "ann",
      room: this.room,
      holder: this.holder,
      random: () => 0.5,
      newId: () => String(++this.#ids).padStart(26, "0"),
    };
  }

  pass(ms: number): void {
    this.now = addMs(this.now, ms);
  }

  /** Publishes assets and pools, written with what matters only. */
  publish(...specs: readonly object[]): void {
    const parsed = specs.map((spec) =>
      Spec.parse("kind" in spec ? spec : { kind: "asset", partitions: null, ...spec }),
    );
    this.submit(publishDefinitions({ origin: "code", specs: parsed, prune: false }));
  }

  /** Lets the controllers go on until they have nothing to add; answers how often they had. */
  settle(): number {
    for (let rounds = 0; ; rounds++) {
      const before = this.pos;
      for (const run of this.runs()) {
        if (run.finished_at === null) this.submit(controlled(settleRun, run));
      }
      for (const awaited of this.awaited()) this.submit(controlled(wakeWaiting, awaited));
      for (const backfill of this.backfills()) this.submit(controlled(planChunks, backfill));
      for (const sync of this.syncs()) this.submit(controlled(advanceSync, sync));
      for (const split of this.splits()) this.submit(controlled(advanceSplit, split));
      for (const move of this.moves()) this.submit(controlled(advanceMove, move));
      for (const schedule of this.schedules()) {
        const isDue = schedule.due_at !== null && schedule.due_at <= this.now;
        if (isDue) this.submit(controlled(tickSchedule, schedule));
      }
      if (this.pos === before) return rounds;
      if (rounds > 1_000) throw new Error("The controllers do not settle.");
    }
  }

  awaited(): AwaitedAssetRow[] {
    return this.read((rows) => rows.awaitedAssets.find([], [{ cell: "asset_key" }], 10_000));
  }

  runs(): RunRow[] {
    return this.read((rows) => rows.runs.find([], [{ cell: "run_pos" }], 10_000));
  }

  backfills(): BackfillRow[] {
    return this.read((rows) => rows.backfills.find([], [{ cell: "created_pos" }], 10_000));
  }

  syncs(): SyncRow[] {
    return this.read((rows) => rows.syncs.find([], [{ cell: "created_pos" }], 10_000));
  }

  splits(): SplitRow[] {
    return this.read((rows) => rows.splits.find([], [{ cell: "created_pos" }], 10_000));
  }

  moves(): MoveRow[] {
    return this.read((rows) => rows.moves.find([], [{ cell: "created_pos" }], 10_000));
  }

  /** The segments of a move, by their index. */
  moveSegments(moveId: string): MoveSegmentRow[] {
    const where = [{ cell: "move_id", is: "=", value: moveId }] as const;
    return this.read((rows) => rows.moveSegments.find(where, [{ cell: "segment_index" }], 100_000));
  }

  /** The segments of a sync, by their blocks. */
  segments(syncId: string): SegmentRow[] {
    const where = [{ cell: "sync_id", is: "=", value: syncId }] as const;
    return this.read((rows) => rows.segments.find(where, [{ cell: "from_block" }], 100_000));
  }

  schedules(): ScheduleRow[] {
    return this.read((rows) => rows.schedules.find([], [{ cell: "schedule_id" }], 10_000));
  }

  /** The decided times of all schedules, in the order they were decided. */
  ticks(): ScheduleTickRow[] {
    return this.read((rows) => rows.scheduleTicks.find([], [{ cell: "pos" }], 100_000));
  }

  /** Claims tasks for a worker. */
  claim(assets: readonly string[], slots = 100): ClaimedGroup[] {
    const request = {
      worker_id: "worker",
      lease_id: "lease",
      slots,
      assets: [...assets],
      code_version: null,
      wait_ms: 0,
    };
    return this.submit(claimTasks(request)).groups;
  }

  /** Reports how attempts ended. */
  report(...results: ReportedResult[]): ("recorded" | "lost")[] {
    const request = { worker_id: "worker", code_version: null, results, released_leases: [] };
    return this.submit(reportTasks(request));
  }
}

function controlled<Row>(
  controller: (rows: Rows, row: Row, context: Context) => NewEvent[],
  row: Row,
): Decide<null> {
  return (rows, context) => ({ events: controller(rows, row, context), result: null });
}

/** The tasks of some groups, one by one. */
export function refsOf(groups: readonly ClaimedGroup[]): TaskRef[] {
  return groups.flatMap(({ run_pos, tasks }) =>
    tasks.map(({ task_key, attempt }) => ({ run_pos, task_key, attempt })),
  );
}

/** What refused it. */
export function refusalOf(body: () => unknown): PawlError {
  try {
    body();
  } catch (error) {
    if (error instanceof PawlError) return error;
    throw error;
  }
  throw new Error("It was not refused.");
}
