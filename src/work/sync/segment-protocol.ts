import { z } from "zod";
import { Count, FailureField } from "../envelope.ts";
import { Block, SyncTarget } from "./spec.ts";

/** What a run of a segment is for. */
export const SegmentPurpose = z.enum(["fetch", "verify"]);
export type SegmentPurpose = z.infer<typeof SegmentPurpose>;

/** A hash of a block, as the source writes it. */
export const BlockHash = z.string().min(1).max(200);

/** The segment that a claimed task is about. */
export const ClaimedSegment = z.object({
  sync_id: z.string(),
  sync: z.string(),
  target: SyncTarget,
  source: z.string(),
  segment_index: Count,
  generation: Count,
  purpose: SegmentPurpose,
  from_block: Block,
  to_block: Block,
  /** The last block that an earlier run is known to have stored; the attempt's own checkpoint goes before it. */
  last_processed_block: Block.nullable(),
  /** What that run knew then: the hash of the segment's last block, and how many rows it stored. */
  end_hash: BlockHash.nullable().optional(),
  rows: Count.optional(),
  /** A block at or behind its last one, and the hash it had when the source was last looked at. */
  anchor: z.object({ block: Block, hash: BlockHash }).optional(),
  /** What was stored before is void. */
  undo: z.boolean(),
  is_live: z.boolean(),
  splittable: z.boolean(),
  /** It was quarantined before: to fail again is enough to be quarantined again. */
  was_quarantined: z.boolean(),
  quarantine_after: z.int().positive(),
  request_size: z.int().positive().nullable(),
  requests_per_second: z.number().nullable(),
});
export type ClaimedSegment = z.infer<typeof ClaimedSegment>;

/** What an attempt at a segment keeps as its checkpoint. */
export const SegmentCheckpoint = z.strictObject({
  last_processed_block: Block.nullable(),
  /** The hash of the segment's last block when the first request was made. */
  end_hash: BlockHash.nullable(),
  rows: Count,
  quarantined: z.array(z.strictObject({ block: Block, error: FailureField })).max(10_000),
  /** The run started over: what it stored before is void where it has not come to again. */
  undo: z.boolean().optional(),
});
export type SegmentCheckpoint = z.infer<typeof SegmentCheckpoint>;

/** What a verification found. */
export const VerificationField = z.strictObject({
  ok: z.boolean(),
  note: z.string().max(2_000).nullable(),
});

/** How an attempt at a segment ended, besides its outcome. */
export const SegmentReport = z.strictObject({
  /** Everything up to here is stored; null for nothing. */
  last_processed_block: Block.nullable(),
  end_hash: BlockHash.nullable(),
  /** Rows stored by this run, as far as the function says. */
  rows: Count,
  /** Blocks done by this attempt, and how long it took. */
  blocks: Count,
  work_ms: Count,
  requests: Count,
  quarantined: z.array(z.strictObject({ block: Block, error: FailureField })).max(10_000),
  verification: VerificationField.nullable(),
});
export type SegmentReport = z.infer<typeof SegmentReport>;
