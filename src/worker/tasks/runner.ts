import type { WorkerConnection } from "../../client/worker-connection.ts";
import type { Materialize, TaskResult } from "../../define/automation-context.ts";
import type { Check } from "../../define/check.ts";
import type { Project } from "../../define/define-pawl.ts";
import type { Json } from "../../kernel/canonical.ts";
import { PawlError, present } from "../../kernel/errors.ts";
import {
  dimensionsOf,
  isTimeDefinition,
  type PartitionDefinition,
  type SingleDefinition,
} from "../../kernel/keyspace/definition.ts";
import type { DynamicKeys, Keyspace, TimeWindow } from "../../kernel/keyspace/keyspace.ts";
import {
  countPartitions,
  singleKeyspace,
  valuesOfMultiKey,
} from "../../kernel/keyspace/keyspace-of.ts";
import type { HeadResult, ProbeResult } from "../../work/probe-protocol.ts";
import type { UpstreamAnswer } from "../../work/asset/upstream-protocol.ts";
import type { ClaimAnswer } from "../../work/run/protocol.ts";
import { shardWorkNames } from "../../work/shard/spec.ts";
import { workNameOf } from "../../work/sync/spec.ts";
import {
  type LeaseKeeping,
  type LeaseNews,
  startLeaseKeeper,
  type TaskProgress,
} from "../lease-keeper.ts";
import { BACKOFF_MS_MAX, backoffMs, type Clock, pause } from "../outbox.ts";
import type { WorkerLogger } from "../run-worker.ts";
import { runSegment, type SegmentHost } from "../segments/run-segment.ts";
import { plainSyncCode } from "../segments/source-failure.ts";
import type { SourceGates } from "../segments/source-gates.ts";
import { type OpenShards, runStep, type StepSurroundings } from "../steps/run-step.ts";
import type { FromWorkerProcess } from "../worker-process-messages.ts";
import {
  type AttemptHost,
  TaskAttempt,
  type TaskCode,
  taskContext,
  type WorkerLease,
} from "./attempt.ts";
import type { TaskOutput } from "./console-lines.ts";
import { openTaskMessages, type TaskMessages } from "./messages.ts";
import type { StopCause, TaskOutcome } from "./outcome.ts";
import { runChecks } from "./run-checks.ts";
import { type ClaimRides, Solitude, TaskSlots } from "./task-slots.ts";
import type { UpstreamPage } from "./upstream.ts";

/** The code of all work that the project has, by the name that it is claimed under. */
export function taskCodeOf(
  project: Project,
  host: SegmentHost & Omit<StepSurroundings, "allowsDdl">,
): ReadonlyMap<string, TaskCode> {
  return new Map([
    ...assetCodes(project),
    ...syncCodes(project, host),
    ...shardCodes(project, host),
  ]);
}

function assetCodes({ specs, functions, checks }: Project): [string, TaskCode][] {
  const codes: [string, TaskCode][] = [];
  for (const spec of specs) {
    if (spec.kind !== "asset") continue;
    const materialize = functions.get(spec.asset_key);
    if (materialize === undefined) continue;
    const reader =
      spec.partitions === null ? null : partitionReaderOf(spec.asset_key, spec.partitions);
    const code: TaskCode = (attempt) => {
      for (const key of attempt.task.partition_keys) reader?.valuesOf(key);
      const made = materialize(taskContext(attempt, reader));
      const own = checks.get(spec.asset_key);
      return own === undefined ? made : thenChecked(attempt, own, reader, made);
    };
    codes.push([spec.asset_key, code]);
  }
  return codes;
}

async function thenChecked(
  attempt: TaskAttempt,
  checks: readonly Check[],
  reader: PartitionReader | null,
  made: ReturnType<Materialize>,
): Promise<TaskResult | void> {
  const result = await made;
  await runChecks(attempt, checks, reader, result);
  return result;
}

function syncCodes({ syncs }: Project, host: SegmentHost): [string, TaskCode][] {
  return [...syncs].map(([name, functions]) => {
    const plain = plainSyncCode(functions);
    const code: TaskCode = (attempt) => {
      const { segment } = attempt.group;
      // Only work of syncs is claimed under their names, so it has a segment.
      if (segment === undefined) throw new Error(`A task of the sync ${name} has no segment.`);
      return runSegment(attempt, segment, plain, host);
    };
    return [workNameOf(name), code];
  });
}

function shardCodes(
  { shards, allowsDdl }: Project,
  host: Omit<StepSurroundings, "allowsDdl">,
): [string, TaskCode][] {
  const code: TaskCode = (attempt) => {
    const { step } = attempt.group;
    // Only steps are claimed under the names of shards.
    if (step === undefined) throw new Error(`${attempt.group.asset_key} has no step.`);
    return runStep(attempt, step, { ...host, allowsDdl });
  };
  return shardWorkNames([...shards.keys()]).map((name) => [name, code]);
}

/** How often progress of one task is passed on. */
const PROGRESS_MS = 100;

const STOPPED: StopCause = {
  type: "stopped",
  message: "The worker stopped and gave the task back.",
};
const LOST: StopCause = { type: "lost", message: "The task's lease is lost." };
const UNCONFIRMED: StopCause = {
  type: "lost",
  message: "The task's lease could not be renewed in time.",
};
const CANCELLED: StopCause = { type: "cancelled", message: "The task was cancelled." };

/** What the tasks of a worker need around them. */
export type TaskRunnerOptions = {
  connection: WorkerConnection;
  project: Project;
  workerId: string;
  codeVersion: string | null;
  logger: WorkerLogger;
  gates: SourceGates;
  shards: OpenShards;
  abandonMs: number;
  output: TaskOutput;
  clock: Clock;
  random: () => number;
  /** The same when the whole worker stops. */
  stopAbandonMs: number;
  /** Claims that go along with reports. */
  rides: ClaimRides;
  holding?: (news: HoldingNews) => void;
  /** Told when the worker cannot go on. */
  fail: (error: PawlError) => void;
};

/** What is said of the tasks that a worker holds. */
export type HoldingNews = Extract<
  FromWorkerProcess,
  { type: "took" | "began" | "settled" | "look" | "looked" }
>;

/** A look, with what gives it back. */
export type HeldLook = { probe: ProbeResult } | { head: HeadResult };

/** Keeps the lease of a look until it is let go; `lost` is told when it is somebody else's by then. */
export type KeepLook = (
  look: HeldLook,
  times: { ttlMs: number; timeoutMs: number },
  lost: () => void,
) => () => void;

/** Holds the claimed tasks, runs them lane by lane, and sees to it that each is reported. */
export class TaskRunner implements AttemptHost {
  readonly clock: Clock;
  readonly abandonMs: number;
  readonly output: TaskOutput;
  readonly #options: TaskRunnerOptions;
  readonly #codes: ReadonlyMap<string, TaskCode>;
  readonly #keeper: LeaseKeeping;
  readonly #messages: TaskMessages;
  /** Every attempt that is not settled with the server. */
  readonly #attempts = new Map<number, TaskAttempt>();
  readonly #progress = new Map<TaskAttempt, TaskProgress | null>();
  /** What to tell of looks that are kept here for others. */
  readonly #looks = new Map<number, () => void>();
  readonly #lanes: TaskSlots[] = [];
  /** Lets a task be alone that may take the process down. */
  readonly solitude: Solitude;
  readonly #laneOf = new Map<TaskAttempt, TaskSlots>();
  #nextId = 1;

  constructor(options: TaskRunnerOptions) {
    this.#options = options;
    this.clock = options.clock;
    this.abandonMs = options.abandonMs;
    this.output = options.output;
    this.solitude = new Solitude(options.clock, () => this.#openCount());
    this.#codes = taskCodeOf(options.project, options);
    this.#keeper = startLeaseKeeper({ ...options, tell: (news) => this.#hear(news) });
    this.#messages = openTaskMessages({
      ...options,
      settled: (attempts) => this.#settle(attempts),
    });
  }

  /** Resolves once a task that blocks this thread at once would keep its lease. */
  get ready(): Promise<void> {
    return this.#keeper.ready;
  }

  /** Opens a lane: so many tasks at once, besides those of the others. */
  openLane(concurrency: number, isPatient = true): TaskSlots {
    const lane = new TaskSlots({ concurrency, isPatient }, this.clock, (attempt) => {
      this.#options.holding?.({ type: "began", task: attempt.ref });
      attempt.start(this.#codes.get(attempt.group.asset_key));
    });
    this.#lanes.push(lane);
    return lane;
  }

  /** Keeps the lease of a look, which others make. */
  readonly keepLook: KeepLook = (look, times, lost) => {
    const id = this.#nextId++;
    const { probe_id, attempt } = "probe" in look ? look.probe : look.head;
    this.#looks.set(id, lost);
    this.#options.holding?.({ type: "look", id, ...look });
    this.#keeper.holdLook({ id, look: { probe_id, attempt }, ...times });
    return () => {
      if (!this.#looks.delete(id)) return;
      this.#options.holding?.({ type: "looked", id });
      this.#keeper.settle([id]);
      this.solitude.changed();
    };
  };

  /**
   * Takes what a claim got; gives it back when something is on trial by now, or it was given to a process
   * that was empty when it asked, and is not any more. Unless fresh, the lease may have been granted some
   * time ago.
   */
  accept(lane: TaskSlots, answer: ClaimAnswer, isFresh: boolean, wasEmpty = false): void {
    const { alone_ms: aloneMs } = answer;
    const isCrowded = aloneMs !== undefined && wasEmpty && !this.solitude.isEmpty;
    if (isCrowded || (this.solitude.isTrial && lane.isPatient)) {
      this.decline(lane, answer);
      return;
    }
    const attempts = this.#hold(lane, answer, isFresh);
    const [first] = attempts;
    if (aloneMs !== undefined && first !== undefined) this.solitude.try(first, aloneMs);
    lane.take(attempts);
  }

  /** Gives back what a claim got: it came too late to be started. */
  decline(lane: TaskSlots, answer: ClaimAnswer): void {
    for (const attempt of this.#hold(lane, answer, true)) attempt.stop(STOPPED);
  }

  #hold(
    lane: TaskSlots,
    { lease_id, ttl_ms, groups, alone_ms }: ClaimAnswer,
    isFresh: boolean,
  ): TaskAttempt[] {
    const count = groups.reduce((sum, { tasks }) => sum + tasks.length, 0);
    if (count === 0) return [];
    const lease: WorkerLease = {
      leaseId: lease_id,
      ttlMs: ttl_ms,
      unreported: count,
      deadAt: null,
      isForsaken: false,
    };
    const attempts = groups.flatMap((group) =>
      group.tasks.map((task) => new TaskAttempt(this.#nextId++, lease, group, task, this)),
    );
    const refs = attempts.map(({ ref }) => ref);
    const alone = alone_ms === undefined ? {} : { alone_ms };
    this.#options.holding?.({ type: "took", lease_id, tasks: refs, ...alone });
    // Before any of them starts: a function may block this thread at once.
    this.#keeper.hold({
      leaseId: lease_id,
      ttlMs: ttl_ms,
      isFresh,
      tasks: attempts.map(({ id, ref, group }) => ({
        id,
        ref,
        timeoutMs: group.timeout_ms,
        stallAfterMs: group.stall_after_ms,
      })),
    });
    for (const attempt of attempts) {
      this.#attempts.set(attempt.id, attempt);
      this.#laneOf.set(attempt, lane);
    }
    lane.opened(count);
    return attempts;
  }

  /**
   * Gives back what has not started, lets the rest finish for the grace time, gives back what is
   * still running then, and resolves when all of it is reported or `drainMs` have passed.
   */
  async stop(graceMs: number, drainMs: number): Promise<void> {
    for (const lane of this.#lanes) lane.stopWaiting(STOPPED);
    await this.#allEnded(graceMs);
    for (const attempt of this.#attempts.values()) if (!attempt.isEnded) attempt.stop(STOPPED);
    await this.#allEnded(this.#options.stopAbandonMs + PROGRESS_MS);
    for (const attempt of this.#attempts.values()) attempt.abandon();
    const drained = new AbortController();
    await Promise.race([
      this.#messages.drain().finally(() => drained.abort()),
      pause(this.clock, drainMs, drained.signal),
    ]);
    this.#keeper.close();
  }

  async #allEnded(ms: number): Promise<void> {
    await Promise.all(this.#lanes.map((lane) => lane.openAtMost(0, ms)));
  }

  ended(attempt: TaskAttempt, outcome: TaskOutcome | null): void {
    this.#progress.delete(attempt);
    if (outcome === null) this.#messages.drop(attempt);
    else this.#messages.report(attempt, outcome);
    this.#laneOf.get(attempt)?.ended(attempt);
    this.#laneOf.delete(attempt);
    this.solitude.ended(attempt);
  }

  progressed(attempt: TaskAttempt, progress: TaskProgress | null): void {
    const now = this.clock.now();
    if (now - attempt.progressSentAt >= PROGRESS_MS) {
      attempt.progressSentAt = now;
      this.#progress.delete(attempt);
      this.#keeper.progress(attempt.id, progress);
      return;
    }
    if (this.#progress.size === 0) this.clock.after(PROGRESS_MS, () => this.#passProgressOn());
    this.#progress.set(attempt, progress ?? this.#progress.get(attempt) ?? null);
  }

  checkpoint(attempt: TaskAttempt, value: Json): Promise<void> {
    return this.#messages.checkpoint(attempt, value);
  }

  log(attempt: TaskAttempt, message: string, fields: Json, endsAttempt = false): void {
    this.#messages.log(attempt, message, fields, endsAttempt);
  }

  async readUpstream(attempt: TaskAttempt, page: UpstreamPage): Promise<UpstreamAnswer> {
    const { connection, random } = this.#options;
    for (let failures = 1; ; failures++) {
      try {
        return await connection.upstream({ ...attempt.ref, ...page });
      } catch (error) {
        if (!(error instanceof PawlError)) throw error;
        if (error.code === "LEASE_LOST") attempt.stop(LOST);
        if (!error.retryable) throw error;
      }
      await pause(this.clock, backoffMs(failures, random, BACKOFF_MS_MAX), attempt.signal);
      attempt.signal.throwIfAborted();
    }
  }

  #passProgressOn(): void {
    const now = this.clock.now();
    for (const [attempt, progress] of this.#progress) {
      attempt.progressSentAt = now;
      this.#keeper.progress(attempt.id, progress);
    }
    this.#progress.clear();
  }

  #settle(attempts: readonly TaskAttempt[]): void {
    for (const { id } of attempts) this.#attempts.delete(id);
    this.#options.holding?.({ type: "settled", tasks: attempts.map(({ ref }) => ref) });
    this.#keeper.settle(attempts.map(({ id }) => id));
  }

  #openCount(): number {
    return this.#lanes.reduce((sum, { openCount }) => sum + openCount, this.#looks.size);
  }

  #hear(news: LeaseNews): void {
    if (news.type === "refused") {
      this.#options.fail(new PawlError(news.code, news.message));
      return;
    }
    for (const id of news.ids) {
      const lost = this.#looks.get(id);
      if (!this.#looks.delete(id)) continue;
      this.#options.holding?.({ type: "looked", id });
      lost?.();
    }
    const attempts = news.ids.flatMap((id) => this.#attempts.get(id) ?? []);
    for (const attempt of attempts) {
      if (news.type === "lost") attempt.stop(LOST);
      else if (news.type === "cancelled") attempt.stop(CANCELLED);
      else this.#hearUnconfirmed(attempt);
    }
    if (attempts.length > 0 && news.type !== "cancelled") {
      const message = "Leases were lost or could not be renewed; their tasks are aborted.";
      this.#options.logger.warn({ tasks: attempts.length, reason: news.type }, message);
    }
  }

  /** What is done may still be reported for the last third of the lease. */
  #hearUnconfirmed(attempt: TaskAttempt): void {
    attempt.lease.deadAt ??= this.clock.now() + attempt.lease.ttlMs / 3;
    if (!attempt.isEnded) attempt.stop(UNCONFIRMED);
  }
}

/** What a partition's key says, by the definition that the worker's code has. */
export interface PartitionReader {
  /** The value in each dimension; `PARTITION_INVALID` when the definition has no such key. */
  valuesOf(key: string): Record<string, string>;
  /** The stretch of time of the key, or null when the definition is not by time. */
  windowOf(key: string): TimeWindow | null;
}

type ReadDimension = { name: string; keyspace: Keyspace | null };

/** Keys of dynamic definitions are known to the server only; the worker takes them as they come. */
const NO_KEYS: DynamicKeys = { count: () => 0, keyAt: () => "", indexOf: () => null };

/** The reader of a definition's keys; a key of the future is as good as one of the past. */
export function partitionReaderOf(
  assetKey: string,
  definition: PartitionDefinition,
): PartitionReader {
  const dimensions = dimensionsOf(definition).map(({ name, definition: single }) => ({
    name,
    keyspace: keyspaceWithoutNow(single),
  }));
  const names = dimensions.map(({ name }) => name);
  const timed = dimensions.filter(({ keyspace }) => keyspace !== null && keyspace.time !== null);

  function read(key: string): string[] {
    const values = definition.type === "multi" ? valuesOfMultiKey(key, names) : [key];
    if (values === null || !values.every((value, at) => holds(dimensions[at], value))) {
      throw new PawlError(
        "PARTITION_INVALID",
        `The worker's code has no partition ${JSON.stringify(key)} of ${assetKey}: ` +
          "its definition has changed since this work was planned, or the worker runs other code.",
        { details: { asset_key: assetKey, partition_key: key } },
      );
    }
    return values;
  }

  return {
    valuesOf(key) {
      const values = read(key);
      return Object.fromEntries(names.map((name, at) => [name, values[at] ?? ""]));
    },
    windowOf(key) {
      const [only] = timed;
      if (only === undefined || timed.length > 1) return null;
      const value = read(key)[dimensions.indexOf(only)] ?? "";
      const keyspace = present(only.keyspace, "a dimension by time has a keyspace");
      return keyspace.windowAt(present(keyspace.indexOf(value), "the key was read"));
    },
  };
}

function keyspaceWithoutNow(definition: SingleDefinition): Keyspace | null {
  if (definition.type === "dynamic") return null;
  const isOpen = isTimeDefinition(definition) && definition.end === undefined;
  const count = isOpen ? Number.MAX_SAFE_INTEGER : countPartitions(definition, NO_KEYS, 0);
  return singleKeyspace(definition, NO_KEYS, count);
}

function holds(dimension: ReadDimension | undefined, value: string): boolean {
  if (dimension === undefined) return false;
  return dimension.keyspace === null || dimension.keyspace.indexOf(value) !== null;
}
