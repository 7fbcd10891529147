import { z } from "zod";
import { Anchor } from "../probe-protocol.ts";
import { Block, SyncTarget } from "./spec.ts";
import { Count } from "../envelope.ts";

/** The end of a prefix: one less than a block, so also -1. */
const Through = z.int().min(-1);

/** Where a sync stands, as its events say it. */
export const SyncStateField = z.enum([
  "PENDING",
  "RUNNING",
  "PAUSED",
  "COMPLETE",
  "FOLLOWING",
  "REMOVED",
]);

/** Targets were added to a sync; nothing is planned before the head is known. */
export const SyncsAdded = {
  name: z.string(),
  origin: z.enum(["code", "api"]),
  syncs: z
    .array(
      z.object({
        sync_id: z.string(),
        target: SyncTarget,
        target_key: z.string(),
        source: z.string(),
        from_block: Block,
        to_limit: Block.nullable(),
        max_parallel: z.int().positive().nullable(),
        priority: z.int().nullable(),
      }),
    )
    .min(1),
};

/** A sync moved to another state. */
export const SyncStateChanged = {
  sync_id: z.string(),
  from_state: SyncStateField,
  to_state: SyncStateField,
  state_version: z.int().positive(),
  changed_by: z.string().nullable(),
  reason: z.string().nullable(),
};

/** A sync runs with another parallel limit or priority from now on. */
export const SyncRetuned = {
  sync_id: z.string(),
  state_version: z.int().positive(),
  max_parallel: z.int().positive().nullable(),
  priority: z.int().nullable(),
};

/** The head of a source was seen further on. */
export const SyncHeadMoved = {
  name: z.string(),
  source: z.string(),
  /** Counts the moves from 1. */
  n: z.int().positive(),
  head: Block,
  /** The newest block that may be synced, with its hash. */
  anchor: Anchor.nullable(),
};

/** Somebody said where the head of a source is; what was planned beyond it goes. */
export const SyncHeadSet = {
  name: z.string(),
  source: z.string(),
  /** Counts the moves of the head from 1, this one among them. */
  n: z.int().positive(),
  head: Block,
  /** A lower head counts as a rewrite, so that every sync of the source answers it; null for another. */
  cut: z.object({ rewrite: z.int().positive(), from: Block }).nullable(),
  changed_by: z.string(),
  reason: z.string().nullable(),
};

/** A source rewrote its blocks above a fork: what was synced of them is void. */
export const SyncRewritten = {
  name: z.string(),
  source: z.string(),
  /** Counts the rewrites from 1. */
  n: z.int().positive(),
  /** The newest block that still holds; -1 when none is known to. */
  fork_block: Through,
  /** The head as it is now, which may be lower than before. */
  head: Block,
  /** The newest block that may be synced now, with its hash: a second rewrite is seen by it. */
  anchor: Anchor.nullable().optional(),
};

/** Segments were added behind those there are; they tile the blocks from `from_block` on. */
export const SyncSegmentsPlanned = {
  sync_id: z.string(),
  segment_kind: z.enum(["history", "tail"]),
  first_index: Count,
  from_block: Block,
  /** The last block of each. */
  ends: z.array(Block).min(1).max(10_000),
  /** There where something may be stored of them that never was. */
  undo: z.literal(true).optional(),
};

/** A complete segment and the pieces that take its place. */
const Split = z.object({
  segment_index: Count,
  tiles: z
    .array(z.object({ segment_index: Count, from_block: Block, to_block: Block }))
    .min(2)
    .max(3),
});

/** Segments have to be fetched again; complete ones are first cut where the range begins and ends. */
export const SyncSegmentsReopened = {
  sync_id: z.string(),
  /** Counts the reopenings of the sync from 1. */
  n: z.int().positive(),
  cause: z.enum(["rewrite", "repair", "verification", "retry"]),
  reason: z.string(),
  changed_by: z.string().nullable(),
  splits: z.array(Split),
  /** Each under its next generation; none where a rewrite met nothing that was planned. */
  segments: z.array(z.object({ segment_index: Count, generation: z.int().positive() })),
  /** Whether what was stored of them is void. */
  undo: z.boolean(),
  /** The end of the complete prefix afterwards. */
  synced_to: Through,
  /** Rewrites of the source that this answers, all so far; null when it answers none. */
  rewrites_seen: Count.nullable(),
};

/** What was planned beyond the head that somebody set is planned no more. */
export const SyncPlanCut = {
  sync_id: z.string(),
  /** Counts with the reopenings of the sync. */
  n: z.int().positive(),
  /** The segments that go: all behind `planned_to`. */
  removed: z.array(Count).max(1_000),
  /** The one that the head is in ends there from now on; null where there is none. */
  shortened: Count.nullable(),
  /** The last block that is planned now. */
  planned_to: Through,
  /** Rewrites of the source that this answers, all so far; null while more has to go. */
  rewrites_seen: Count.nullable(),
};

/** Somebody decided that a quarantined segment may stay unfetched. */
export const SyncSegmentExcluded = {
  sync_id: z.string(),
  segment_index: Count,
  generation: Count,
  reason: z.string(),
  changed_by: z.string(),
  synced_to: Through,
};

/** Somebody wants complete segments to be verified. */
export const SyncVerifyRequested = {
  sync_id: z.string(),
  /** Counts the requests of the sync from 1. */
  n: z.int().positive(),
  segments: z.array(Count).min(1).max(10_000),
  repair: z.boolean(),
  changed_by: z.string(),
};
