import type { Json } from "../kernel/canonical.ts";
import type { PartitionStatus } from "../work/asset/api.ts";
import type { SensorMessage } from "../work/probe-protocol.ts";
import type { Asset, AssetReference } from "./asset.ts";
import type { SyncTarget } from "../work/sync/spec.ts";
import type { PartitionDefinition } from "../kernel/keyspace/definition.ts";
import type { TimeWindow } from "../kernel/keyspace/keyspace.ts";

/** Dynamic partitions, as `dynamicPartitions()` makes them, by their name, or those of an asset. */
export type DynamicPartitions = string | PartitionDefinition | Asset;

/** A run that a sensor asks for. */
export type SensorRequest = {
  assets: AssetReference | readonly AssetReference[];
  /** The partition to be made, where the assets have partitions; or several as `partitions`. */
  partition?: string;
  partitions?: readonly string[];
  /** Adds those of the partitions that are not there yet, where they are dynamic. */
  add?: boolean;
  /** Two requests of the sensor with the same key are one run. */
  runKey?: string;
  config?: Json;
  labels?: Readonly<Record<string, string>>;
};

/** What a sensor's function is told and what it can say. */
export interface SensorContext<Item = never> {
  readonly sensor: string;
  /** How far the sensor got; null at the start, and for one that is pushed to. */
  readonly cursor: string | null;
  /** What the watch found, oldest first; empty without a watch. */
  readonly items: readonly Item[];
  /** What was pushed, or a sample that somebody evaluates by hand; else null. */
  readonly message: SensorMessage | null;
  /** Aborted when the evaluation has taken too long or the worker stops. */
  readonly signal: AbortSignal;
  /** Asks for a run; it is made when the function has ended well, and only then. */
  readonly request: (request: SensorRequest) => void;
  /**
   * Adds keys to dynamic partitions, in one step with the runs that are asked for and the cursor: all of
   * it or nothing. Keys that are there already are left alone.
   */
  readonly addPartitions: (definition: DynamicPartitions, keys: readonly string[]) => void;
  /** Says where the next evaluation starts; one with a watch moves on by itself. */
  readonly setCursor: (cursor: string) => void;
  readonly log: (message: string, fields?: Readonly<Record<string, Json>>) => void;
}

/** What a sensor's function may return: where the next evaluation starts. */
export type SensorResult = { cursor?: string | null };

/** The function of a sensor. */
export type Evaluate<Item = never> = (
  context: SensorContext<Item>,
) => Promise<SensorResult | void> | SensorResult | void;

/** The blocks that one call is about, both ends included. */
export interface SyncRange {
  readonly from: number;
  readonly to: number;
  /**
   * Blocks whose rows are void, as the source rewrote them or somebody had them fetched again: to be
   * deleted in the transaction that stores the new ones. Reaches from `from` to the segment's end.
   */
  readonly undo: { readonly from: number; readonly to: number } | null;
  /** Whether the blocks are new ones at the head, not history. */
  readonly isLive: boolean;
}

/** What a function about a source is told. */
export interface SourceContext {
  readonly sync: string;
  readonly source: string;
  /** The target; where only the source matters, any of its targets. */
  readonly target: SyncTarget;
  /** Aborted when the work is no longer wanted, takes too long or belongs to somebody else. */
  readonly signal: AbortSignal;
  /**
   * Waits until the source may be asked once more. The call itself has had its turn; a function that
   * makes several requests to the source takes one before each of the others.
   */
  readonly turn: () => Promise<void>;
  readonly log: (message: string, fields?: Readonly<Record<string, Json>>) => void;
}

/** What `fetch` and `verify` are told, and what `fetch` can say while it runs. */
export interface SyncContext extends SourceContext {
  readonly syncId: string;
  readonly segment: {
    readonly index: number;
    readonly from: number;
    readonly to: number;
    readonly generation: number;
  };
  /** Counts from 1; grows by 1 each time the segment is tried again. */
  readonly attempt: number;
  /**
   * Says that everything up to this block is stored, and keeps that durably: the next attempt goes on
   * behind it. A call that returns without having said anything has stored its whole range; one that
   * said less is called again for the rest. In `verify` it only shows that the work goes on.
   */
  readonly progressTo: (block: number) => Promise<void>;
}

/** What `fetch` may answer: how many rows it stored, for rates. */
export type FetchResult = { rows?: number };

/** What `verify` may answer; true and nothing at all mean that all is well. */
export type VerifyResult = { ok: boolean; note?: string };

/** The functions of a sync, which only workers have. */
export type SyncCode = {
  /** Stores the blocks of a range, so that storing them twice is storing them once. */
  readonly fetch: (range: SyncRange, context: SyncContext) => Promise<FetchResult | void>;
  /** The newest block of the source. */
  readonly head: ((context: SourceContext) => Promise<number | bigint>) | null;
  /** The hash of a block; throws when the source does not know the block. */
  readonly hash: ((block: number, context: SourceContext) => Promise<string>) | null;
  /** Looks whether a range is stored as the source has it. */
  readonly verify:
    | ((range: SyncRange, context: SyncContext) => Promise<VerifyResult | boolean | void>)
    | null;
  /** Whether `verify` is called for each segment that was fetched, not only on demand. */
  readonly verifyEachSegment: boolean;
};

/** An upstream partition, as it was when it was asked for. */
export interface UpstreamPartition {
  readonly asset: string;
  /** Its key, or `""` for an asset without partitions. */
  readonly partition: string;
  readonly status: PartitionStatus;
  /** When it was last made, as a UTC text; null when it never was. */
  readonly materializedAt: string | null;
  /** The run that made it; null also for what was reported as made elsewhere. */
  readonly runId: string | null;
  readonly codeVersion: string | null;
  /** What its function returned as metadata, or null. */
  readonly metadata: Json;
}

/** Which of the task's partitions is meant, of a batch; all of them unless told. */
export type UpstreamOptions = { partition?: string };

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
  /**
   * From the start of the first to the end of the last partition, as UTC texts such as
   * `2025-01-01T00:00:00.000Z`; the end does not belong to it. Null where the partitions are no
   * times, or have more than one dimension of time.
   */
  readonly window: TimeWindow | null;
  readonly config: Readonly<Record<string, Json>>;
  /** Aborted when the task is cancelled, has taken too long or has lost its lease. */
  readonly signal: AbortSignal;
  /** What an earlier attempt saved last, or null. */
  readonly lastCheckpoint: Json;
  /** Keeps how far the task got, durably, for the next attempt. */
  checkpoint(value: Json): Promise<void>;
  /** Says how much is done, for progress, estimates and the detection of stalls. */
  progress(done: number, total: number, note?: string): void;
  /**
   * The partitions of an upstream asset that the task's partitions are made from, by its mapping and in
   * its order, with what is known of each. At most 10,000; of more, `eachUpstream` tells one by one.
   */
  readonly upstream: (
    asset: AssetReference,
    options?: UpstreamOptions,
  ) => Promise<UpstreamPartition[]>;
  /** The same one by one, for `for await`: they are asked for as the loop gets to them. */
  readonly eachUpstream: (
    asset: AssetReference,
    options?: UpstreamOptions,
  ) => AsyncIterable<UpstreamPartition>;
  /** Keeps a line with the attempt; the field `level` (debug, info, warn, error) is its level. */
  log(message: string, fields?: Readonly<Record<string, Json>>): void;
  /**
   * Adds keys to dynamic partitions, in one step with the success of this attempt; one that fails adds
   * nothing. Keys that are there already are left alone.
   */
  readonly addPartitions: (definition: DynamicPartitions, keys: readonly string[]) => void;
  /** Says that one partition of a batch failed; the others are not affected. */
  partitionFailed(key: string, error: unknown): void;
  /** Says that there was nothing to do for one partition of a batch. */
  partitionSkipped(key: string, reason: string): void;
}

/**
 * What a task may return: facts about what it made, kept with the materialization as JSON. `md` makes
 * values that are shown as what they are.
 */
export type TaskResult = { metadata?: Readonly<Record<string, unknown>> };

/** The function that makes the partitions of an asset. */
export type Materialize = (context: TaskContext) => Promise<TaskResult | void> | TaskResult | void;
