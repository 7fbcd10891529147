import { z } from "zod";
import { AssetKey, Labels, SensorTarget, WatchSpec } from "./definition/spec.ts";
import { Count, FailureField, InstantText, JsonValue } from "./envelope.ts";
import { AddedKeys, CLAIM_WAIT_MS_MAX, WorkNames } from "./run/protocol.ts";
import { BlockHash } from "./sync/segment-protocol.ts";
import { Block, SyncTarget } from "./sync/spec.ts";

/*
 * What workers and the server say to each other about sensors: a worker takes evaluations that are
 * due (which may wait) and reports what came of each. `attempt` is the fence.
 */

/** Most evaluations in one message. */
export const PROBES_MAX = 100;

/** "Give me evaluations": of the sensors whose function this worker has, and of those that need none. */
export const ProbeClaimRequest = z.strictObject({
  worker_id: z.string().min(1).max(200),
  /** Names of the sensors whose function this worker has. */
  sensors: WorkNames,
  slots: z.int().positive().max(PROBES_MAX),
  wait_ms: z.int().nonnegative().max(CLAIM_WAIT_MS_MAX),
});
export type ProbeClaimRequest = z.infer<typeof ProbeClaimRequest>;

/** A message as an evaluator sees it. */
export const SensorMessage = z.object({
  message_id: z.string(),
  source: z.enum(["webhook", "pubsub", "cloudevents"]),
  type: z.string().nullable(),
  attributes: z.record(z.string(), z.string()),
  payload: JsonValue,
  published_at: z.string().nullable(),
});
export type SensorMessage = z.infer<typeof SensorMessage>;

/** What a report has to say again, so that any server can take it. */
const readWith = {
  /** The cursor that was read; null at the start, and for push. */
  cursor: z.string().nullable(),
  /** The version that was read; null for push, which has none. */
  expected_state_version: z.int().positive().nullable(),
  /** When it was leased, in milliseconds since 1970. */
  poll_epoch: Count,
};

/** One evaluation to be made. */
export const ClaimedProbe = z.object({
  probe_id: z.string(),
  attempt: z.int().positive(),
  kind: z.enum(["poll", "message", "manual"]),
  sensor_id: z.string(),
  name: z.string(),
  watch: WatchSpec.nullable(),
  target: SensorTarget.nullable(),
  timeout_ms: z.int().positive(),
  max_run_requests: z.int().positive(),
  ...readWith,
  message: SensorMessage.nullable(),
  /** What the server found for a watch of the ledger, and the cursor after it; null when the worker looks. */
  found: z.object({ items: z.array(JsonValue), cursor: z.string().nullable() }).nullable(),
});
export type ClaimedProbe = z.infer<typeof ClaimedProbe>;

/** What a claim got. */
export const ProbeClaimAnswer = z.object({
  /** How long an evaluation is this worker's without a heartbeat about it. */
  ttl_ms: z.int().positive(),
  probes: z.array(ClaimedProbe),
});
export type ProbeClaimAnswer = z.infer<typeof ProbeClaimAnswer>;

/** A run that an evaluator asks for. */
export const EvaluatedRequest = z.strictObject({
  asset_selection: z.array(AssetKey).min(1).max(1_000),
  partition_keys: z.array(z.string().min(1).max(2_000)).min(1).max(10_000).nullable(),
  /** Adds those of the partitions that are not there, where they are dynamic. */
  add: z.boolean().optional(),
  /** Two requests of one sensor with the same key are one run; null for one of its own. */
  run_key: z.string().min(1).max(200).nullable(),
  config: JsonValue,
  labels: Labels,
  /** Why the request could not be made at all: it is recorded as refused, and stops no other. */
  error: FailureField.optional(),
});
export type EvaluatedRequest = z.infer<typeof EvaluatedRequest>;

/** What came of one evaluation. */
export const EvaluationOutcome = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.literal("evaluated"),
    cursor: z.string().max(100_000).nullable(),
    run_requests: z.array(EvaluatedRequest).max(1_000),
    /** Keys that are added together with the runs and the cursor, or not at all. */
    added_keys: AddedKeys.optional(),
  }),
  z.strictObject({ type: z.literal("failed"), error: FailureField }),
]);
export type EvaluationOutcome = z.infer<typeof EvaluationOutcome>;

/** Given back by a worker that stops or has too much: due again at once. */
export const ReleasedLook = z.strictObject({ type: z.literal("released") });

/** One evaluation's end. */
export const ProbeResult = z.strictObject({
  probe_id: z.string(),
  attempt: z.int().positive(),
  ...readWith,
  outcome: z.discriminatedUnion("type", [...EvaluationOutcome.options, ReleasedLook]),
});
export type ProbeResult = z.infer<typeof ProbeResult>;

/** Ends of evaluations. */
export const ProbeReportRequest = z.strictObject({
  worker_id: z.string().min(1).max(200),
  results: z.array(ProbeResult).min(1).max(PROBES_MAX),
});
export type ProbeReportRequest = z.infer<typeof ProbeReportRequest>;

/**
 * Per item: `recorded`; `unchanged` when there was nothing to record; `stale` when the sensor had
 * moved on meanwhile; `lost` when the evaluation was somebody else's by then.
 */
export const ProbeReportAnswer = z.object({
  results: z.array(z.enum(["recorded", "unchanged", "stale", "lost"])),
});
export type ProbeReportAnswer = z.infer<typeof ProbeReportAnswer>;

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
