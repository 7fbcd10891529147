import { createHmac } from "node:crypto";
import type { TaskResultField } from "../../src/work/run/events.ts";
import { partitionsIn } from "../../src/work/asset/partition-blocks.ts";
import type { PartitionBlockRow, RunRow } from "../../src/work/run/rows.ts";
import { nodeHash } from "../../src/engine/config.ts";
import type { Workspace } from "../../src/store/store.ts";
import type { BackfillAudit } from "./audit-backfills.ts";
import type { Audited } from "./audit-ledger.ts";
import type { RowDump } from "./audit-rows.ts";
import { pairOf } from "./audited-pair.ts";
import { AuditedDemands, type Made } from "./audited-demands.ts";
import type { AuditedProject } from "./audited-project.ts";
import { AuditedRun, type AuditedTask } from "./audited-run.ts";
import { SECRET } from "./simulated-server.ts";
import type { Violations } from "./violations.ts";

type Status = {
  attemptRun: string;
  attemptAt: string;
  attemptOutcome: string;
  attemptStart: number;
  materialRun: string | null;
  materialAt: string | null;
  materialStart: number | null;
};

/** Follows runs, tasks, pools and partitions through the ledger. */
export class RunAudit {
  /** Attempts whose end a worker reported, and those that were taken back from theirs. */
  readonly reported = new Set<string>();
  readonly takenBack = new Set<string>();
  /** Who has or had each attempt. */
  readonly holderOf = new Map<string, string>();
  readonly #workspace: Workspace;
  readonly #project: AuditedProject;
  readonly #backfills: BackfillAudit;
  readonly #violations: Violations;
  readonly #runs = new Map<number, AuditedRun>();
  readonly #keys = new Map<string, { run: AuditedRun; fingerprints: Set<string> }>();
  readonly #holders = new Map<string, string>();
  readonly #pools = new Map<string, number>();
  readonly #status = new Map<string, Status>();
  readonly #demands: AuditedDemands;
  /** Attempts that added keys, until they are known to have succeeded. */
  readonly #adding = new Set<string>();
  #conflicts = 0;

  constructor(
    workspace: Workspace,
    project: AuditedProject,
    backfills: BackfillAudit,
    violations: Violations,
  ) {
    this.#workspace = workspace;
    this.#project = project;
    this.#backfills = backfills;
    this.#violations = violations;
    this.#demands = new AuditedDemands(project);
  }

  /** Whether a pair was ever materialized. */
  materialized = (pair: string): boolean => (this.#status.get(pair)?.materialRun ?? null) !== null;

  /** Keys that attempts added stand right before the events that say that they succeeded. */
  expectKeys({ type, data, pos }: Audited): void {
    if (this.#adding.size === 0 || type === "PartitionKeysAdded") return;
    if (type === "TasksFinished") {
      for (const { task_key, attempt, outcome } of data.results.flatMap(oneByOne)) {
        const name = `task:${data.run_id}:${task_key}:${attempt}`;
        if (outcome === "SUCCEEDED") this.#adding.delete(name);
      }
      return;
    }
    const left = [...this.#adding].join();
    this.#violations.check(
      left === "",
      "I93",
      `${left} added keys before ${pos} and did not succeed`,
    );
    this.#adding.clear();
  }

  keysAdded({ data }: Audited<"PartitionKeysAdded">): void {
    if (data.request_id.startsWith("task:")) this.#adding.add(data.request_id);
  }

  requested({ data, pos }: Audited<"RunRequested">): void {
    const { run_key, run_id, request_fingerprint, asset_selection, partition_selection } = data;
    const check = (condition: boolean, promise: string, what: string): void =>
      this.#violations.check(condition, promise, `run ${run_key} at ${pos}: ${what}`);
    check(run_id === runIdOf(this.#workspace, run_key), "I19", `its id is ${run_id}`);
    const sorted = partition_selection === null ? null : partition_selection.toSorted();
    const config = JSON.stringify(data.config);
    const text = `[${JSON.stringify(asset_selection.toSorted())},${JSON.stringify(sorted)},${config}]`;
    check(request_fingerprint === nodeHash.sha256(text), "I19", "its fingerprint is another");
    const known = this.#keys.get(run_key);
    if (known !== undefined) {
      check(!known.fingerprints.has(request_fingerprint), "I27", "the same request is there twice");
      check(data.backfill_id === null, "I29", "a chunk has two runs");
      known.fingerprints.add(request_fingerprint);
      this.#conflicts += 1;
      return;
    }
    const backfill = data.backfill_id === null ? null : this.#backfills.get(data.backfill_id);
    const run = new AuditedRun(pos, data, backfill);
    this.#runs.set(pos, run);
    this.#keys.set(run_key, { run, fingerprints: new Set([request_fingerprint]) });
    const chunk = backfill?.chunks.get(data.chunk_index ?? -1);
    if (chunk === undefined) return;
    const isSame = chunk.pairs.every((pair) => run.pairs.has(pair));
    check(isSame && chunk.pairs.length === run.pairs.size, "I28", "it is not what its chunk holds");
  }

  runStarted({ data, pos }: Audited<"RunStarted">): void {
    const run = this.#run(data.run_pos);
    this.#violations.check(run.state === "PENDING", "I36", `run ${data.run_pos} starts at ${pos}`);
    run.state = "RUNNING";
    const chunk = run.backfill?.chunks.get(data.chunk_index ?? -1);
    if (chunk !== undefined) chunk.state = "RUNNING";
    this.#backfills.expect({
      what: `the first task of run ${data.run_pos}`,
      holds: (next) => next.type === "TasksStarted" && next.data.run_pos === data.run_pos,
    });
  }

  cancelRequested({ data, pos }: Audited<"RunCancelRequested">): void {
    const run = this.#run(data.run_pos);
    const isFirst = !run.isCancelRequested && run.state !== "ENDED";
    this.#violations.check(isFirst, "I40", `run ${data.run_pos} is cancelled again at ${pos}`);
    run.isCancelRequested = true;
    const open = run.tasks.filter((task) => task.state === "free");
    if (open.length === 0) return;
    this.#backfills.expect({
      what: `the end of what waits in run ${data.run_pos}`,
      holds: (next) => next.type === "TasksFinished" && countOf(next.data.results) === open.length,
    });
  }

  tasksStarted({ data, pos, occurred_at }: Audited<"TasksStarted">): void {
    const run = this.#run(data.run_pos);
    this.#violations.check(run.state === "RUNNING", "I36", `tasks of ${run.state} run at ${pos}`);
    this.#violations.check(!run.isCancelRequested, "I40", `a cancelled run goes on at ${pos}`);
    for (const { task_key, attempt, partitions } of data.tasks.flatMap(oneByOne)) {
      const task = this.#task(run, task_key);
      const name = `task ${data.run_pos}/${task_key} at ${pos}`;
      const check = (condition: boolean, promise: string, what: string): void =>
        this.#violations.check(condition, promise, `${name}: ${what}`);
      check(task.state === "free", "I36", `it starts although it is ${task.state}`);
      check(attempt === task.attempt + 1, "I34", `attempt ${attempt} follows ${task.attempt}`);
      check(partitions === task.keys.length, "I33", `it stands for ${partitions} partitions`);
      const { failures, lost } = this.#most(run, task);
      check(task.failures < failures, "I38", `${task.failures} failures before`);
      check(task.lost < lost, "I78", `${task.lost} attempts in a row were lost before`);
      check(task.retryAt === null || task.retryAt <= occurred_at, "I38", "it is tried too soon");
      for (const pair of task.needs) {
        const state = run.pairs.get(pair);
        check(state === "succeeded" || state === "skipped", "I39", `${pair} is ${state}`);
        // What another run has made anew since is no longer what the check judged.
        const isJudged = this.#status.get(pair)?.materialRun === run.data.run_id;
        check(!(run.blocked.has(pair) && isJudged), "I95", `${pair} is held back by a check`);
      }
      const lacks = this.#demands.lackOf(task, (pair) => this.#status.get(pair));
      check(
        !this.#demands.isDemanding(run, task) || lacks.length === 0,
        "I105",
        `it lacks ${lacks.join()}`,
      );
      task.awaited = null;
      this.holderOf.set(`${run.pos}/${task_key}/${attempt}`, data.worker_id);
      this.#hold(run, task, name);
      Object.assign(task, { state: "running", attempt, startPos: pos, retryAt: null });
      for (const key of task.keys) run.set(pairOf(task.assetKey, key), "running");
    }
  }

  tasksFinished({ data, pos, occurred_at }: Audited<"TasksFinished">): void {
    const run = this.#run(data.run_pos);
    for (const result of data.results.flatMap(resultsOneByOne)) {
      this.reported.add(`${run.pos}/${result.task_key}/${result.attempt}`);
      this.#finish(run, result, pos, occurred_at);
    }
  }

  leaseExpired({ data, pos, occurred_at }: Audited<"TaskLeaseExpired">): void {
    const run = this.#run(data.run_pos);
    const isRunning = this.#task(run, data.task_key).state === "running";
    this.#violations.check(isRunning, "I36", `a lease of ${data.run_pos} ends twice at ${pos}`);
    this.takenBack.add(`${run.pos}/${data.task_key}/${data.attempt}`);
    const isLost = data.result.lost_attempts !== undefined;
    const isSilence = data.result.error?.class === "lease-lost";
    this.#violations.check(isLost === isSilence, "I78", `silence at ${pos} counts as a failure`);
    this.#finish(run, data.result, pos, occurred_at);
  }

  tasksDeferred({ data, pos }: Audited<"TasksDeferred">): void {
    const run = this.#run(data.run_pos);
    for (const { task_key, attempt, waits } of data.tasks) {
      const task = this.#task(run, task_key);
      const what = `task ${run.pos}/${task_key} at ${pos} waits for ${waits.asset_key}`;
      const isFree = task.state === "free" && task.attempt === attempt && run.state !== "ENDED";
      this.#violations.check(isFree, "I105", what);
      const lacks = this.#demands.lackOf(task, (pair) => this.#status.get(pair));
      this.#violations.check(lacks.length > 0, "I105", `${what}, and lacks nothing`);
      task.awaited = { pair: pairOf(waits.asset_key, waits.partition_key), isMade: false };
      task.retryAt = null;
    }
  }

  tasksRequeued({ data, pos }: Audited<"TasksRequeued">): void {
    const run = this.#run(data.run_pos);
    for (const { task_key } of data.tasks) {
      const task = this.#task(run, task_key);
      const isWaiting = task.state === "free" && task.awaited !== null;
      this.#violations.check(isWaiting, "I106", `task ${run.pos}/${task_key} goes on at ${pos}`);
      task.awaited = null;
    }
  }

  /** Nothing waits any more for what was made of the asset. */
  awaitedMade({ data, pos }: Audited<"AwaitedPartitionsMade">): void {
    for (const task of this.#waiting()) {
      const { pair, isMade } = task.awaited ?? { pair: "", isMade: false };
      const isTold = data.partition_keys?.some((key) => pair === pairOf(data.asset_key, key));
      const isPassed = isMade && (isTold ?? pair.startsWith(`${data.asset_key}\n`));
      this.#violations.check(!isPassed, "I106", `at ${pos} ${pair} is waited for in vain`);
    }
  }

  #waiting(): AuditedTask[] {
    const open = [...this.#runs.values()].filter(({ state }) => state !== "ENDED");
    return open.flatMap(({ tasks }) =>
      tasks.filter(({ state, awaited }) => state === "free" && awaited !== null),
    );
  }

  runFinished({ data, pos }: Audited<"RunFinished">): void {
    const run = this.#run(data.run_pos);
    const check = (condition: boolean, promise: string, what: string): void =>
      this.#violations.check(condition, promise, `run ${data.run_pos} ends at ${pos}: ${what}`);
    check(run.state !== "ENDED", "I36", "again");
    check(
      run.tasks.every((task) => task.state === "ended"),
      "I36",
      "before its tasks",
    );
    run.state = "ENDED";
    const failed = run.count("failed");
    const outcome = run.hasCancelledTask ? "CANCELLED" : failed > 0 ? "FAILED" : "SUCCEEDED";
    check(data.outcome === outcome, "I40", `as ${data.outcome}, not ${outcome}`);
    for (const state of ["failed", "cancelled", "skipped", "succeeded"] as const) {
      check(data.counts[state] === run.count(state), "I33", `${data.counts[state]} ${state}`);
      if (state === "succeeded") continue;
      const listed = data[state].map(({ asset, indexes }) => ({
        asset,
        indexes: indexes.flatMap(([from, to]) =>
          Array.from({ length: to - from + 1 }, (_, offset) => from + offset),
        ),
      }));
      const expected = JSON.stringify(run.indexesIn(state));
      check(JSON.stringify(listed) === expected, "I32", `${state} are not ${expected}`);
    }
    const chunk = run.backfill?.chunks.get(data.chunk_index ?? -1);
    if (chunk === undefined) return;
    if (!data.splits) {
      chunk.state = data.outcome;
      return;
    }
    this.#backfills.expect({
      what: `the split of the chunk of run ${data.run_pos}`,
      holds: (next) =>
        next.type === "BackfillChunkSplit" && next.data.chunk_index === data.chunk_index,
    });
  }

  /** One attempt ends, or a task that never started is closed. */
  #finish(run: AuditedRun, result: TaskResultField, pos: number, at: string): void {
    const task = this.#task(run, result.task_key);
    const name = `task ${run.pos}/${result.task_key} at ${pos}`;
    const check = (condition: boolean, promise: string, what: string): void =>
      this.#violations.check(condition, promise, `${name}: ${what}`);
    check(run.state !== "ENDED", "I36", "its run has ended");
    check(task.state !== "ended", "I36", "it has ended before");
    check(
      result.attempt === task.attempt,
      "I35",
      `attempt ${result.attempt} is not ${task.attempt}`,
    );
    check(!(task.succeeded && result.outcome === "SUCCEEDED"), "I36", "it succeeds twice");
    check(result.partitions === task.keys.length, "I33", `${result.partitions} partitions`);
    const keys = task.keys;
    if (task.state === "running") {
      check(result.partition_keys.join() === keys.join(), "I44", `its keys are ${keys.join()}`);
      this.#free(run, task);
    } else {
      const isClosed = result.outcome === "CANCELLED" && run.isCancelRequested;
      const isUnmet = result.error?.class === "requires" && result.outcome !== "SUCCEEDED";
      const lacks = this.#demands.lackOf(task, (pair) => this.#status.get(pair));
      check(!isUnmet || lacks.length > 0, "I105", `it ends as ${result.outcome} and lacks nothing`);
      check(isClosed || isUnmet, "I36", `it ends as ${result.outcome} without having started`);
    }
    const isAgain = result.retry_at !== undefined;
    const left: string[] = [];
    for (const [index, key] of keys.entries()) {
      const exception = result.exceptions?.find((item) => item.index === index)?.outcome;
      const outcome = exception ?? result.outcome;
      // A task that was given back was not tried.
      if (task.state === "running" && result.released !== true) {
        const made = {
          code: result.code_version,
          isBlocked: isBlocked(result, index, outcome),
          startPos: task.startPos,
          pos,
        };
        this.#attempted(run, task, key, outcome, at, made);
      }
      if (outcome === "FAILED") left.push(key);
      if (isBlocked(result, index, outcome)) run.blocked.add(pairOf(task.assetKey, key));
      const state = outcome === "FAILED" && isAgain ? "planned" : outcome.toLowerCase();
      run.set(pairOf(task.assetKey, key), state as "planned");
    }
    if (result.outcome === "CANCELLED") run.hasCancelledTask = true;
    const isLost = result.lost_attempts !== undefined;
    if (left.length > 0 && result.released !== true && !isLost) task.failures += 1;
    if (result.released !== true) task.lost = isLost ? task.lost + 1 : 0;
    const counted = result.lost_attempts ?? task.lost;
    check(counted === task.lost, "I78", `${counted} attempts in a row are lost, not ${task.lost}`);
    check(!isAgain || left.length > 0, "I36", "it is tried again with nothing left to do");
    if (isAgain && left.length > 0) task.keys = left;
    task.retryAt = result.retry_at ?? null;
    task.state = isAgain ? "free" : "ended";
    const inVain = task.awaited?.isMade === true && !run.isCancelRequested;
    check(!inVain, "I106", `it waited for ${task.awaited?.pair}, which was made`);
    task.awaited = null;
    task.succeeded ||= result.outcome === "SUCCEEDED" && left.length === 0;
    for (const skip of result.skips ?? []) this.#skip(run, skip.task_key, name);
  }

  #skip(run: AuditedRun, taskKey: number, name: string): void {
    const task = this.#task(run, taskKey);
    const isUntouched = task.state === "free" && task.attempt === 0;
    this.#violations.check(isUntouched, "I39", `${name}: it skips ${taskKey}, ${task.state}`);
    const isLost = (pair: string): boolean => {
      const state = run.pairs.get(pair);
      return state === "failed" || state === "cancelled" || run.blocked.has(pair);
    };
    // A batch task is one edge, so whoever needs other keys of it may be lost with it.
    const isHopeless =
      [...task.needs].some(isLost) ||
      run.data.tasks.some(
        ({ asset_key, batch }) =>
          batch &&
          [...task.needs].some((pair) => pair.startsWith(`${asset_key}\n`)) &&
          [...run.pairs.keys()].some((pair) => pair.startsWith(`${asset_key}\n`) && isLost(pair)),
      );
    this.#violations.check(isHopeless, "I39", `${name}: it skips ${taskKey}, which could run`);
    task.state = "ended";
    for (const key of task.keys) run.set(pairOf(task.assetKey, key), "failed");
  }

  #attempted(
    run: AuditedRun,
    task: AuditedTask,
    key: string,
    outcome: string,
    at: string,
    made: Made,
  ): void {
    // A segment is no partition of anything.
    if (run.isSegment) return;
    const pair = pairOf(task.assetKey, key);
    const before = this.#status.get(pair);
    if (before !== undefined && before.attemptStart > task.startPos) return;
    const { run_id } = run.data;
    const isMade = outcome === "SUCCEEDED";
    if (isMade) {
      for (const other of this.#waiting()) {
        if (other.awaited?.pair === pair) other.awaited.isMade = true;
      }
    }
    this.#status.set(pair, {
      attemptRun: run_id,
      attemptAt: at,
      attemptOutcome: outcome,
      attemptStart: task.startPos,
      materialRun: isMade ? run_id : (before?.materialRun ?? null),
      materialAt: isMade ? at : (before?.materialAt ?? null),
      materialStart: isMade ? task.startPos : (before?.materialStart ?? null),
    });
    if (isMade) this.#demands.madeBy.set(pair, made);
  }

  /** The task takes its partitions and its place in its pool. */
  #hold(run: AuditedRun, task: AuditedTask, name: string): void {
    for (const key of run.isSegment ? [] : task.keys) {
      const pair = pairOf(task.assetKey, key);
      const holder = this.#holders.get(pair);
      this.#violations.check(
        holder === undefined,
        "I34",
        `${name}: ${pair} is being made by ${holder}`,
      );
      this.#holders.set(pair, name);
    }
    const pool = run.data.tasks[task.assetIndex]?.pool ?? null;
    if (pool === null) return;
    const running = (this.#pools.get(pool) ?? 0) + 1;
    const limit = this.#project.poolLimits.get(pool) ?? Number.MAX_SAFE_INTEGER;
    this.#violations.check(running <= limit, "I43", `${name}: ${running} in ${pool} of ${limit}`);
    this.#pools.set(pool, running);
  }

  #free(run: AuditedRun, task: AuditedTask): void {
    for (const key of task.keys) this.#holders.delete(pairOf(task.assetKey, key));
    const pool = run.data.tasks[task.assetIndex]?.pool ?? null;
    if (pool !== null) this.#pools.set(pool, (this.#pools.get(pool) ?? 0) - 1);
  }

  /** How many attempts may fail, and how many in a row may be lost with their worker. */
  #most(run: AuditedRun, task: AuditedTask): { failures: number; lost: number } {
    const spec = this.#project.retryOf(run.data.tasks[task.assetIndex]?.spec_hash ?? "");
    const { max_attempts, max_lost_attempts: told } = run.data.retry ?? spec;
    const lost = told === undefined ? (max_attempts === 1 ? 1 : 10) : told;
    const endless = Number.MAX_SAFE_INTEGER;
    return { failures: max_attempts ?? endless, lost: lost ?? endless };
  }

  #run(pos: number): AuditedRun {
    const run = this.#runs.get(pos);
    if (run === undefined) throw new Error(`There is no run ${pos}.`);
    return run;
  }

  #task(run: AuditedRun, taskKey: number): AuditedTask {
    const task = run.tasks[taskKey];
    if (task === undefined) throw new Error(`Run ${run.pos} has no task ${taskKey}.`);
    return task;
  }

  /** The rows at the end are what the auditor found. */
  auditEnd(live: RowDump): void {
    const violations = this.#violations;
    for (const text of live.tables.runs.values()) {
      const row = JSON.parse(text) as RunRow;
      const isEnded = this.#run(row.run_pos).state === "ENDED";
      violations.check(isEnded === (row.finished_at !== null), "I36", `run ${row.run_pos}`);
    }
    violations.check(live.tables.runs.size === this.#runs.size, "I27", "there are as many runs");
    const conflicts = live.tables.runKeyConflicts.size;
    violations.check(conflicts === this.#conflicts, "I27", `${conflicts} conflicts on record`);
    const partitions = [...live.tables.partitionBlocks.values()].flatMap((text) =>
      partitionsIn(JSON.parse(text) as PartitionBlockRow),
    );
    violations.check(partitions.length === this.#status.size, "I44", "partitions");
    for (const row of partitions) {
      const status = this.#status.get(pairOf(row.asset_key, row.partition_key));
      const found: Status = {
        attemptRun: row.last_attempt_run_id,
        attemptAt: row.last_attempt_at,
        attemptOutcome: row.last_attempt_outcome,
        attemptStart: row.last_attempt_start_pos,
        materialRun: row.last_materialization_run_id,
        materialAt: row.last_materialization_at,
        materialStart: row.last_materialization_start_pos,
      };
      const what = `${row.asset_key} ${row.partition_key}: ${JSON.stringify(found)}`;
      violations.check(JSON.stringify(status) === JSON.stringify(found), "I44", what);
    }
    const pools = [...live.tables.pools.values()].map(
      (text) => JSON.parse(text) as { running: number; pool: string },
    );
    for (const { pool, running } of pools) {
      violations.check(running === (this.#pools.get(pool) ?? 0), "I43", `${running} in ${pool}`);
    }
  }
}

type Repeated = { task_key: number; count?: number | undefined };

function countOf(entries: readonly Repeated[]): number {
  return entries.reduce((sum, { count }) => sum + (count ?? 1), 0);
}

/** What an entry for several tasks says of each. */
function oneByOne<Entry extends Repeated>(entry: Entry): Entry[] {
  const all: Entry[] = [];
  for (let index = 0; index < (entry.count ?? 1); index++) {
    all.push({ ...entry, task_key: entry.task_key + index });
  }
  return all;
}

function resultsOneByOne(entry: TaskResultField): TaskResultField[] {
  if (entry.count === undefined) return [entry];
  return oneByOne(entry).map((result, index) => ({
    ...result,
    partition_keys: [entry.partition_keys[index] ?? "?"],
  }));
}

/** The run id by its formula, spelt out with the platform's own functions. */
function runIdOf({ tenant_id, workspace_id }: Workspace, runKey: string): string {
  const text = `${tenant_id}:${workspace_id}:${runKey}`;
  const bytes = createHmac("sha256", SECRET).update(text).digest().subarray(0, 16);
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, "0")).join("");
  const letters = bits.match(/.{1,5}/g) ?? [];
  const base32 = letters.map(
    (five) => "abcdefghijklmnopqrstuvwxyz234567"[Number.parseInt(five.padEnd(5, "0"), 2)],
  );
  return `run_${base32.join("").slice(0, 26)}`;
}

/** Whether a check that blocks did not pass what was made at a place. */
function isBlocked({ checks = [] }: TaskResultField, place: number, outcome: string): boolean {
  if (outcome !== "SUCCEEDED") return false;
  return checks.some(({ blocking, passed, partitions }) => {
    const isHere = partitions?.some(([from, to]) => from <= place && place <= to) ?? true;
    return blocking === true && !passed && isHere;
  });
}
