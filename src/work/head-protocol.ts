import { z } from "zod";
import { Count, FailureField, InstantText } from "./envelope.ts";
import { ReleasedLook } from "./probe-protocol.ts";
import { CLAIM_WAIT_MS_MAX, WorkNames } from "./run/protocol.ts";
import { BlockHash } from "./sync/segment-protocol.ts";
import { Block, SyncTarget } from "./sync/spec.ts";

/*
 * What workers and the server say to each other about the sources of syncs: a worker takes looks at
 * heads that are due (which may wait) and reports them, and all share what they learnt by asking.
 */

/** Most heads in one message. */
export const HEADS_MAX = 100;

/** "Give me heads to look up": of the syncs whose functions this worker has. */
export const HeadClaimRequest = z.strictObject({
  worker_id: z.string().min(1).max(200),
  syncs: WorkNames,
  slots: z.int().positive().max(HEADS_MAX),
  wait_ms: z.int().nonnegative().max(CLAIM_WAIT_MS_MAX),
});
export type HeadClaimRequest = z.infer<typeof HeadClaimRequest>;

/** A block whose hash is known. */
export const Anchor = z.strictObject({ block: Block, hash: BlockHash });
export type Anchor = z.infer<typeof Anchor>;

/** One head to look up. */
export const ClaimedHead = z.object({
  probe_id: z.string(),
  attempt: z.int().positive(),
  sync: z.string(),
  source: z.string(),
  /** Any target of the source. */
  target: SyncTarget,
  finality: Count,
  timeout_ms: z.int().positive(),
  /** Known hashes, the newest first: the first that still holds is below any rewrite. */
  anchors: z.array(Anchor),
  /** The position of what is known, to be said again with what was seen. */
  as_of: Count.optional(),
});
export type ClaimedHead = z.infer<typeof ClaimedHead>;

/** What a claim of heads got. */
export const HeadClaimAnswer = z.object({
  /** How long a look is this worker's without a heartbeat about it. */
  ttl_ms: z.int().positive(),
  heads: z.array(ClaimedHead),
});
export type HeadClaimAnswer = z.infer<typeof HeadClaimAnswer>;

/** What came of one look at a head. */
export const HeadOutcome = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.literal("seen"),
    head: Block,
    /** The hash of the newest block that may be synced; null where the source has no hashes. */
    safe: Anchor.nullable(),
    /** The newest known hash that still holds, when a newer one does not; null when all hold. */
    fork: z.strictObject({ block: Block.nullable() }).nullable(),
  }),
  z.strictObject({ type: z.literal("failed"), error: FailureField }),
]);
export type HeadOutcome = z.infer<typeof HeadOutcome>;

/** One look's end. */
export const HeadResult = z.strictObject({
  probe_id: z.string(),
  attempt: z.int().positive(),
  sync: z.string(),
  source: z.string(),
  /** As the look was given: what was seen by what was known before something else is void. */
  as_of: Count.optional(),
  outcome: z.discriminatedUnion("type", [...HeadOutcome.options, ReleasedLook]),
});
export type HeadResult = z.infer<typeof HeadResult>;

/** Ends of looks at heads. */
export const HeadReportRequest = z.strictObject({
  worker_id: z.string().min(1).max(200),
  results: z.array(HeadResult).min(1).max(HEADS_MAX),
});
export type HeadReportRequest = z.infer<typeof HeadReportRequest>;

/** Per item: recorded; unchanged when there was nothing to record; lost when it was somebody else's. */
export const HeadReportAnswer = z.object({
  results: z.array(z.enum(["recorded", "unchanged", "lost"])),
});
export type HeadReportAnswer = z.infer<typeof HeadReportAnswer>;

/** What was learnt about a source by asking it: side knowledge, never the truth. */
export const Learnt = z.strictObject({
  /** Blocks that one request may ask for; null while nothing set a limit. */
  request_size: z.int().positive().nullable(),
  /** The pause between requests that the source bears; 0 while it never complained. */
  interval_ms: z.number().min(0).max(600_000),
  /** Nothing is asked before this. */
  throttled_until: InstantText.nullable(),
});
export type Learnt = z.infer<typeof Learnt>;

/** "I use these sources; this is what I learnt." */
export const SourceExchange = z.strictObject({
  worker_id: z.string().min(1).max(200),
  sources: z
    .array(z.strictObject({ source: z.string().min(1).max(200), learnt: Learnt.nullable() }))
    .min(1)
    .max(1_000),
});
export type SourceExchange = z.infer<typeof SourceExchange>;

/** What all workers together know of the sources, and how many use each. */
export const SourceExchangeAnswer = z.object({
  sources: z.array(z.object({ source: z.string(), learnt: Learnt, workers: z.int().positive() })),
});
export type SourceExchangeAnswer = z.infer<typeof SourceExchangeAnswer>;
