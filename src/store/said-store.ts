import type { Json } from "../kernel/canonical.ts";
import type { Instant } from "../kernel/instant.ts";
import type { WorkspaceId } from "./store.ts";

/** A value that a running attempt saves; refused when the fence has moved. */
export type Fenced<Value> = { run_pos: number; task_key: number; attempt: number } & Value;

/** Keeps what attempts say, of those that are current and that this holder claimed; answers which. */
type KeepSaid<Value> = (ws: WorkspaceId, holder: string, said: Said<Value>) => Kept;
type Said<Value> = readonly Fenced<Value>[];
type Kept = Promise<boolean[]>;

/** How many bytes of log lines a run may have, and the line that stands where more were dropped. */
export type LogQuota = {
  runBytesMax: number;
  /** The same with lines that end an attempt; as many as of others when it is left out. */
  endBytesMax?: number;
  notice: string;
};

/** A line for the log of a task. */
export type SaidLine = {
  message: string;
  fields: Json;
  /** The error that ends the attempt. */
  ends_attempt?: boolean | undefined;
};

/** What became of a log line: `dropped` when there was no room for it, `lost` by the fence. */
export type LineVerdict = "kept" | "dropped" | "lost";

/** Which log lines to drop: of ended runs, those first that began to log first. */
export type LogPruning = {
  /** Only of runs that have not logged since; null for all. */
  silentSince: Instant | null;
  /** Enough has gone with so many bytes; the log of the last run goes as a whole. */
  bytesEnough: number;
  linesMax: number;
};

/** How far an attempt got, by its own word. */
export type Progress = { done: number; total: number | null; note: string | null };

/** A kept checkpoint. */
export type Checkpoint = Fenced<{ value: Json; saved_at: Instant }>;

/** The bytes of the checkpoints of a run that one token has claimed; nobody on record is "". */
export type CheckpointSize = { run_pos: number; holder: string; bytes: number };

/** A line that a task logged. */
export type LogLine = Fenced<{ at: Instant; message: string; fields: Json }>;

/**
 * Where what tasks say is kept, beside the ledger and without its lock: a part of every store. The
 * fence is checked in the statement that writes.
 */
export interface SaidStore {
  saveCheckpoints: KeepSaid<{ value: Json }>;
  saveProgress: KeepSaid<Progress>;
  /** Keeps log lines within the run's quota; one line says, in each task's log, where it was cut. */
  appendLogs(
    ws: WorkspaceId,
    holder: string,
    lines: readonly Fenced<SaidLine>[],
    quota: LogQuota,
  ): Promise<LineVerdict[]>;
  /** The bytes of all kept log lines, as they count. */
  logBytes(ws: WorkspaceId): Promise<number>;
  /** Drops old log lines of ended runs, so many at most; answers how many, and the bytes they had. */
  pruneLogs(ws: WorkspaceId, pruning: LogPruning): Promise<{ lines: number; bytes: number }>;
  /** The bytes of all kept checkpoints, by run and by who claimed their task. */
  checkpointBytes(ws: WorkspaceId): Promise<CheckpointSize[]>;
}
