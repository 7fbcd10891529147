import type { Asset } from "../define/asset.ts";
import type { TaskContext } from "../define/automation-context.ts";
import { refuseUnknownOptions } from "../define/parse-definition.ts";
import type { Json } from "../kernel/canonical.ts";
import { PawlError, present } from "../kernel/errors.ts";
import type { ClaimedGroup, KeyAddition } from "../work/run/protocol.ts";
import { type AttemptHost, TaskAttempt, taskContext } from "../worker/tasks/attempt.ts";
import { keptCheckpoint, keptLine } from "../worker/tasks/messages.ts";
import { type PartitionReader, partitionReaderOf } from "../worker/tasks/runner.ts";
import type { TestFailure, TestLog, TestProgress } from "./records.ts";
import { type TestUpstream, withUpstream } from "./upstream.ts";

/** What the function is to find in its context. */
export type TestContextOptions = {
  /** Left out for an asset without partitions. */
  partition?: string;
  /** Those of a batch. */
  partitions?: readonly string[];
  config?: Readonly<Record<string, Json>>;
  /** Which attempt it is; the first unless told. */
  attempt?: number;
  /** What an earlier attempt saved; null unless told. */
  lastCheckpoint?: Json;
  /** What the function finds with `context.upstream`. */
  upstream?: TestUpstream;
};

/** A context of an asset's function, and what the function said by it. */
export type TestContext = {
  readonly context: TaskContext;
  readonly logs: readonly TestLog[];
  readonly progress: readonly TestProgress[];
  readonly checkpoints: readonly Json[];
  /** Keys that were added to dynamic partitions. */
  readonly addedPartitions: () => readonly KeyAddition[];
  /** What a batch said of single partitions; the last word on each counts. */
  readonly exceptions: () => {
    readonly partition: string;
    readonly outcome: "FAILED" | "SKIPPED";
    readonly error: TestFailure | null;
  }[];
  /** Aborts `context.signal`, as when the task is cancelled. */
  readonly cancel: () => void;
};

const OPTIONS = ["partition", "partitions", "config", "attempt", "lastCheckpoint", "upstream"];

/** As when the task has no timeout. */
const NO_TIMEOUT_MS = 2_147_483_647;

/**
 * The context that a worker would give to an asset's function, to call the function with. Throws
 * PARTITION_INVALID for a key that the asset does not have.
 */
export function testContext(asset: Asset, options: TestContextOptions = {}): TestContext {
  refuseUnknownOptions("testContext()", options, OPTIONS);
  const logs: TestLog[] = [];
  const progress: TestProgress[] = [];
  const checkpoints: Json[] = [];
  const keys = keysOf(asset, options);
  const reader = readerOf(asset, keys);
  const host: AttemptHost = {
    // Nothing is ended from outside but by `cancel`, so a test may take its time.
    clock: { now: () => performance.now(), after: () => () => undefined },
    abandonMs: NO_TIMEOUT_MS,
    output: "keep-and-show",
    progressed: (_, said) => void (said !== null && progress.push(said)),
    checkpoint: async (_, value) => void checkpoints.push(keptCheckpoint(value)),
    log: (_, message, fields) => void logs.push(keptLine(message, fields)),
    ended: () => undefined,
    readUpstream: () => Promise.reject(new Error("only a test says what is upstream")),
  };
  const group = groupOf(asset, keys, options);
  const task = present(group.tasks[0], "the group has its task");
  const lease = {
    leaseId: "test",
    ttlMs: NO_TIMEOUT_MS,
    unreported: 1,
    deadAt: null,
    isForsaken: false,
  };
  const attempt = new TaskAttempt(1, lease, group, task, host);
  const made: TaskContext[] = [];
  attempt.start((running) => {
    const unknown = asset.upstream.map(({ asset_key }) => asset_key);
    const said = options.upstream ?? {};
    made.push(withUpstream(taskContext(running, reader), said, { unknown, known: [] }));
    // It is the test that calls the function, so the attempt goes on for as long as the test does.
    return new Promise<void>(() => undefined);
  });
  return {
    context: present(made[0], "an attempt that started has a context"),
    logs,
    progress,
    checkpoints,
    addedPartitions: () => attempt.addedKeys,
    exceptions: () =>
      attempt.exceptions.differingFrom("SUCCEEDED").map(({ index, outcome, error }) => {
        return { partition: keys[index] ?? "", outcome, error };
      }),
    cancel: () => attempt.stop({ type: "cancelled", message: "The task was cancelled." }),
  };
}

function groupOf(
  { key, spec }: Asset,
  keys: readonly string[],
  { config = {}, attempt = 1, lastCheckpoint = null }: TestContextOptions,
): ClaimedGroup {
  if (!Number.isSafeInteger(attempt) || attempt < 1) {
    throw new PawlError("INPUT_INVALID", `attempt: expected a number from 1, got ${attempt}.`);
  }
  return {
    run_id: "run_test",
    run_pos: 1,
    run_key: "test",
    backfill_id: null,
    asset_key: key,
    spec_hash: "0".repeat(64),
    batch: spec.batch,
    config: { ...config },
    labels: {},
    timeout_ms: NO_TIMEOUT_MS,
    stall_after_ms: null,
    tasks: [
      {
        task_key: 0,
        attempt,
        partition_keys: [...keys],
        checkpoint: keptCheckpoint(lastCheckpoint),
      },
    ],
  };
}

function keysOf({ key, spec }: Asset, { partition, partitions }: TestContextOptions): string[] {
  const keys = partition === undefined ? [...(partitions ?? [])] : [partition];
  const fault = faultOf(spec.partitions !== null, spec.batch, keys.length);
  if (partition !== undefined && partitions !== undefined) {
    throw new PawlError(
      "INPUT_INVALID",
      "testContext() was given partition and partitions; give one of them.",
    );
  }
  if (fault === null) return keys;
  throw new PawlError("INPUT_INVALID", `The asset ${key} ${fault}`, {
    details: { asset_key: key, partitions: keys },
  });
}

function faultOf(hasPartitions: boolean, isBatch: boolean, count: number): string | null {
  if (!hasPartitions && count > 0) return "has no partitions; leave them out.";
  if (hasPartitions && count === 0) return "has partitions; say which one with partition.";
  if (!isBatch && count > 1) return "is no batch: its function gets one partition, not several.";
  return null;
}

function readerOf({ key, spec }: Asset, keys: readonly string[]): PartitionReader | null {
  if (spec.partitions === null) return null;
  const reader = partitionReaderOf(key, spec.partitions);
  for (const each of keys) {
    try {
      reader.valuesOf(each);
    } catch (cause) {
      throw new PawlError(
        "PARTITION_INVALID",
        `The asset ${key} has no partition ${JSON.stringify(each)}; give a key as its definition has it.`,
        { cause, details: { asset_key: key, partition_key: each } },
      );
    }
  }
  return reader;
}
