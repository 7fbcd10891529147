import type { Json } from "../../kernel/canonical.ts";
import { PawlError } from "../../kernel/errors.ts";
import {
  type ClaimedGroup,
  type KeyAddition,
  levelFields,
  type TaskRef,
} from "../../work/run/protocol.ts";
import type { CheckResult } from "../../work/asset/checks.ts";
import type { UpstreamAnswer } from "../../work/asset/upstream-protocol.ts";
import type { SegmentReport } from "../../work/sync/segment-protocol.ts";
import type { StepReport } from "../../work/shard/step-protocol.ts";
import type {
  DynamicPartitions,
  TaskContext,
  TaskResult,
} from "../../define/automation-context.ts";
import { GatheredKeys } from "../gathered-keys.ts";
import type { Clock } from "../outbox.ts";
import type { TaskProgress } from "../lease-keeper.ts";
import {
  PartitionExceptions,
  metadataOf,
  outcomeOfError,
  outcomeOfStop,
  type StopCause,
  type TaskOutcome,
} from "./outcome.ts";
import { plainError, messageOf, shortened, readableText } from "../plain-values.ts";
import type { TimeWindow } from "../../kernel/keyspace/keyspace.ts";
import type { PartitionReader } from "./runner.ts";
import { asOwnerOfLines, type TaskOutput } from "./console-lines.ts";
import { eachUpstream, type UpstreamPage, upstreamList } from "./upstream.ts";

/** One lease of this worker and how many of its tasks are not reported yet. */
export type WorkerLease = {
  leaseId: string;
  ttlMs: number;
  unreported: number;
  /** After this moment nobody can be waiting for the lease's results; null while it is kept. */
  deadAt: number | null;
  /**
   * The server takes a task of it to be running that was given up here. Such a lease is not
   * released but runs out, which is what sets the task free.
   */
  isForsaken: boolean;
};

/** What an attempt needs of the worker it runs in. */
export interface AttemptHost {
  readonly clock: Clock;
  /** How long a function may go on after it was told to stop. */
  readonly abandonMs: number;
  /** What becomes of what it writes, where output is captured. */
  readonly output: TaskOutput;
  /** The task is getting on; null when it did not say how far. */
  progressed(attempt: TaskAttempt, progress: TaskProgress | null): void;
  /** Resolves once the value is kept; `LEASE_LOST` when the attempt is no longer the current one. */
  checkpoint(attempt: TaskAttempt, value: Json): Promise<void>;
  log(attempt: TaskAttempt, message: string, fields: Json, endsAttempt?: boolean): void;
  /** A page of upstream partitions; `LEASE_LOST` when the attempt is no longer the current one. */
  readUpstream(attempt: TaskAttempt, page: UpstreamPage): Promise<UpstreamAnswer>;
  /** Told once; null when the result is of no use to anybody. */
  ended(attempt: TaskAttempt, outcome: TaskOutcome | null): void;
}

/** What makes an attempt at a task. */
export type TaskCode = (attempt: TaskAttempt) => Promise<TaskResult | void> | TaskResult | void;

/**
 * One attempt at one task.
 *
 * waiting → running → ended, or waiting → ended. `stop` says why the attempt must end: what the
 * function makes of it afterwards is not its result, because a loop that was broken off and
 * returned would look like a success. A function that does not hear is abandoned.
 */
export class TaskAttempt {
  readonly id: number;
  readonly lease: WorkerLease;
  readonly group: Omit<ClaimedGroup, "tasks">;
  readonly task: ClaimedGroup["tasks"][number];
  readonly ref: TaskRef;
  readonly claimedAt: number;
  readonly exceptions: PartitionExceptions;
  /** What checks found in the partitions that it has made. */
  checks: readonly CheckResult[] = [];
  #added: GatheredKeys | null = null;
  /** When progress was last passed on; the worker thins it out. */
  progressSentAt = Number.NEGATIVE_INFINITY;
  /** Where the task is about a segment: how far the attempt got, whatever its end. */
  reportSegment: ((succeeded: boolean) => SegmentReport) | null = null;
  /** Where the task is a step on shards: what it found or did so far, whatever its end. */
  reportStep: (() => StepReport | null) | null = null;
  readonly #host: AttemptHost;
  #state: "waiting" | "running" | "ended" = "waiting";
  #wasStarted = false;
  #cause: StopCause | null = null;
  #controller: AbortController | null = null;
  #progressAt = 0;
  #timeout: (() => void) | null = null;
  #stall: (() => void) | null = null;
  #abandon: (() => void) | null = null;

  constructor(
    id: number,
    lease: WorkerLease,
    group: ClaimedGroup,
    task: ClaimedGroup["tasks"][number],
    host: AttemptHost,
  ) {
    this.id = id;
    this.lease = lease;
    this.group = group;
    this.task = task;
    this.ref = { run_pos: group.run_pos, task_key: task.task_key, attempt: task.attempt };
    this.exceptions = new PartitionExceptions(group.batch, task.partition_keys);
    this.#host = host;
    this.claimedAt = host.clock.now();
  }

  get isEnded(): boolean {
    return this.#state === "ended";
  }

  get output(): TaskOutput {
    return this.#host.output;
  }

  get wasStarted(): boolean {
    return this.#wasStarted;
  }

  /** Whether the lease was lost or the result is otherwise of no use. */
  get isLost(): boolean {
    return this.#cause?.type === "lost";
  }

  /** Made when it is first asked for: most tasks never look at it. */
  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.#cause !== null) this.#controller.abort(abortReason(this.#cause));
    }
    return this.#controller.signal;
  }

  /** Runs the function. `code` is undefined when this worker does not have it. */
  start(code: TaskCode | undefined): void {
    if (this.#state !== "waiting") return;
    this.#state = "running";
    this.#wasStarted = true;
    try {
      if (code === undefined) throw unknownCode(this.group);
      this.#watch();
      const returned = asOwnerOfLines(this, () => code(this));
      // Functions that answer at once are not made to wait for a promise.
      if (!isPromiseLike(returned)) {
        this.#returned(returned);
        return;
      }
      // A promise of our own: it hears a thenable once, however that behaves.
      new Promise<unknown>((resolve) => resolve(returned)).then(
        (value) => this.#returned(value),
        (error: unknown) => this.#threw(error),
      );
    } catch (error) {
      this.#threw(error);
    }
  }

  /** Ends the attempt from outside; a lost lease outweighs every other cause. */
  stop(cause: StopCause): void {
    if (this.#state === "ended") {
      if (cause.type === "lost") this.#cause = cause;
      return;
    }
    if (this.#cause !== null && cause.type !== "lost") return;
    const isFirst = this.#cause === null;
    this.#cause = cause;
    if (this.#state === "waiting") {
      this.#end(outcomeOfStop(cause));
      return;
    }
    if (!isFirst) return;
    this.#abandon = this.#host.clock.after(this.#host.abandonMs, () => this.#abandoned());
    this.#controller?.abort(abortReason(cause));
  }

  /** Gives up waiting for a function that was told to stop. */
  abandon(): void {
    this.#abandoned();
  }

  /** The task shows that it is getting on. */
  progressed(progress: TaskProgress | null): void {
    if (this.#state !== "running") return;
    this.#progressAt = this.#host.clock.now();
    this.#host.progressed(this, progress);
  }

  /** Keys that are added once the attempt has succeeded, and only then. */
  addPartitions(of: DynamicPartitions, keys: readonly string[]): void {
    this.#added ??= new GatheredKeys();
    this.#added.add(of, keys);
  }

  /** All keys that it adds so far, by definition. */
  get addedKeys(): KeyAddition[] {
    return this.#added?.all() ?? [];
  }

  async checkpoint(value: Json): Promise<void> {
    if (this.#state !== "running") {
      throw new PawlError("LEASE_LOST", "The task has ended; its checkpoint is not kept.");
    }
    // A last word after the abort is welcome: the fence holds until the end is reported.
    this.progressed(null);
    await this.#host.checkpoint(this, value);
  }

  async readUpstream(page: UpstreamPage): Promise<UpstreamAnswer> {
    if (this.#state === "running") return this.#host.readUpstream(this, page);
    throw new PawlError("LEASE_LOST", "The task has ended; nothing more is told of its upstream.");
  }

  /** Whether the line is kept: once the attempt has ended, none is. */
  log(message: string, fields: Json): boolean {
    if (this.#state !== "running") return false;
    this.#host.log(this, message, fields);
    return true;
  }

  #watch(): void {
    const { clock } = this.#host;
    const { timeout_ms: timeoutMs, stall_after_ms: stallMs } = this.group;
    this.#progressAt = clock.now();
    this.#timeout = clock.after(timeoutMs, () => {
      this.stop({
        type: "timeout",
        message: `The task took longer than its timeout of ${timeoutMs} ms.`,
      });
    });
    if (stallMs !== null) this.#watchStall(stallMs, stallMs);
  }

  #watchStall(stallMs: number, ms: number): void {
    this.#stall = this.#host.clock.after(ms, () => {
      const leftMs = this.#progressAt + stallMs - this.#host.clock.now();
      if (leftMs > 0) {
        this.#watchStall(stallMs, leftMs);
        return;
      }
      this.stop({ type: "stalled", message: `The task showed no progress for ${stallMs} ms.` });
    });
  }

  #returned(value: unknown): void {
    if (this.#state === "ended") return;
    if (this.#cause !== null) {
      this.#end(outcomeOfStop(this.#cause));
      return;
    }
    const outcome: TaskOutcome = { outcome: "SUCCEEDED" };
    try {
      const metadata = metadataOf(value);
      if (metadata.value !== undefined) outcome.metadata = metadata.value;
      for (const fault of metadata.faults) this.log(fault, levelFields("warn"));
    } catch (error) {
      // Reading the result is running the user's code.
      this.#threw(error);
      return;
    }
    this.#end(outcome);
  }

  #threw(thrown: unknown): void {
    if (this.#state === "ended") return;
    if (this.#cause !== null) {
      this.#end(outcomeOfStop(this.#cause));
      return;
    }
    const error = plainError(thrown);
    const outcome = outcomeOfError(error);
    const stack = error.stack ?? "";
    if (outcome.outcome === "FAILED" && stack !== "" && !(error instanceof PawlError)) {
      const fields = { ...levelFields("error"), stack };
      this.#host.log(this, outcome.error?.message ?? "", fields, true);
    }
    this.#end(outcome);
  }

  #abandoned(): void {
    if (this.#state === "ended" || this.#cause === null) return;
    const message = "The function goes on after it was told to stop; its result will be dropped.";
    this.log(message, levelFields("warn"));
    this.#end(outcomeOfStop(this.#cause));
  }

  #end(outcome: TaskOutcome | null): void {
    this.#state = "ended";
    this.#timeout?.();
    this.#stall?.();
    this.#abandon?.();
    this.#host.ended(this, outcome === null ? null : this.#complete(outcome));
  }

  #complete(outcome: TaskOutcome): TaskOutcome {
    const exceptions = this.exceptions.differingFrom(outcome.outcome);
    const segment = this.reportSegment?.(outcome.outcome === "SUCCEEDED");
    const step = this.reportStep?.() ?? null;
    const isMade = outcome.outcome === "SUCCEEDED";
    const added_keys = isMade ? this.addedKeys : [];
    return {
      ...outcome,
      ...(isMade && this.checks.length > 0 ? { checks: [...this.checks] } : {}),
      ...(added_keys.length > 0 ? { added_keys } : {}),
      ...(exceptions.length > 0 ? { exceptions } : {}),
      ...(segment === undefined ? {} : { segment }),
      ...(step === null ? {} : { step }),
    };
  }
}

function unknownCode({ asset_key, segment }: TaskAttempt["group"]): PawlError {
  if (segment !== undefined) {
    return new PawlError(
      "SYNC_NOT_FOUND",
      `This worker's code does not define the sync ${segment.sync}; deploy the code that does, or ` +
        "remove the sync's targets.",
    );
  }
  return new PawlError(
    "ASSET_NOT_FOUND",
    `This worker's code does not define the asset ${asset_key}; ` +
      "deploy the code that does, or remove the asset's work.",
  );
}

function abortReason({ type, message }: StopCause): Error {
  if (type === "lost") return new PawlError("LEASE_LOST", message);
  const isLate = type === "timeout" || type === "stalled";
  return new DOMException(message, isLate ? "TimeoutError" : "AbortError");
}

function isPromiseLike(value: unknown): boolean {
  return (
    ((typeof value === "object" && value !== null) || typeof value === "function") &&
    "then" in value
  );
}

const NOTE_LENGTH_MAX = 500;
const NO_CONFIG: Readonly<Record<string, Json>> = Object.freeze({});

/**
 * What the function of an attempt gets. Whatever costs something is worked out when it is first
 * looked at; every member may be taken out of the object on its own.
 */
export function taskContext(
  attempt: TaskAttempt,
  reader: PartitionReader | null,
  partitions: readonly string[] = attempt.task.partition_keys,
): TaskContext {
  const { group, task } = attempt;
  const partition = partitions[0] ?? "";
  let values: Readonly<Record<string, string>> | null = null;
  return {
    asset: group.asset_key,
    runId: group.run_id,
    attempt: task.attempt,
    partition,
    partitions,
    get values() {
      values ??= reader === null || partition === "" ? {} : reader.valuesOf(partition);
      return values;
    },
    get window() {
      return reader === null ? null : windowOfAll(partitions, reader);
    },
    config: isObject(group.config) ? group.config : NO_CONFIG,
    get signal() {
      return attempt.signal;
    },
    lastCheckpoint: task.checkpoint,
    checkpoint: (value) => attempt.checkpoint(value),
    progress(done, total, note) {
      attempt.progressed({
        done: amount("done", done),
        total: amount("total", total),
        note: note === undefined ? null : readableText(note, NOTE_LENGTH_MAX),
      });
    },
    upstream: (asset, options) => upstreamList(attempt, asset, options),
    eachUpstream: (asset, options) => eachUpstream(attempt, asset, options),
    log: (message, fields) => void attempt.log(message, fields ?? {}),
    addPartitions: (of, keys) => attempt.addPartitions(of, keys),
    partitionFailed(key, error) {
      const message = messageOf(error);
      attempt.exceptions.add(key, { outcome: "FAILED", error: { class: "user", message } });
    },
    partitionSkipped(key, reason) {
      const message = messageOf(reason);
      attempt.exceptions.add(key, { outcome: "SKIPPED", error: { class: "skipped", message } });
    },
  };
}

/** From the start of the first to the end of the last partition, in whatever order they come. */
function windowOfAll(keys: readonly string[], reader: PartitionReader): TimeWindow | null {
  const windows = keys.map((key) => reader.windowOf(key)).filter((window) => window !== null);
  const [first] = windows;
  if (first === undefined) return null;
  const all = { ...first };
  for (const { start, end } of windows) {
    if (start < all.start) all.start = start;
    if (end > all.end) all.end = end;
  }
  return all;
}

/** Whole units, as they are kept; a share such as 0.5 of 1 says no more than that it goes on. */
function amount(name: string, value: unknown): number {
  const number = typeof value === "bigint" || typeof value === "string" ? Number(value) : value;
  if (typeof number === "number" && number >= 0) {
    return Math.min(Math.round(number), Number.MAX_SAFE_INTEGER);
  }
  throw new PawlError(
    "INPUT_INVALID",
    `progress() needs ${name} as a number from 0, not ${shortened(value)}.`,
  );
}

function isObject(value: Json): value is { readonly [key: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
