import { needTasksAt, taskOf } from "./task-blocks.ts";
import { PawlError, present } from "../../kernel/errors.ts";
import type { NewEvent } from "../events.ts";
import type { TaskResultField } from "./events.ts";
import {
  assetsOfRun,
  isHeldBy,
  keysOfTask,
  needTasks,
  repeatedResults,
  runRef,
  sizeOfTask,
} from "./tasks.ts";
import type { KindRuns } from "../kind.ts";
import { addMs, type Instant } from "../../kernel/instant.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import { isOneToOne } from "../../kernel/keyspace/mapping.ts";
import {
  KEY_ADDITIONS_MAX,
  type KeyAddition,
  type ReportedResult,
  type ReportRequest,
} from "./protocol.ts";
import { boundedFailure } from "../envelope.ts";
import { KeyAdditions } from "../definition/partition-keys.ts";
import type { Failure } from "../backfill/rows.ts";
import type { Rows } from "../rows.ts";
import type { RunAssetRow, RunRow, TaskRow } from "./rows.ts";
import type { Key } from "../../kernel/table.ts";
import { DURATION_MS_MAX, lostAttemptsMax, type RetryPolicy } from "../definition/spec.ts";
import { isMadeInOrder } from "../asset/lineage.ts";
import { checkVerdicts } from "../asset/checks.ts";
import { needPartitions, partitionAt } from "../asset/partition-blocks.ts";
import { pinnedSpec, pinnedWork } from "../asset/look-up.ts";
import { type Context, type Decision, DECISION_EVENTS_MAX, RoomUsed } from "../decision.ts";
import { KINDS, kindOf } from "../kinds.ts";
import { lengthOf } from "./request.ts";
import { givenUp, lostInARow, retryDelayMs } from "./retries.ts";

/** Most runs whose results one decision records: the row of a run holds all keys of its partitions. */
const RUNS_REPORTED_MAX = 100;

/**
 * Records how attempts ended, of as many as there is room for, in order; answers what became of those.
 * Judged per item: what is not of the current attempt is lost.
 */
export function reportTasks(request: ReportRequest) {
  return (rows: Rows, context: Context): Decision<("recorded" | "lost")[]> => {
    const results = ofFirstRuns(request.results);
    needReported(rows, results);
    const closings = new RunClosings(rows, context);
    const additions = new KeyAdditions(rows, context);
    needKeys(rows, additions, results, context);
    const used = new RoomUsed(context.room);
    const seen = new Set<string>();
    const verdicts: ("recorded" | "lost")[] = [];
    for (const reported of results) {
      const task = taskOf(rows, reported.run_pos, reported.task_key);
      const name = `${reported.run_pos}/${reported.task_key}`;
      if (!isHeldBy(task, reported.attempt, context.holder) || seen.has(name)) {
        verdicts.push("lost");
        continue;
      }
      const closing = closings.of(task.run_pos);
      if (additions.events.length > KEY_EVENTS_MAX) break;
      if (!closing.takeRoom(used, task, reported)) break;
      seen.add(name);
      const end = reported.crashed === true ? { ...reported, lost: true } : reported;
      closing.add(task, withKeysAdded(additions, end, closing.run), request.code_version);
      verdicts.push("recorded");
    }
    // The keys come first: what runs next may be about partitions that are there.
    return { events: [...additions.events, ...closings.events()], result: verdicts };
  };
}

/** Events that add keys after which a decision leaves the other results to the next one. */
const KEY_EVENTS_MAX = DECISION_EVENTS_MAX - RUNS_REPORTED_MAX - KEY_ADDITIONS_MAX * 2;

/** What an attempt adds to dynamic partitions: only a success adds anything. */
function keysAddedBy({ outcome, added_keys = [] }: ReportedResult): readonly KeyAddition[] {
  return outcome === "SUCCEEDED" ? added_keys : [];
}

function keyCount(result: ReportedResult): number {
  return keysAddedBy(result).reduce((sum, { keys }) => sum + keys.length, 0);
}

/**
 * Has looked up the keys that results add, with one look-up for each definition: of whom nothing is taken,
 * and beyond the room of one decision, none.
 */
function needKeys(
  rows: Rows,
  { keys }: KeyAdditions,
  results: readonly ReportedResult[],
  { holder, room }: Context,
): void {
  const used = new RoomUsed(room);
  const looked: KeyAddition[] = [];
  for (const result of results) {
    const count = keyCount(result);
    const { run_pos, task_key, attempt } = result;
    if (count === 0 || !isHeldBy(taskOf(rows, run_pos, task_key), attempt, holder)) continue;
    if (!used.take(count, 0)) break;
    for (const addition of keysAddedBy(result)) looked.push(addition);
  }
  for (const [definition, each] of Map.groupBy(looked, (addition) => addition.definition)) {
    const all = new Set(each.flatMap((addition) => addition.keys));
    keys.indexesOf(definition, [...all]);
  }
}

/** Adds the keys of an attempt. One whose keys cannot be added has failed, with the reason. */
function withKeysAdded(additions: KeyAdditions, end: AttemptEnd, { run_id }: RunRow): AttemptEnd {
  const { run_pos, task_key, attempt } = end;
  try {
    const added = keysAddedBy(end);
    if (added.length > 0) additions.addTogether(added, `task:${run_id}:${task_key}:${attempt}`);
    return end;
  } catch (error) {
    if (!(error instanceof PawlError)) throw error;
    const failure = boundedFailure({ class: "input", message: error.message });
    return { run_pos, task_key, attempt, outcome: "FAILED", error: failure };
  }
}

/** The first results, up to those of one run more than may be reported at once. */
function ofFirstRuns(results: readonly ReportedResult[]): readonly ReportedResult[] {
  const runs = new Set<number>();
  const end = results.findIndex(({ run_pos }) => runs.add(run_pos).size > RUNS_REPORTED_MAX);
  return end < 0 ? results : results.slice(0, end);
}

/** Has loaded what ends of attempts are about, with one load of each kind for all of them. */
export function needReported(
  rows: Rows,
  results: readonly Pick<ReportedResult, "run_pos" | "task_key">[],
): void {
  needTasksAt(rows, results);
  const running = results.filter(
    ({ run_pos, task_key }) => taskOf(rows, run_pos, task_key)?.state === "RUNNING",
  );
  rows.runs.need(running.map(({ run_pos }): Key => [run_pos]));
  const runs = [...new Set(running.map(({ run_pos }) => run_pos))].flatMap(
    (runPos) => rows.runs.get(runPos) ?? [],
  );
  rows.runAssets.need(
    runs.flatMap(({ run_pos, asset_selection }) =>
      asset_selection.map((_, index): Key => [run_pos, index]),
    ),
  );
  for (const kind of KINDS)
    kind.runs.needReported?.(
      rows,
      runs.filter((run) => kind.runs.owns(run)),
    );
}

/** The runs whose tasks one decision ends: what one result does to a run, the next one knows. */
export class RunClosings {
  readonly #rows: Rows;
  readonly #context: Context;
  readonly #closings = new Map<number, RunClosing>();

  constructor(rows: Rows, context: Context) {
    this.#rows = rows;
    this.#context = context;
  }

  of(runPos: number): RunClosing {
    const known = this.#closings.get(runPos);
    if (known !== undefined) return known;
    const closing = new RunClosing(this.#rows, runPos, this.#context);
    this.#closings.set(runPos, closing);
    return closing;
  }

  events(transition: "finished" | "unmet" = "finished"): NewEvent[] {
    return [...this.#closings.values()].flatMap((closing) =>
      closing.results.length === 0 ? [] : closing.event(transition),
    );
  }
}

/** The end of an attempt; `lost` when it went down with its worker, by no fault of the task that is known. */
export type AttemptEnd = ReportedResult & { lost?: boolean };

/** Gathers the results of one run into one event. */
class RunClosing {
  readonly #rows: Rows;
  readonly #context: Context;
  readonly run: RunRow;
  readonly #own: KindRuns | undefined;
  readonly assets: readonly RunAssetRow[];
  readonly results: TaskResultField[] = [];
  readonly #skipped = new Set<number>();
  readonly #touched = new Set<number>();

  constructor(rows: Rows, runPos: number, context: Context) {
    this.#rows = rows;
    this.#context = context;
    this.run = present(rows.runs.get(runPos), "a task has its run");
    this.#own = kindOf(this.run)?.runs;
    this.assets = assetsOfRun(rows, this.run);
  }

  /** Judges one attempt's end: is there another attempt, who is released, who can never run. */
  add(task: TaskRow, said: AttemptEnd, codeVersion: string | null): TaskResultField {
    const asset = this.asset(task);
    const reported = this.#own?.checkReport?.(this.#rows, this.run, said) ?? said;
    this.#touched.add(task.asset_index);
    const keys = keysOfTask(this.run, asset, task);
    const result: TaskResultField = {
      task_key: task.task_key,
      attempt: task.attempt,
      asset_index: task.asset_index,
      asset_key: asset.asset_key,
      outcome: reported.outcome,
      partition_keys: keys,
      partitions: sizeOfTask(this.run, asset, task),
      code_version: codeVersion ?? pinnedWork(this.#rows, asset.spec_hash).code_version,
    };
    Object.assign(result, this.#own?.kept?.(reported));
    if (isGivenBack(reported)) result.released = true;
    if (said.lost === true)
      result.lost_attempts = lostInARow(this.run, task, this.#context.now) + 1;
    if (reported.metadata !== undefined) result.metadata = reported.metadata;
    if (reported.checks !== undefined && reported.outcome === "SUCCEEDED") {
      result.checks = reported.checks;
    }
    const exceptions = exceptionsOf(reported, keys.length);
    if (exceptions !== undefined) result.exceptions = exceptions;
    const failed =
      reported.outcome === "FAILED" ||
      (exceptions?.some((item) => item.outcome === "FAILED") ?? false);
    // A success has no error, whatever the worker says; with a skip it is the reason.
    const hasError = failed || reported.outcome !== "SUCCEEDED";
    const ofPartition = exceptions?.find(({ outcome }) => outcome === "FAILED")?.error;
    const error = reported.error ?? ofPartition;
    if (hasError && error !== undefined && error !== null) result.error = error;

    if (failed && this.run.cancel_requested_at !== null && reported.outcome === "FAILED") {
      result.outcome = "CANCELLED";
    } else if (failed) {
      const retryAt = this.#retryAt(task, asset, reported, result);
      if (retryAt !== null) result.retry_at = retryAt;
      else if (result.lost_attempts !== undefined && result.error !== undefined) {
        result.error = givenUp(result.error, result.lost_attempts);
      }
    }
    if (result.retry_at === undefined) this.#propagate(task, asset, result);
    this.results.push(result);
    return result;
  }

  /** Ends a task that is not to start: no partition of it was tried. */
  close(task: TaskRow, outcome: "SKIPPED" | "FAILED", error: Failure): void {
    const asset = this.asset(task);
    this.#touched.add(task.asset_index);
    const result: TaskResultField = {
      task_key: task.task_key,
      attempt: task.attempt,
      asset_index: task.asset_index,
      asset_key: asset.asset_key,
      outcome,
      partition_keys: keysOfTask(this.run, asset, task),
      partitions: sizeOfTask(this.run, asset, task),
      code_version: null,
      error,
    };
    this.#propagate(task, asset, result);
    this.results.push({ ...result, partition_keys: [] });
  }

  /** Whether there is room for an attempt's end: it writes its partitions, and tasks that waited for it. */
  takeRoom(used: RoomUsed, task: TaskRow, reported: ReportedResult | null = null): boolean {
    const keys = keysOfTask(this.run, this.asset(task), task);
    const added = reported === null ? 0 : keyCount(reported);
    const rows = 1 + keys.length + (task.downstream?.length ?? 0) + added;
    // All that it says stands in the event: metadata, errors, checks, keys.
    const said = reported === null ? 0 : JSON.stringify(reported).length;
    return used.take(rows, lengthOf(keys) + said);
  }

  asset(task: TaskRow): RunAssetRow {
    return present(this.assets[task.asset_index], "a task has its asset");
  }

  #retryAt(
    task: TaskRow,
    asset: RunAssetRow,
    reported: ReportedResult,
    { lost_attempts: lost }: TaskResultField,
  ): Instant | null {
    if (this.run.cancel_requested_at !== null) return null;
    if (isGivenBack(reported)) return this.#context.now;
    if (reported.final === true) return null;
    const policy = this.run.retry ?? pinnedWork(this.#rows, asset.spec_hash).retry;
    const most = lost === undefined ? policy.max_attempts : this.#lostAttemptsMax(policy, reported);
    const count = lost ?? task.failures + 1;
    if (most !== null && count >= most) return null;
    const delay = retryDelayMs(policy, count, this.#context.random());
    const asked = Math.min(reported.retry_after_ms ?? 0, DURATION_MS_MAX);
    return addMs(this.#context.now, Math.max(delay, asked));
  }

  #lostAttemptsMax(policy: RetryPolicy, { crashed }: ReportedResult): number | null {
    if (this.#own?.isCommitted?.(this.#rows, this.run) === true) return null;
    // A task that only shared a process with what crashed is tried again even where it has a single attempt.
    const own = crashed === true && policy.max_attempts === 1;
    return lostAttemptsMax(own ? { ...policy, max_attempts: null } : policy);
  }

  /** Says which tasks need not wait any more, and which never can run. */
  #propagate(task: TaskRow, asset: RunAssetRow, result: TaskResultField): void {
    if (task.downstream === null) return;
    const failedKeys = this.#failedKeys(result);
    for (const key of this.#blockedBefore(task, asset)) failedKeys.add(key);
    const releases: { task_key: number; asset_index: number }[] = [];
    const skips: NonNullable<TaskResultField["skips"]> = [];
    for (const next of this.#waiting(task.downstream)) {
      const nextAsset = this.asset(next);
      const mayRun =
        failedKeys.size === 0 ||
        (asset.batch === 1 &&
          nextAsset.batch === 0 &&
          this.#needsSameKeys(asset, nextAsset) &&
          !keysOfTask(this.run, nextAsset, next).some((key) => failedKeys.has(key)));
      if (mayRun) {
        releases.push({ task_key: next.task_key, asset_index: next.asset_index });
        this.#touched.add(next.asset_index);
      } else this.#skip(next, skips);
    }
    if (releases.length > 0) result.releases = releases;
    if (skips.length > 0) result.skips = skips;
  }

  /** Whether each partition of the asset is made from the upstream partition with the same key. */
  #needsSameKeys(upstream: RunAssetRow, asset: RunAssetRow): boolean {
    const { partitions, upstream: needs } = pinnedSpec(this.#rows, asset.spec_hash);
    const above = pinnedSpec(this.#rows, upstream.spec_hash).partitions;
    return needs
      .filter(({ asset_key }) => asset_key === upstream.asset_key)
      .every(({ mapping }) => isOneToOne(mapping, partitions, above));
  }

  /** Keys that are not there for whoever waits for them. */
  #failedKeys(result: TaskResultField): Set<string> {
    if (result.outcome === "FAILED" || result.outcome === "CANCELLED") {
      return new Set(result.partition_keys);
    }
    const failed = new Set<string>();
    for (const { index, outcome } of result.exceptions ?? []) {
      const key = result.partition_keys[index];
      if (outcome === "FAILED" && key !== undefined) failed.add(key);
    }
    // What a blocking check did not pass was made, and is not there for the others of this run.
    const verdicts = checkVerdicts(result.checks ?? [], result.partition_keys.length);
    for (const [place, key] of result.partition_keys.entries()) {
      if (verdicts[place] === "BLOCKED") failed.add(key);
    }
    return failed;
  }

  /** Keys of a batch that earlier attempts of it have made, and that a check holds back. */
  #blockedBefore(task: TaskRow, asset: RunAssetRow): string[] {
    if (task.remaining === null) return [];
    const keys = keysOfTask(this.run, asset, { ...task, remaining: null });
    needPartitions(
      this.#rows,
      keys.map((key): Key => [asset.asset_key, key]),
    );
    return keys.filter((key) => {
      const known = partitionAt(this.#rows, asset.asset_key, key);
      const isOwn = known?.last_materialization_run_id === this.run.run_id;
      return isOwn && known.last_materialization_checks === "BLOCKED";
    });
  }

  #waiting(taskKeys: readonly number[]): TaskRow[] {
    const { run_pos } = this.run;
    needTasksAt(
      this.#rows,
      taskKeys.map((task_key) => ({ run_pos, task_key })),
    );
    return taskKeys
      .map((key) => present(taskOf(this.#rows, run_pos, key), "an edge joins tasks"))
      .filter((next) => next.state === "WAITING" && !this.#skipped.has(next.task_key));
  }

  #skip(first: TaskRow, skips: NonNullable<TaskResultField["skips"]>): void {
    this.#needChains();
    // A stack of our own: a chain of partitions may be longer than the call stack is deep.
    const open = [first];
    for (let task = open.pop(); task !== undefined; task = open.pop()) {
      if (this.#skipped.has(task.task_key)) continue;
      this.#skipped.add(task.task_key);
      this.#touched.add(task.asset_index);
      const partitions = sizeOfTask(this.run, this.asset(task), task);
      skips.push({ task_key: task.task_key, asset_index: task.asset_index, partitions });
      if (task.downstream !== null) open.push(...this.#waiting(task.downstream).toReversed());
    }
  }

  /** Has chains of partitions loaded at once, which would be read one by one. */
  #needChains(): void {
    const chained = this.assets.filter(
      ({ spec_hash, batch }) => batch === 0 && isMadeInOrder(pinnedSpec(this.#rows, spec_hash)),
    );
    if (chained.length > 0) needTasks(this.#rows, chained);
  }

  /** The assets whose rows the results change. */
  touchedAssets(): { asset_index: number; pool: string | null }[] {
    return [...this.#touched]
      .toSorted((a, b) => a - b)
      .map((index) => {
        const { asset_index, pool } = present(this.assets[index], "a touched asset is the run's");
        return { asset_index, pool };
      });
  }

  event(transition: "finished" | "unmet"): NewEvent {
    const { hash } = this.#context;
    // A task skipped by an earlier result may not be released by a later one.
    for (const result of this.results) {
      const kept = result.releases?.filter(({ task_key }) => !this.#skipped.has(task_key));
      if (kept !== undefined) result.releases = kept;
    }
    return {
      type: "TasksFinished",
      idempotency_key: IDEMPOTENCY_KEYS.tasks(hash, this.run.run_id, this.results, transition),
      data: {
        ...runRef(this.run),
        assets: this.touchedAssets(),
        results: repeatedResults(this.results),
      },
    };
  }
}

/** Whether the worker did not try the task to its end; what it did to its end was an attempt. */
function isGivenBack({ released, outcome }: ReportedResult): boolean {
  return released === true && outcome === "FAILED";
}

type Exceptions = NonNullable<TaskResultField["exceptions"]>;

/** Exceptions about partitions that the task has, each once, in order. */
function exceptionsOf(reported: ReportedResult, count: number): Exceptions | undefined {
  if (reported.outcome !== "SUCCEEDED" || reported.exceptions === undefined) return undefined;
  const byIndex = new Map<number, Exceptions[number]>();
  for (const item of reported.exceptions) if (item.index < count) byIndex.set(item.index, item);
  if (byIndex.size === 0) return undefined;
  return [...byIndex.values()].toSorted((a, b) => a.index - b.index);
}

/** The attempt of a worker that was not heard of in time, or that took too long. */
export function leaseExpired(
  closings: RunClosings,
  task: TaskRow,
  error: Failure,
  lost: boolean,
): NewEvent {
  const closing = closings.of(task.run_pos);
  const result = closing.add(
    task,
    {
      run_pos: task.run_pos,
      task_key: task.task_key,
      attempt: task.attempt,
      outcome: "FAILED",
      error,
      lost,
    },
    null,
  );
  const { run } = closing;
  return {
    type: "TaskLeaseExpired",
    idempotency_key: IDEMPOTENCY_KEYS.leaseExpired(run.run_id, task.task_key, task.attempt),
    data: {
      ...runRef(run),
      task_key: task.task_key,
      attempt: task.attempt,
      assets: closing.touchedAssets(),
      result,
    },
  };
}
