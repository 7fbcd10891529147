import { addMs } from "../../kernel/instant.ts";
import { present } from "../../kernel/errors.ts";
import type { Key } from "../../kernel/table.ts";
import { type Context, KEY_COST, type RoomUsed } from "../decision.ts";
import type { Requirement } from "../definition/spec.ts";
import type { NewEvent } from "../events.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import type { Rows } from "../rows.ts";
import { RunClosings } from "../run/report.ts";
import type { RunAssetRow, RunRow, TaskRow } from "../run/rows.ts";
import { keysOfTask, REQUIRES_CLASS, runRef, sizeOfTask } from "../run/tasks.ts";
import type { TaskWait, UnmetReason } from "./events.ts";
import {
  isTooMany,
  judgeTasks,
  type Judgement,
  REQUIRED_MAX,
  type TooMany,
  type Unmet,
} from "./judge.ts";

/** Most tasks that are judged at once, and most upstream partitions that one decision looks at. */
const JUDGED_AT_ONCE = 100;
const LOOKS_MAX = 4 * REQUIRED_MAX;
/** Most runs of which one decision puts tasks aside: each has an event or two. */
const RUNS_MAX = 200;

const NOT_THERE: Record<UnmetReason, string> = {
  NEVER_MATERIALIZED: "is missing",
  CODE_CHANGED: "is stale: its code changed",
  UPSTREAM_CHANGED: "is stale: something upstream of it changed",
  FRESHNESS_POLICY: "is stale by its freshness policy",
  CHECK_FAILED: "did not pass a blocking check",
};

/** What a task lacks, in words: `orders 2025-01-03, which is missing, and 2 other partitions`. */
export function lackText({
  asset_key,
  partition_key,
  reason,
  others,
}: Pick<TaskWait, "asset_key" | "partition_key" | "reason" | "others">): string {
  const what = partition_key === "" ? asset_key : `${asset_key} ${partition_key}`;
  const rest =
    others === 0 ? "" : `, and ${others} other ${others === 1 ? "partition" : "partitions"}`;
  return `${what}, which ${NOT_THERE[reason]}${rest}`;
}

/** Tasks of one run that wait. */
type WaitingOfRun = {
  run: RunRow;
  tasks: { asset: RunAssetRow; task: TaskRow; waits: TaskWait }[];
};

/** What was found of tasks of one asset, which requires this now. */
type Known = { requires: Requirement | null; judgement: Judgement };

/**
 * Holds the tasks of a claim to what their assets require of their upstream. What lacks something is put
 * aside: it waits, or ends as skipped or failed. Assets that require nothing cost nothing.
 */
export class Demands {
  readonly #rows: Rows;
  readonly #context: Context;
  readonly #used: RoomUsed;
  readonly #closings: RunClosings;
  readonly #known = new Map<string, Known>();
  readonly #waiting = new Map<number, WaitingOfRun>();
  readonly #runs = new Set<number>();
  /** Tasks that were put aside: a claim may come to them again. */
  readonly #aside = new Set<string>();
  #looked = 0;
  #isFull = false;

  constructor(rows: Rows, context: Context, used: RoomUsed) {
    this.#rows = rows;
    this.#context = context;
    this.#used = used;
    this.#closings = new RunClosings(rows, context);
  }

  /** Whether the decision has looked at, or put aside, all that it has room for. */
  get isFull(): boolean {
    return this.#isFull;
  }

  /** Whether tasks did not start for what they lack: others may have been behind them. */
  get hasPutAside(): boolean {
    return this.#runs.size > 0;
  }

  /** Has loaded what the first tasks of these assets of runs are held to, with few loads for all of them. */
  need(assets: readonly RunAssetRow[], most: number, tasksOf: (asset: RunAssetRow) => Tasks): void {
    this.#rows.specs.need(assets.map(({ spec_hash }): Key => [spec_hash]));
    const demanding = assets.filter((asset) => this.#isDemanding(asset));
    if (demanding.length === 0) return;
    const keys = demanding.flatMap(({ run_pos }): Key[] => {
      const run = present(this.#rows.runs.get(run_pos), "an asset has its run");
      return run.asset_selection.map((_, index): Key => [run_pos, index]);
    });
    this.#rows.runAssets.need(keys);
    for (const [assetKey, own] of Map.groupBy(demanding, ({ asset_key }) => asset_key)) {
      const tasks = own.flatMap((asset) =>
        firstOf(tasksOf(asset), most).map((task) => ({ asset, task })),
      );
      this.#judge(assetKey, tasks);
    }
  }

  /** Those of the tasks of one asset of a run that may start now; the others are put aside. */
  *startable(asset: RunAssetRow, tasks: Tasks, most: number): Generator<TaskRow> {
    if (!this.#isDemanding(asset)) {
      yield* tasks;
      return;
    }
    const size = Math.max(1, Math.min(most, JUDGED_AT_ONCE));
    let batch: TaskRow[] = [];
    for (const task of tasks) {
      batch.push(task);
      if (batch.length < size) continue;
      yield* this.#startableOf(asset, batch);
      if (this.#isFull) return;
      batch = [];
    }
    yield* this.#startableOf(asset, batch);
  }

  /** Whether the asset required something when the run was asked for: what it is now is looked up then. */
  #isDemanding({ spec_hash }: RunAssetRow): boolean {
    const { body } = present(this.#rows.specs.get(spec_hash), "a spec is kept while referenced");
    return body.kind === "asset" && body.requires !== undefined;
  }

  #startableOf(asset: RunAssetRow, tasks: readonly TaskRow[]): TaskRow[] {
    const unknown = tasks.filter((task) => !this.#known.has(nameOf(task)));
    this.#judge(
      asset.asset_key,
      unknown.map((task) => ({ asset, task })),
    );
    const startable: TaskRow[] = [];
    for (const task of tasks) {
      if (this.#aside.has(nameOf(task))) continue;
      const known = this.#known.get(nameOf(task));
      if (known === undefined) this.#isFull = true;
      else if (known.requires === null || known.judgement === null) startable.push(task);
      else this.#putAside(asset, task, known.requires, known.judgement);
      if (this.#isFull) break;
    }
    return startable;
  }

  #judge(assetKey: string, tasks: readonly { asset: RunAssetRow; task: TaskRow }[]): void {
    const room = LOOKS_MAX - this.#looked;
    if (tasks.length === 0 || room <= 0) return;
    const keys = tasks.map(({ asset, task }) => keysOfTask(this.#runOf(asset), asset, task));
    const judged = judgeTasks(this.#rows, assetKey, keys, this.#context, room);
    this.#looked += judged.looked;
    for (const [at, judgement] of judged.judgements.entries()) {
      const { task } = present(tasks[at], "what was judged was asked for");
      this.#known.set(nameOf(task), { requires: judged.requires, judgement });
    }
  }

  #runOf({ run_pos }: RunAssetRow): RunRow {
    return present(this.#rows.runs.get(run_pos), "an asset has its run");
  }

  #putAside(
    asset: RunAssetRow,
    task: TaskRow,
    { otherwise, wait_timeout_ms }: Requirement,
    lacks: Unmet | TooMany,
  ): void {
    const run = this.#runOf(asset);
    const rows = 1 + sizeOfTask(run, asset, task) * KEY_COST + (task.downstream?.length ?? 0);
    const isRoom = this.#runs.has(run.run_pos) || this.#runs.size < RUNS_MAX;
    if (!isRoom || !this.#used.take(rows, WAIT_LENGTH)) {
      this.#isFull = true;
      return;
    }
    this.#runs.add(run.run_pos);
    this.#aside.add(nameOf(task));
    if (isTooMany(lacks)) {
      this.#end(task, "FAILED", tooManyText(lacks));
      return;
    }
    const { now } = this.#context;
    if (otherwise !== "wait") {
      const outcome = otherwise === "skip" ? "SKIPPED" : "FAILED";
      this.#end(task, outcome, `it requires ${lackText(lacks)}`);
      return;
    }
    const since = task.waits?.since ?? now;
    const until = task.waits?.until ?? addMs(now, wait_timeout_ms);
    if (until <= now) {
      this.#end(task, "FAILED", `it waited since ${since} for ${lackText(lacks)}`);
      return;
    }
    const own = this.#waiting.get(run.run_pos) ?? { run, tasks: [] };
    this.#waiting.set(run.run_pos, own);
    own.tasks.push({ asset, task, waits: { ...lacks, since, until } });
  }

  #end(task: TaskRow, outcome: "SKIPPED" | "FAILED", message: string): void {
    this.#closings.of(task.run_pos).close(task, outcome, { class: REQUIRES_CLASS, message });
  }

  /** What is to be recorded of the tasks that did not start. */
  events(): NewEvent[] {
    const ended = this.#closings.events("unmet");
    return [...ended, ...[...this.#waiting.values()].map((own) => this.#deferred(own))];
  }

  #deferred({ run, tasks }: WaitingOfRun): NewEvent {
    const assets = new Map(tasks.map(({ asset }) => [asset.asset_index, asset.pool]));
    return {
      type: "TasksDeferred",
      idempotency_key: IDEMPOTENCY_KEYS.tasksWaiting(run.run_id, "deferred", this.#context.nextPos),
      data: {
        ...runRef(run),
        assets: [...assets].map(([asset_index, pool]) => ({ asset_index, pool })),
        tasks: tasks.map(({ asset: { asset_index, asset_key }, task, waits }) => {
          return { task_key: task.task_key, attempt: task.attempt, asset_index, asset_key, waits };
        }),
      },
    };
  }
}

/** Tasks one by one, for who may not want them all. */
type Tasks = Iterable<TaskRow>;

/** About how long an event says what one task waits for, in characters. */
const WAIT_LENGTH = 400;

function firstOf(tasks: Tasks, most: number): TaskRow[] {
  const first: TaskRow[] = [];
  if (most <= 0) return first;
  for (const task of tasks) if (first.push(task) >= most) break;
  return first;
}

function nameOf({ run_pos, task_key }: TaskRow): string {
  return `${run_pos}/${task_key}`;
}

function tooManyText({ asset_key, count }: TooMany): string {
  return (
    `it requires ${count} upstream partitions, most of them of ${asset_key}; no more than ` +
    `${REQUIRED_MAX} are looked at before a task starts. Make smaller batches, map to fewer partitions, or leave requires out`
  );
}
