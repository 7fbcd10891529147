import { z } from "zod";
import { MovePlan } from "./spec.ts";
import { TablePolicy } from "../shard/spec.ts";
import { MoveReport, ShardKey } from "../shard/step-protocol.ts";
import { Count, FailureField, Sha256 } from "../envelope.ts";

/** Where a move stands. */
export const MoveStateField = z.enum(["PLANNED", "RUNNING", "PAUSED", "COMPLETE", "CANCELLED"]);

/** Most lanes of a move. */
export const MOVE_LANES_MAX = 10_000;

/**
 * A move was planned: its lanes are what goes from one shard to another, table by table. Which rows
 * those are follows from the two topologies of the plan.
 */
export const MovePlanned = {
  move_id: z.string(),
  /** The definition it was made from, if any. */
  name: z.string().nullable(),
  plan: MovePlan,
  dry_run: z.boolean(),
  spec_hash: Sha256,
  lanes: z
    .array(
      z.object({
        table: TablePolicy,
        /** The place of the table among those of the shards: lower ones are copied first. */
        order: Count,
        from: z.string(),
        to: z.string(),
      }),
    )
    .min(1)
    .max(MOVE_LANES_MAX),
  changed_by: z.string(),
};

/** A move is in another state. */
export const MoveStateChanged = {
  move_id: z.string(),
  from_state: MoveStateField,
  to_state: MoveStateField,
  state_version: z.int().positive(),
  changed_by: z.string().nullable(),
  reason: z.string().max(2_000).nullable(),
};

/** A move goes on with other limits. */
export const MoveRetuned = {
  move_id: z.string(),
  state_version: z.int().positive(),
  segment_concurrency: z.int().positive(),
  rows_per_second: z.int().positive().nullable(),
  changed_by: z.string(),
};

/** A survey found the next segments of a lane; they tile its keys from where the last page ended. */
export const MoveSegmentsPlanned = {
  move_id: z.string(),
  lane: Count,
  /** Counts the pages of the lane from 0. */
  page: Count,
  first_index: Count,
  segments: z
    .array(
      z.object({
        /** The hash of the move, the table, the shards and the lower bound. */
        segment_id: z.string(),
        lower: ShardKey.nullable(),
        upper: ShardKey.nullable(),
        rows: Count,
      }),
    )
    .max(1_000),
  /** There is nothing behind the last segment. */
  sealed: z.boolean(),
};

/** A segment was too heavy: it ends where its copy got to, and the rest is a segment of its own. */
export const MoveSegmentSplit = {
  move_id: z.string(),
  segment_index: Count,
  generation: Count,
  split_at: ShardKey,
  rest: z.object({ segment_id: z.string(), segment_index: Count, rows: Count }),
};

/** What becomes of a segment, by its run or by a person. */
export const MoveSegmentChanged = {
  move_id: z.string(),
  segment_index: Count,
  /** Counts the changes of the segment from 1. */
  n: z.int().positive(),
  /** The one it has from now on. */
  generation: Count,
  /**
   * `copied`: copied and verified. `removed`: gone from where it came from. `pending`: to be copied,
   * under the next generation from its beginning, else from where it got to. `poisoned`: quarantined.
   * `excluded`: stays where it is; what was copied of it is taken away again.
   */
  becomes: z.enum(["pending", "copied", "removed", "poisoned", "excluded"]),
  report: MoveReport.nullable(),
  error: FailureField.nullable(),
  changed_by: z.string().nullable(),
  reason: z.string().max(2_000).nullable(),
};

/** Somebody wants everything that was copied compared once more. */
export const MoveVerifyRequested = {
  move_id: z.string(),
  /** Counts the requests from 1. */
  n: z.int().positive(),
  changed_by: z.string(),
};

/** What a comparison of a segment, or the look at where all rows are, came to. */
export const MoveChecked = {
  move_id: z.string(),
  /** Null for the move as a whole. */
  segment_index: Count.nullable(),
  /** Of a segment the number of the request, of the whole that of the look. */
  n: z.int().positive(),
  ok: z.boolean(),
  report: MoveReport,
};
