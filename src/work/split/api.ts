import { z } from "zod";
import { Count, FailureField, InstantText } from "../envelope.ts";
import { SplitPhaseField, SplitWantedField, SPLIT_TENANTS_MAX } from "./events.ts";
import type { SplitRow } from "./rows.ts";
import { NamedTenant, NextField, ShardName, TablePolicy } from "../shard/spec.ts";
import { SplitReport, SplitStep, StepCheck } from "../shard/step-protocol.ts";
import { RunStateField } from "../run/api.ts";
import { DurationMs } from "../definition/spec.ts";
import {
  clientRequestId,
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
} from "../operation.ts";

/** How far the last step of a split is. */
export const StepStateField = z.enum(["QUEUED", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED"]);

const splitFields = {
  split_id: z.string(),
  description: z.string().nullable(),
  source: z.string(),
  target: z.string(),
  tenants: z.array(z.string()),
  tables: z.array(TablePolicy),
  phase: SplitPhaseField,
  state_version: Count,
  /** Why it is in this phase, in somebody's words. */
  reason: z.string().nullable(),
  /** What was asked for and has not been come to yet. */
  wanted: SplitWantedField.nullable(),
  /** The statement of a change of the schema that is wanted. */
  ddl: z.string().nullable(),
  lag_limit_ms: Count,
  fence_wait_ms: Count,
  fence_hold_ms: Count,
  grace_ms: Count,
  dual_write_started_at: InstantText.nullable(),
  /** Attempts of all steps that failed. */
  failures: Count,
  error: FailureField.nullable(),
  error_at: InstantText.nullable(),
  routing_version_at_start: Count,
  routing_version_cutover: Count.nullable(),
  routing_version_rollback: Count.nullable(),
  planned_by: z.string(),
  planned_at: InstantText,
  cutover_at: InstantText.nullable(),
  finished_at: InstantText.nullable(),
  /** When what is left on the source may be removed, and when it was. */
  remove_after: InstantText.nullable(),
  removed_at: InstantText.nullable(),
  /** When there is something to do by the time alone: to remove, or to try a cutover again. */
  due_at: InstantText.nullable(),
  updated_at: InstantText,
  created_pos: Count,
  row_version: Count,
} satisfies { [Field in keyof SplitRow]?: z.ZodType<SplitRow[Field]> };

/** The fields of a split's row that are shown as they are. */
export const SPLIT_FIELDS = Object.keys(splitFields) as (keyof typeof splitFields)[];

const backfill = z.strictObject({
  status: z.enum(["pending", "running", "completed", "failed"]),
  started_at: InstantText.nullable(),
  completed_at: InstantText.nullable(),
  total_rows_copied: Count,
  /** In the order in which they are copied; `cursor` is the key of the last row. */
  tables: z.array(
    z.strictObject({
      table: z.string(),
      rows: Count,
      cursor: z.array(z.string()).nullable(),
      done: z.boolean(),
    }),
  ),
  /** Rows of each tenant, as far as they are counted. */
  tenants: z.record(z.string(), Count),
});

const tail = z.strictObject({
  status: z.enum(["pending", "running", "caught_up", "failed"]),
  last_event_id: z.string().nullable(),
  last_event_ts: z.string().nullable(),
  lag_events: Count.nullable(),
  lag_ms: Count.nullable(),
});

const verification = z.strictObject({
  ok: z.boolean(),
  ranges: Count,
  rows: Count,
  finished: z.boolean(),
  note: z.string().nullable(),
}) satisfies z.ZodType<NonNullable<SplitRow["verification"]>>;

const step = z.strictObject({
  n: Count,
  step: SplitStep,
  /** Null when its end was taken note of. */
  state: StepStateField.nullable(),
  run_id: z.string().nullable(),
  worker_id: z.string().nullable(),
  /** The attempt that is under way or was the last; 0 before the first. */
  attempt: Count,
  /** When it is tried again after a failure. */
  retry_at: InstantText.nullable(),
  /** When it last said how far it is. */
  reported_at: InstantText.nullable(),
  /** It waits, but no worker of this server that knows both shards has asked within the last minute. */
  lacks_worker: z.boolean(),
});

/** A split as the API shows it; while a step runs, with how far that is now. */
export const SplitDocument = z
  .strictObject({
    id: z.string(),
    ...splitFields,
    auto_cutover: z.boolean(),
    /** Whether capture is armed on the source, and proven. */
    armed: z.boolean(),
    backfill,
    tail,
    verification: verification.nullable(),
    /** What the look at both schemas found; null before it. */
    checks: z.array(StepCheck).nullable(),
    error_message: z.string().nullable(),
    /** How long writes stood still at the last cutover. */
    write_pause_ms: z.number().nonnegative().nullable(),
    /** The last step; null before the first. */
    step: step.nullable(),
    next: NextField,
  })
  .meta({ id: "Split" });
export type SplitDocument = z.infer<typeof SplitDocument>;

/** One step of a split: the run that did it, and what was taken note of at its end. */
export const SplitStepDocument = z
  .strictObject({
    n: Count,
    step: SplitStep,
    run_id: z.string(),
    state: RunStateField,
    requested_at: InstantText,
    started_at: InstantText.nullable(),
    finished_at: InstantText.nullable(),
    error: FailureField.nullable(),
    /** `fell_back`: a cutover that could not be had; null while its end is not taken note of. */
    outcome: z.enum(["done", "stopped", "failed", "fell_back"]).nullable(),
    reason: z.string().nullable(),
    report: SplitReport.nullable(),
  })
  .meta({ id: "SplitStep" });
export type SplitStepDocument = z.infer<typeof SplitStepDocument>;

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
