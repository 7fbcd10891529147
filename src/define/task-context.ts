import type { Json } from "../core/canonical.ts";
import type { TimeWindow } from "../core/partitions/keyspace.ts";

/** What Pawl needs of an `AbortSignal`, said here because this layer knows no platform. */
export interface AbortSignalLike {
  readonly aborted: boolean;
  readonly reason: unknown;
  throwIfAborted(): void;
  addEventListener(type: "abort", listener: () => void, options?: { once?: boolean }): void;
  removeEventListener(type: "abort", listener: () => void): void;
}

/** What a task is told and what it can say while it runs. */
export interface TaskContext {
  readonly asset: string;
  readonly runId: string;
  /** Counts from 1; grows by 1 each time the task is tried again. */
  readonly attempt: number;
  /** The partition's key, the first one of a batch, or `""` for an asset without partitions. */
  readonly partition: string;
  /** All partitions of the task: one, or those of a whole chunk when the asset is a batch. */
  readonly partitions: readonly string[];
  /** The value of `partition` in each dimension, under `partition` when there is only one. */
  readonly values: Readonly<Record<string, string>>;
  /** From the start of the first to the end of the last partition, where they are times. */
  readonly window: TimeWindow | null;
  readonly config: Readonly<Record<string, Json>>;
  /** Aborted when the task is cancelled, has taken too long or has lost its lease. */
  readonly signal: AbortSignalLike;
  /** What an earlier attempt saved last, or null. */
  readonly lastCheckpoint: Json;
  /** Keeps how far the task got, durably, for the next attempt. */
  checkpoint(value: Json): Promise<void>;
  /** Says how much is done, for progress, estimates and the detection of stalls. */
  progress(done: number, total: number, note?: string): void;
  log(message: string, fields?: Readonly<Record<string, Json>>): void;
  /** Says that one partition of a batch failed; the others are not affected. */
  partitionFailed(key: string, error: unknown): void;
  /** Says that there was nothing to do for one partition of a batch. */
  partitionSkipped(key: string, reason: string): void;
}

/** What a task may return: facts about what it made, kept with the materialization. */
export type TaskResult = { metadata?: Readonly<Record<string, Json>> };

/** The function that makes the partitions of an asset. */
export type Materialize = (context: TaskContext) => Promise<TaskResult | void> | TaskResult | void;
