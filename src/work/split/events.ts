import { z } from "zod";
import { ShardName, TablePolicy, TenantName } from "../shard/spec.ts";
import { SplitReport, SplitStep } from "../shard/step-protocol.ts";
import { Count, InstantText, Sha256 } from "../envelope.ts";

/** Where a split stands. */
export const SplitPhaseField = z.enum([
  "planning",
  "dual_write",
  "backfill",
  "tailing",
  "cutover_pending",
  "reversible",
  "completed",
  "rolled_back",
]);

/** What somebody asked for that a split has not come to yet. */
export const SplitWantedField = z.enum(["cutover", "complete", "rollback", "ddl"]);

/** Most tenants of one split. */
export const SPLIT_TENANTS_MAX = 1_000;

/** Tenants are to go from one shard to another. Nothing has been done yet. */
export const SplitPlanned = {
  split_id: z.string(),
  description: z.string().max(2_000).nullable(),
  source: ShardName,
  target: ShardName,
  tenants: z.array(TenantName).min(1).max(SPLIT_TENANTS_MAX),
  /** The epoch of each tenant, in the same order. */
  epochs: z.array(Count).min(1),
  /** As they are published now: later changes of the definition do not matter to this split. */
  tables: z.array(TablePolicy).min(1),
  spec_hash: Sha256,
  routing_version: Count,
  auto_cutover: z.boolean(),
  lag_limit_ms: z.int().positive(),
  fence_wait_ms: z.int().positive(),
  fence_hold_ms: z.int().positive(),
  grace_ms: Count,
  changed_by: z.string(),
};

/** A split is in another phase. */
export const SplitPhaseChanged = {
  split_id: z.string(),
  from_phase: SplitPhaseField,
  to_phase: SplitPhaseField,
  state_version: z.int().positive(),
  /** Null for what follows by itself. */
  changed_by: z.string().nullable(),
  reason: z.string().max(2_000).nullable(),
  /**
   * Tenants that are free for another split from now on, when it is the last phase; or that are under
   * this one again, when its plan is run again.
   */
  tenants: z.array(TenantName).optional(),
  /** The plan as it is by now, when it is run again after a rollback. */
  again: z
    .strictObject({
      epochs: SplitPlanned.epochs,
      tables: SplitPlanned.tables,
      spec_hash: Sha256,
      routing_version: Count,
    })
    .optional(),
};

/** Somebody asked for what takes a step of its own; the step that is running comes to an end first. */
export const SplitWanted = {
  split_id: z.string(),
  wanted: SplitWantedField,
  ddl: z.string().max(100_000).nullable(),
  state_version: z.int().positive(),
  changed_by: z.string(),
  reason: z.string().max(2_000).nullable(),
};

/** A step that has ended was taken note of; the next one may be asked for. */
export const SplitStepSettled = {
  split_id: z.string(),
  n: Count,
  step: SplitStep,
  /** `fell_back`: a cutover that could not be had; everything is as before it. */
  outcome: z.enum(["done", "stopped", "failed", "fell_back"]),
  report: SplitReport.nullable(),
  reason: z.string().max(2_000).nullable(),
  /** Whether what was wanted is not any more. */
  clears_wanted: z.boolean(),
  /** When a cutover that fell back is tried again by itself; absent when it is not. */
  again_at: InstantText.optional(),
};

/** The tail of a split has caught up and the whole copy is verified: recorded while the step runs. */
export const SplitCaughtUp = {
  split_id: z.string(),
  n: Count,
  state_version: z.int().positive(),
  report: SplitReport,
};

/** The commit record of a cutover, beside the change of the routing: it decides what a crash left open. */
export const SplitCutOver = {
  split_id: z.string(),
  n: Count,
  direction: z.enum(["forward", "back"]),
  routing_version: z.int().positive(),
  state_version: z.int().positive(),
};
