import type { Client } from "../client/client.ts";
import type { SyncRange } from "../define/automation-context.ts";
import type { Json } from "../kernel/canonical.ts";
import type { CheckDocument } from "../work/asset/checks.ts";
import type { KeyAddition, ReportedResult } from "../work/run/protocol.ts";

/** What every test can say about its surroundings. */
export type TestOptions = {
  /** When the test is, such as `2026-01-05T06:00:00Z`; the machine's time unless told. */
  now?: string | Date;
  /** What to do with the API first, such as adding keys of dynamic partitions. */
  prepare?: (client: Client) => Promise<unknown>;
  /** Most time of the test's own that may pass, retries included; an hour unless told. */
  limitMs?: number;
  /** Tasks that run at once; 1 unless told, so that their order is always the same. */
  concurrency?: number;
  /** Where relative paths of sensors start; the current folder unless told. */
  folder?: string;
};

/** The names of those options. */
export const TEST_OPTIONS = ["now", "prepare", "limitMs", "concurrency", "folder"];

/** A line that the user's code logged. */
export type TestLog = { readonly message: string; readonly fields: Json };

/** What was said with `context.progress`. */
export type TestProgress = {
  readonly done: number;
  readonly total: number | null;
  readonly note: string | null;
};

/** A failure, in the words in which the ledger has it. */
export type TestFailure = { readonly class: string; readonly message: string };

/** What a check found in a partition. */
export type TestCheck = Omit<CheckDocument, "metadata"> & {
  readonly partition: string;
  readonly metadata: Json;
};

/** One call of an asset's function: an attempt at a task. */
export type TestCall = {
  readonly asset: string;
  readonly runId: string;
  /** The partition's key, the first one of a batch, or `""` for an asset without partitions. */
  readonly partition: string;
  readonly partitions: readonly string[];
  readonly attempt: number;
  /** When it began, in the test's own time. */
  readonly at: string;
  /** How it ended, as it was reported; null when nobody waited for that any more. */
  readonly outcome: ReportedResult["outcome"] | null;
  readonly error: TestFailure | null;
  /** What is kept about the materialization; null for nothing. */
  readonly metadata: Json;
  /** What the checks found in the partitions that it made, partition by partition. */
  readonly checks: readonly TestCheck[];
  /** Keys that it added to dynamic partitions: recorded where it succeeded. */
  readonly addedPartitions: readonly KeyAddition[];
  /** Partitions of a batch that ended otherwise. */
  readonly exceptions: readonly {
    readonly partition: string;
    readonly outcome: "FAILED" | "SKIPPED";
    readonly error: TestFailure | null;
  }[];
  /** What `retryAfter` asked for; null for the asset's own policy. */
  readonly retryAfterMs: number | null;
  /** Whether trying again is no use, as `doNotRetry` says. */
  readonly isFinal: boolean;
  readonly logs: readonly TestLog[];
  readonly progress: readonly TestProgress[];
  /** What was saved for the next attempt, oldest first. */
  readonly checkpoints: readonly Json[];
};

/** One call of a sync's `fetch`. */
export type TestFetch = {
  /** The first and the last block that it was asked for. */
  readonly from: number;
  readonly to: number;
  readonly undo: SyncRange["undo"];
  readonly attempt: number;
  /** The blocks that it named with `progressTo`. */
  readonly progress: readonly number[];
  /** How many rows it said that it stored; null when it said nothing. */
  readonly rows: number | null;
  /** Why it threw; null when it did not. */
  readonly error: string | null;
};
