import type { EventDocument } from "../../src/work/server-api.ts";
import { GENESIS_HASH } from "../../src/work/envelope.ts";
import type { EventData, EventType } from "../../src/work/events.ts";
import { type ExpandedTask, expandTasks, sizeOfRun } from "../../src/work/run/tasks.ts";
import type { Violations } from "../simulation/violations.ts";

/** A task as the ledger tells of it. */
export type AuditedTask = ExpandedTask & {
  assetKey: string;
  partitionKeys: string[];
  state: "free" | "running" | "ended";
  attempt: number;
  workerId: string | null;
  outcome: string | null;
  successes: number;
};

/** A run as the ledger tells of it. */
export type AuditedRun = {
  runKey: string;
  pairs: number;
  tasks: AuditedTask[];
  backfill: AuditedBackfill | null;
  chunkIndex: number | null;
  state: "PLANNED" | "RUNNING" | "SUCCEEDED" | "FAILED" | "CANCELLED";
};

/** A backfill as the ledger tells of it. */
export type AuditedBackfill = {
  data: EventData<"BackfillCreated">;
  state: string;
  version: number;
  limit: number;
  /** The run of every chunk that was planned, by index; null between the plan and its request. */
  chunks: Map<number, AuditedRun | null>;
  ordinals: Set<number>;
  partitionKeys: string[];
};

const ENDED = new Set(["SUCCEEDED", "FAILED", "CANCELLED"]);

type Handlers = { [Type in EventType]?: (data: EventData<Type>, pos: number) => void };

/** Follows the ledger event by event and notes each promise that it breaks. */
export class LedgerAudit {
  readonly backfills = new Map<string, AuditedBackfill>();
  readonly runs = new Map<number, AuditedRun>();
  readonly runKeys = new Set<string>();
  readonly dynamicKeys = new Map<string, string[]>();
  readonly #violations: Violations;
  readonly #eventIds = new Set<string>();
  readonly #idempotencyKeys = new Set<string>();
  readonly #handlers: Handlers;
  #pos = 0;
  #hash = GENESIS_HASH;
  #occurredAt = "";

  constructor(violations: Violations) {
    this.#violations = violations;
    this.#handlers = {
      PartitionKeysAdded: (data) => this.#keysAdded(data),
      BackfillCreated: (data) => this.#created(data),
      BackfillStateChanged: (data) => this.#stateChanged(data),
      BackfillRetuned: (data) => this.#retuned(data),
      BackfillChunkPlanned: (data) => this.#planned(data),
      RunRequested: (data, pos) => this.#requested(data, pos),
      RunStarted: ({ run_pos }) => this.#move(run_pos, ["PLANNED"], "RUNNING"),
      RunFinished: (data) => this.#finished(data),
      TasksStarted: (data) => this.#tasksStarted(data),
      TasksFinished: ({ run_pos, results }) => this.#results(run_pos, results),
      TaskLeaseExpired: (data) => this.#leaseExpired(data),
    };
  }

  /** Takes the next events of the ledger. */
  follow(events: readonly EventDocument[]): this {
    for (const event of events) {
      this.#check(event.pos === this.#pos + 1, "I2", "it follows the event before");
      this.#check(event.prev_hash === this.#hash, "I8", "it is chained to the event before");
      this.#check(event.occurred_at >= this.#occurredAt, "I18", "its time is not before the last");
      this.#check(!this.#eventIds.has(event.event_id), "I2", "its id is its own");
      const key = `${event.subject_pos}:${event.idempotency_key}`;
      this.#check(!this.#idempotencyKeys.has(key), "I5", `its key is its own: ${key}`);
      this.#eventIds.add(event.event_id);
      this.#idempotencyKeys.add(key);
      this.#pos = event.pos;
      this.#hash = event.hash;
      this.#occurredAt = event.occurred_at;
      this.#handlers[event.type as EventType]?.(event.data as never, event.pos);
    }
    return this;
  }

  /** Checks what must hold once all work has ended. */
  checkEnded(): void {
    for (const [run_pos, run] of this.runs) {
      this.#check(ENDED.has(run.state), "I37", `run ${run_pos} has ended, not ${run.state}`);
      if (run.state !== "SUCCEEDED") continue;
      const once = run.tasks.every(({ successes }) => successes === 1);
      this.#check(once, "I36", `every task of run ${run_pos} succeeded once`);
    }
    for (const [id, backfill] of this.backfills) {
      const { state, ordinals, chunks, data } = backfill;
      this.#check(ENDED.has(state), "I37", `backfill ${id} has ended, not ${state}`);
      this.#check(state !== "FAILED", "I36", `backfill ${id} did not fail`);
      if (state !== "SUCCEEDED") continue;
      this.#check(ordinals.size === data.total_partitions, "I28", `${id} covers its selection`);
      this.#check(chunks.size === data.total_chunks, "I29", `${id} has every chunk`);
      const isDone = [...chunks.values()].every((run) => run?.state === "SUCCEEDED");
      this.#check(isDone, "I29", `every chunk of ${id} succeeded`);
    }
  }

  /** How many chunks of a backfill are in which state. */
  chunkCounts({ chunks, state, data }: AuditedBackfill): Record<string, number> {
    const counts = { planned: 0, running: 0, succeeded: 0, failed: 0, cancelled: 0 };
    for (const run of chunks.values()) {
      const name = (run?.state ?? "PLANNED").toLowerCase() as keyof typeof counts;
      counts[name] += 1;
    }
    const unplanned = data.total_chunks - chunks.size;
    // What was never planned is cancelled with the backfill.
    if (state === "CANCELLED") counts.cancelled += unplanned;
    return { ...counts, pending: state === "CANCELLED" ? 0 : unplanned };
  }

  #check(holds: boolean, promise: string, what: string): void {
    this.#violations.check(holds, promise, `at ${this.#pos}: ${what}`);
  }

  #backfill(id: string): AuditedBackfill {
    const backfill = this.backfills.get(id);
    if (backfill === undefined) throw new Error(`The ledger never created backfill ${id}.`);
    return backfill;
  }

  #run(pos: number): AuditedRun {
    const run = this.runs.get(pos);
    if (run === undefined) throw new Error(`The ledger requested no run at ${pos}.`);
    return run;
  }

  #keysAdded({ definition, first_ordinal, keys }: EventData<"PartitionKeysAdded">): void {
    const known = this.dynamicKeys.get(definition) ?? [];
    this.#check(first_ordinal === known.length, "I5", "keys get the next ordinals");
    const repeated = keys.filter((key) => known.includes(key));
    this.#check(repeated.length === 0, "I5", `keys are added once, not again ${repeated.join()}`);
    this.dynamicKeys.set(definition, [...known, ...keys]);
  }

  #created(data: EventData<"BackfillCreated">): void {
    this.#check(!this.backfills.has(data.backfill_id), "I5", "a backfill is created once");
    this.backfills.set(data.backfill_id, {
      data,
      state: "PENDING",
      version: 1,
      limit: data.max_concurrent_runs,
      chunks: new Map(),
      ordinals: new Set(),
      partitionKeys: [],
    });
  }

  #stateChanged(data: EventData<"BackfillStateChanged">): void {
    const backfill = this.#backfill(data.backfill_id);
    this.#check(data.from_state === backfill.state, "I31", `it was ${backfill.state} before`);
    this.#check(!ENDED.has(backfill.state), "I31", "what has ended stays so");
    this.#check(data.state_version === backfill.version + 1, "I31", "its version grows by one");
    if (ENDED.has(data.to_state)) {
      this.#check(activeOf(backfill) === 0, "I31", "no run is active at its end");
    }
    backfill.state = data.to_state;
    backfill.version = data.state_version;
  }

  #retuned(data: EventData<"BackfillRetuned">): void {
    const backfill = this.#backfill(data.backfill_id);
    this.#check(data.state_version === backfill.version + 1, "I31", "its version grows by one");
    backfill.version = data.state_version;
    backfill.limit = data.max_concurrent_runs ?? backfill.limit;
  }

  #planned(data: EventData<"BackfillChunkPlanned">): void {
    const backfill = this.#backfill(data.backfill_id);
    const { state, chunks, limit, ordinals } = backfill;
    this.#check(state === "RUNNING", "I31", `no chunk is planned while ${state}`);
    this.#check(data.generation === 0, "I29", "nothing gave a chunk another generation");
    this.#check(!chunks.has(data.chunk_index), "I29", `chunk ${data.chunk_index} is planned once`);
    this.#check(data.chunk_index === chunks.size, "I31", "the first unplanned chunk is next");
    this.#check(activeOf(backfill) < limit, "I30", `${activeOf(backfill)} of ${limit} are active`);
    for (const { from, to } of data.parts) {
      for (let ordinal = from; ordinal <= to; ordinal++) {
        this.#check(!ordinals.has(ordinal), "I28", `ordinal ${ordinal} is in one chunk`);
        ordinals.add(ordinal);
      }
    }
    chunks.set(data.chunk_index, null);
  }

  #requested(data: EventData<"RunRequested">, pos: number): void {
    this.#check(!this.runKeys.has(data.run_key), "I29", `${data.run_key} is requested once`);
    this.runKeys.add(data.run_key);
    const keys = data.partition_selection ?? [];
    const backfill = data.backfill_id === null ? null : this.#backfill(data.backfill_id);
    const run: AuditedRun = {
      runKey: data.run_key,
      pairs: sizeOfRun(data.tasks, keys.length).pairs,
      tasks: expandTasks(data.tasks, keys.length).map((task) => ({
        ...task,
        assetKey: data.tasks[task.asset_index]?.asset_key ?? "",
        partitionKeys: task.partition_index === null ? keys : [keys[task.partition_index] ?? ""],
        state: "free",
        attempt: 0,
        workerId: null,
        outcome: null,
        successes: 0,
      })),
      backfill,
      chunkIndex: data.chunk_index,
      state: "PLANNED",
    };
    this.runs.set(pos, run);
    if (backfill === null || data.chunk_index === null) return;
    this.#check(backfill.chunks.get(data.chunk_index) === null, "I4", "its chunk is just planned");
    backfill.chunks.set(data.chunk_index, run);
    backfill.partitionKeys.push(...keys);
  }

  #move(runPos: number, from: readonly string[], to: AuditedRun["state"]): void {
    const run = this.#run(runPos);
    this.#check(from.includes(run.state), "I36", `a run goes from ${run.state} to ${to}`);
    run.state = to;
  }

  #finished({ run_pos, outcome, counts }: EventData<"RunFinished">): void {
    const run = this.#run(run_pos);
    const open = run.tasks.filter(({ state }) => state !== "ended");
    this.#check(open.length === 0, "I36", `the tasks of a finished run have ended`);
    const sum = counts.succeeded + counts.failed + counts.cancelled + counts.skipped;
    this.#check(sum === run.pairs, "I33", `its partitions add up: ${sum} of ${run.pairs}`);
    this.#move(run_pos, ["PLANNED", "RUNNING"], outcome);
  }

  #tasksStarted({ run_pos, tasks, worker_id }: EventData<"TasksStarted">): void {
    const run = this.#run(run_pos);
    for (const { task_key, attempt } of tasks.flatMap(eachTask)) {
      const task = this.#task(run, task_key);
      this.#check(task.state === "free", "I34", `task ${task_key} is ${task.state} when it starts`);
      this.#check(attempt === task.attempt + 1, "I34", `attempt ${attempt} is the next`);
      const isReady = task.unmet.every((key) => run.tasks[key]?.outcome === "SUCCEEDED");
      this.#check(isReady, "I39", `what task ${task_key} needs is there`);
      task.state = "running";
      task.attempt = attempt;
      task.workerId = worker_id;
    }
  }

  #leaseExpired({ run_pos, result }: EventData<"TaskLeaseExpired">): void {
    // A kill loses no lease; a task without one would wait longer than a lease for its next attempt.
    const isCovered = result.error?.message !== "its lease was lost";
    this.#check(isCovered, "I37", `task ${result.task_key} of run ${run_pos} ran under a lease`);
    this.#results(run_pos, [result]);
  }

  #results(runPos: number, results: EventData<"TasksFinished">["results"]): void {
    const run = this.#run(runPos);
    for (const result of results.flatMap(eachTask)) {
      const task = this.#task(run, result.task_key);
      this.#check(task.state !== "ended", "I36", `task ${task.task_key} ends once`);
      this.#check(result.attempt === task.attempt, "I35", "only the current attempt ends");
      if (result.outcome === "SUCCEEDED" || result.outcome === "FAILED") {
        this.#check(task.state === "running", "I35", `task ${task.task_key} ran`);
      }
      task.workerId = null;
      task.state = result.retry_at === undefined ? "ended" : "free";
      if (task.state === "ended") task.outcome = result.outcome;
      if (result.outcome === "SUCCEEDED") task.successes += 1;
      this.#check(task.successes <= 1, "I36", `task ${task.task_key} succeeds once`);
      for (const { task_key } of result.skips ?? []) this.#task(run, task_key).state = "ended";
    }
  }

  #task(run: AuditedRun, key: number): AuditedTask {
    const task = run.tasks[key];
    if (task === undefined) throw new Error(`Run ${run.runKey} has no task ${key}.`);
    return task;
  }
}

/** The tasks that an entry stands for: its own, and those numbered directly after it. */
function eachTask<Entry extends { task_key: number; count?: number | undefined }>(
  entry: Entry,
): Entry[] {
  const { task_key, count = 1 } = entry;
  return Array.from({ length: count }, (_, index) => ({ ...entry, task_key: task_key + index }));
}

/** Chunks whose run has not ended. */
function activeOf({ chunks }: AuditedBackfill): number {
  return [...chunks.values()].filter((run) => run === null || !ENDED.has(run.state)).length;
}
