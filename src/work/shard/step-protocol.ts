import { z } from "zod";
import { Count, JsonValue } from "../envelope.ts";
import { TablePolicy, Scope } from "./spec.ts";

/*
 * Work on shards is done in steps, each by a run with one task on a worker, which alone knows where
 * the shards are. A step that takes long says once a second how far it is and hears whether to stop.
 */

/**
 * The steps of a split: `check` (schemas), `arm` (capture and fences), `copy`, `tail`, `cutover`,
 * `reverse` (the tail of the way back), `cutback` (a cutover in the other direction), `ddl`,
 * `finish` (disarm), `remove` (what is left on the source), `discard` (the copy, on a way back).
 */
export const SplitStep = z.enum([
  "check",
  "arm",
  "copy",
  "tail",
  "cutover",
  "reverse",
  "cutback",
  "ddl",
  "finish",
  "remove",
  "discard",
]);
export type SplitStep = z.infer<typeof SplitStep>;

/** The steps of a move: `survey` a page of boundaries; `copy`, `verify` and `remove` a segment; `check` the whole. */
export const MoveStep = z.enum(["survey", "copy", "verify", "remove", "check"]);
export type MoveStep = z.infer<typeof MoveStep>;

/** What a run on shards is about; `n` makes it unique: it counts the steps of a split, of a move the runs of a lane, a segment or a check. */
export const ShardWorkRef = z.discriminatedUnion("work", [
  z.object({ work: z.literal("split"), split_id: z.string(), step: SplitStep, n: Count }),
  z.object({
    work: z.literal("move"),
    move_id: z.string(),
    step: MoveStep,
    /** The lane of a survey, the segment of a segment's step; null for a check. */
    index: Count.nullable(),
    n: Count,
  }),
]);
export type ShardWorkRef = z.infer<typeof ShardWorkRef>;

/** A key of a table's row: the text of each of its columns, as the shard's engine writes it. */
export const ShardKey = z.array(z.string()).min(1).max(32);
export type ShardKey = z.infer<typeof ShardKey>;

/** What the worker needs to do a step of a split. */
export const ClaimedSplit = z.object({
  work: z.literal("split"),
  split_id: z.string(),
  step: SplitStep,
  n: Count,
  source: z.string(),
  target: z.string(),
  tenants: z.array(z.string()).min(1),
  tables: z.array(TablePolicy).min(1),
  /** The epoch of each tenant when the split was planned, in the order of the tenants. */
  epochs: z.array(Count),
  /** The version of the routing that the cutover recorded, and that the way back did. */
  routing_version_cutover: Count.nullable(),
  routing_version_rollback: Count.nullable(),
  lag_limit_ms: z.int().positive(),
  fence_wait_ms: z.int().positive(),
  fence_hold_ms: z.int().positive(),
  ddl: z.string().nullable(),
});
export type ClaimedSplit = z.infer<typeof ClaimedSplit>;

/** What the worker needs to do a step of a move. */
export const ClaimedMove = z.object({
  work: z.literal("move"),
  move_id: z.string(),
  step: MoveStep,
  index: Count.nullable(),
  n: Count,
  /** Of a segment: what was copied under an earlier one is void. */
  generation: Count,
  table: TablePolicy.nullable(),
  from: z.string(),
  to: z.string(),
  /** Which rows of the table. */
  scope: Scope,
  /** Keys from here on, and below there; null for no bound. Of a survey, `lower` is where it goes on. */
  lower: ShardKey.nullable(),
  upper: ShardKey.nullable(),
  strategy: JsonValue,
  rows_per_second: z.number().nullable(),
  replication_lag_ms: z.int().nullable(),
  /**
   * What was verified of the segment: a removal takes nothing else away. A removal of what was not
   * verified takes away what was copied of it instead, from the target.
   */
  rows: Count.nullable(),
  digest: z.string().nullable(),
  /** Of a check: per shard the rows that do not belong there. */
  places: z.array(z.object({ shard: z.string(), tables: z.array(TablePolicy), scope: Scope })),
  /** Of a check: what may stay where it is, on record. */
  excluded: z.array(
    z.object({
      shard: z.string(),
      table: TablePolicy,
      scope: Scope,
      ranges: z.array(z.object({ lower: ShardKey.nullable(), upper: ShardKey.nullable() })),
    }),
  ),
  /** Of a check before anything is copied: tables that must be alike on both sides. */
  lanes: z.array(z.object({ table: TablePolicy, from: z.string(), to: z.string() })).optional(),
});
export type ClaimedMove = z.infer<typeof ClaimedMove>;

/** The step that a claimed task is about. */
export const ClaimedStep = z.discriminatedUnion("work", [ClaimedSplit, ClaimedMove]);
export type ClaimedStep = z.infer<typeof ClaimedStep>;

/** One thing that was looked at before something dangerous. */
export const StepCheck = z.object({
  check: z.string().max(200),
  ok: z.boolean(),
  note: z.string().max(2_000).nullable(),
});
export type StepCheck = z.infer<typeof StepCheck>;

/** What a step of a split found or did so far. Only what is known stands in it. */
export const SplitReport = z.strictObject({
  /** Rows that were copied, of all tables and of each; `cursor` is the key of the last. */
  rows_copied: Count.optional(),
  tables: z
    .array(
      z.object({
        table: z.string(),
        rows: Count,
        cursor: ShardKey.nullable(),
        done: z.boolean(),
      }),
    )
    .optional(),
  /** Rows that were copied of each tenant, as far as counted. */
  tenant_rows: z.record(z.string(), Count).optional(),
  position: z.string().max(10_000).optional(),
  events_applied: Count.optional(),
  last_event_id: z.string().nullable().optional(),
  last_event_at: z.string().nullable().optional(),
  lag_events: Count.optional(),
  lag_ms: Count.optional(),
  /** The whole copy, compared range by range with the source at one position each. */
  verification: z
    .object({
      ok: z.boolean(),
      ranges: Count,
      rows: Count,
      finished: z.boolean(),
      note: z.string().max(2_000).nullable(),
    })
    .optional(),
  checks: z.array(StepCheck).max(1_000).optional(),
  write_pause_ms: z.number().nonnegative().optional(),
  rows_removed: Count.optional(),
});
export type SplitReport = z.infer<typeof SplitReport>;

/** What a step of a move found or did so far. Only what is known stands in it. */
export const MoveReport = z.strictObject({
  /** Of a survey: the next segments, each with its upper bound (null for the last) and its rows. */
  bounds: z
    .array(z.object({ upper: ShardKey.nullable(), rows: Count }))
    .max(1_000)
    .optional(),
  /** Of a survey: there is nothing behind the last bound. */
  sealed: z.boolean().optional(),
  rows: Count.optional(),
  bytes: Count.optional(),
  work_ms: Count.optional(),
  cursor: ShardKey.nullable().optional(),
  position: z.string().max(10_000).optional(),
  digest: z.string().max(200).optional(),
  /** Of a copy that took too long: it ended here, and the rest is for another segment. */
  split_at: ShardKey.optional(),
  /** Of a verification and a removal: both sides were equal. */
  equal: z.boolean().optional(),
  rows_removed: Count.optional(),
  note: z.string().max(2_000).nullable().optional(),
  /** Of a check: rows where they do not belong, by shard and table. */
  misplaced: z
    .array(z.object({ shard: z.string(), table: z.string(), rows: Count }))
    .max(50_000)
    .optional(),
  /** Of a check: rows of excluded segments, which were left out of that. */
  excepted: Count.optional(),
});
export type MoveReport = z.infer<typeof MoveReport>;

/** It goes with the end of a step and, while it runs, with its word once a second. */
export const StepReport = z.discriminatedUnion("work", [
  SplitReport.extend({ work: z.literal("split") }),
  MoveReport.extend({ work: z.literal("move") }),
]);
export type StepReport = z.infer<typeof StepReport>;

/** "I am so far": from a step that is running. */
export const StepWord = z.strictObject({
  run_pos: z.int().positive(),
  task_key: Count,
  attempt: z.int().positive(),
  worker_id: z.string().min(1).max(200),
  report: StepReport,
  /**
   * What is to be recorded at once: that a split is caught up and verified, or its commit record,
   * which moves the routing. A repeat records nothing more and is answered alike.
   */
  record: z.enum(["caught_up", "commit"]).nullable(),
});
export type StepWord = z.infer<typeof StepWord>;

/** Whether the attempt still holds the step, whether it should come to an end, and what was recorded. */
export const StepAnswer = z.object({
  status: z.enum(["current", "lost"]),
  stop: z.boolean(),
  /** The version of the routing that the commit record made; null when there is none. */
  routing_version: Count.nullable(),
});
export type StepAnswer = z.infer<typeof StepAnswer>;
