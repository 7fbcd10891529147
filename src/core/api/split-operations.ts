import { z } from "zod";
import { Count } from "../events/fields.ts";
import { SPLIT_TENANTS_MAX, SplitPhaseField, SplitWantedField } from "../events/split-events.ts";
import { NamedTenant, ShardName } from "../shard-spec.ts";
import { DurationMs } from "../spec.ts";
import { StepCheck } from "../step-protocol.ts";
import { clientRequestId } from "./entity-fields.ts";
import {
  accepted,
  commaList,
  expectation,
  type Operation,
  pageOf,
  pageQuery,
  readQuery,
  Reason,
  TransitionBody,
  DOCUMENT_BYTES_MAX,
} from "./operation.ts";
import { SplitDocument, SplitStepDocument } from "./split-documents.ts";

/** Where everything about splits lives. */
export const SPLITS_PATH = "/api/v1/splits";

const SPLIT_PATH = `${SPLITS_PATH}/{split}`;

const SplitParams = z.strictObject({ split: z.string().min(1).max(200) });

/** A wish to move tenants from one shard to another while they are used. */
export const PlanSplitBody = z
  .strictObject({
    ...clientRequestId,
    description: z.string().min(1).max(2_000).optional(),
    source: ShardName,
    target: ShardName,
    tenants: z.array(NamedTenant).min(1).max(SPLIT_TENANTS_MAX),
    /** Cut over by itself as soon as it is caught up and verified. */
    auto_cutover: z.boolean().optional(),
    /** How far behind the copy may be to count as caught up. */
    lag_limit_ms: DurationMs.min(1).optional(),
    /** How long a cutover waits for writes that are under way. */
    fence_wait_ms: DurationMs.min(1).optional(),
    /** How long writes are held at most until they go on by themselves. */
    fence_hold_ms: DurationMs.min(1).optional(),
    /** How long rows stay on the source once the split is complete. */
    grace_ms: DurationMs.min(0).optional(),
  })
  .meta({ id: "PlanSplit" });
export type PlanSplitBody = z.infer<typeof PlanSplitBody>;

const splitAnswer = {
  ...accepted,
  split_id: z.string(),
  phase: SplitPhaseField,
  state_version: Count,
  wanted: SplitWantedField.nullable(),
  routing_version_cutover: Count.nullable(),
  routing_version_rollback: Count.nullable(),
};

/** What planning or changing a split answers. */
export const SplitTransition = z.strictObject(splitAnswer).meta({ id: "SplitTransition" });
export type SplitTransition = z.infer<typeof SplitTransition>;

/** What a cutover answers; of a dry run, what would stand in its way. */
export const CutoverTransition = z
  .strictObject({
    ...splitAnswer,
    dry_run: z.boolean(),
    /** Whether all checks of a dry run are green; null for a real one. */
    ready: z.boolean().nullable(),
    checks: z.array(StepCheck).nullable(),
  })
  .meta({ id: "CutoverTransition" });
export type CutoverTransition = z.infer<typeof CutoverTransition>;

const transition = {
  method: "POST",
  verb: "write",
  params: SplitParams,
  answer: SplitTransition,
  status: 202,
} as const;

/** What the API can do with splits. */
export const SPLIT_OPERATIONS = {
  listSplits: {
    method: "GET",
    path: SPLITS_PATH,
    summary: "Lists splits, newest first",
    verb: "read",
    query: z.strictObject({
      ...pageQuery,
      phase: commaList(SplitPhaseField).optional(),
      source: ShardName.optional(),
      target: ShardName.optional(),
    }),
    answer: pageOf(SplitDocument),
    status: 200,
  },
  planSplit: {
    method: "POST",
    path: SPLITS_PATH,
    summary: "Plans to move tenants from one shard to another while they are used",
    verb: "write",
    body: PlanSplitBody,
    bodyBytesMax: DOCUMENT_BYTES_MAX,
    answer: SplitTransition,
    status: 202,
    creates: true,
    keyField: "client_request_id",
  },
  getSplit: {
    method: "GET",
    path: SPLIT_PATH,
    summary: "Shows a split, how far it is, and what can be done next",
    verb: "read",
    params: SplitParams,
    query: z.strictObject(readQuery),
    answer: SplitDocument,
    status: 200,
  },
  listSplitSteps: {
    method: "GET",
    path: `${SPLIT_PATH}/steps`,
    summary: "Lists the steps of a split and the runs that did them, newest first",
    verb: "read",
    params: SplitParams,
    query: z.strictObject(pageQuery),
    answer: pageOf(SplitStepDocument),
    status: 200,
  },
  startDualWrite: {
    ...transition,
    path: `${SPLIT_PATH}/start-dual-write`,
    summary: "Arms the capture of changes and the fences inside the source",
    body: TransitionBody,
  },
  runSplitBackfill: {
    ...transition,
    path: `${SPLIT_PATH}/run-backfill`,
    summary: "Copies the rows of the tenants, and follows what is written from then on",
    body: TransitionBody,
  },
  cutOverSplit: {
    ...transition,
    path: `${SPLIT_PATH}/cutover`,
    summary: "Hands the tenants over to the target, or says what stands in the way",
    body: z.strictObject({ ...expectation, reason: Reason, dry_run: z.boolean().default(false) }),
    answer: CutoverTransition,
  },
  completeSplit: {
    ...transition,
    path: `${SPLIT_PATH}/complete`,
    summary: "Ends the way back; the rows on the source are removed after the grace time",
    body: TransitionBody,
  },
  rollBackSplit: {
    ...transition,
    path: `${SPLIT_PATH}/rollback`,
    summary: "Discards the copy, or after a cutover hands the tenants back to the source",
    body: TransitionBody,
  },
  resumeSplit: {
    ...transition,
    path: `${SPLIT_PATH}/resume`,
    summary: "Tries a step that has failed once more",
    body: TransitionBody,
  },
  changeSplitSchema: {
    ...transition,
    verb: "ddl",
    path: `${SPLIT_PATH}/ddl`,
    summary: "Changes the schema of both shards at the same place in the stream of changes",
    body: z.strictObject({
      ...expectation,
      reason: Reason,
      /** The statement, as both shards run it. */
      ddl: z.string().min(1).max(100_000),
    }),
    bodyBytesMax: DOCUMENT_BYTES_MAX,
  },
} as const satisfies Record<string, Operation>;
