import type { Instant } from "../../kernel/instant.ts";
import type { EventData } from "../events.ts";
import type { Recorded, Touch } from "../fold.ts";
import type { Rows } from "../rows.ts";
import type { ShardWorkRef } from "../shard/step-protocol.ts";
import type { SegmentRef, TaskResultField } from "./events.ts";
import type { RunRow } from "./rows.ts";

/** The place and time of an event. */
export type At = { pos: number; occurred_at: Instant };

/** What every event of a run carries, so that its rows are found. */
export type RunRef = {
  run_pos: number;
  backfill_id: string | null;
  chunk_index: number | null;
  segment?: SegmentRef | undefined;
  shard_work?: ShardWorkRef | undefined;
};

/** Partitions of a run, by how they stand; what was skipped has succeeded as well. */
export type PartitionCounts = Record<
  "planned" | "running" | "succeeded" | "failed" | "cancelled" | "skipped",
  number
>;

/**
 * What the fold tells a kind of work that asks for runs: of each event of a run, what happened to it.
 * A kind knows from the event whether the run is its own, and does nothing for others.
 */
export interface RunHolder {
  /** The rows that it reads when a run is asked for. */
  touchesAsked?(data: EventData<"RunRequested">): readonly Touch[];
  /** The rows that it reads with each later event of a run. */
  touches?(ref: RunRef): readonly Touch[];
  /** The rows that it reads besides when a run ends. */
  touchesEnded?(data: EventData<"RunFinished">): readonly Touch[];
  /** A run was asked for, and is there now. */
  queued?(rows: Rows, event: Recorded<"RunRequested">): void;
  /** The first of the run's tasks was claimed. */
  runStarted?(rows: Rows, event: Recorded<"RunStarted">): void;
  attemptStarted?(
    rows: Rows,
    ref: RunRef,
    attempt: { attempt: number; worker_id: string },
    at: At,
  ): void;
  /** An attempt has ended; another follows when the result says when. */
  attemptEnded?(rows: Rows, ref: RunRef, result: TaskResultField, at: At): void;
  /** How many partitions of the run came into a state or left it, by one event. */
  counted?(rows: Rows, ref: RunRef, counts: PartitionCounts, at: At): void;
  /** The run has ended; `run` is as it was before. */
  finished?(rows: Rows, run: RunRow, event: Recorded<"RunFinished">): void;
}
