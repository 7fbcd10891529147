import { z } from "zod";
import { Count } from "../events/fields.ts";
import { SyncStateField } from "../events/sync-events.ts";
import { Block, SyncName, SyncTarget } from "../sync-spec.ts";
import { clientRequestId, entityAnswer } from "./entity-fields.ts";
import {
  expectation,
  expectationQuery,
  type Operation,
  Reason,
  TransitionBody,
  DOCUMENT_BYTES_MAX,
} from "./operation.ts";
import {
  SEGMENT_PATH,
  SegmentParams,
  SYNC_PATH,
  SyncParams,
  SYNCS_PATH,
} from "./sync-operations.ts";

const maxParallel = z.int().min(1).max(1_000);
const priority = z.int().min(-100).max(100);

/** A wish for another target of a sync. */
export const AddSyncBody = z
  .strictObject({
    ...clientRequestId,
    /** The definition that it is a target of. */
    name: SyncName,
    target: SyncTarget,
    /** The first and the last block; what the definition says when they are left out. */
    from_block: Block.optional(),
    to_block: Block.optional(),
    max_parallel: maxParallel.optional(),
    priority: priority.optional(),
  })
  .meta({ id: "AddSync" });
export type AddSyncBody = z.infer<typeof AddSyncBody>;

const syncAnswer = {
  ...entityAnswer,
  sync_id: z.string(),
  target_key: z.string(),
  state: SyncStateField,
};

/** What adding, changing or removing a sync answers. */
export const SyncTransition = z.strictObject(syncAnswer).meta({ id: "SyncTransition" });
export type SyncTransition = z.infer<typeof SyncTransition>;

/** What a wish about several segments answers. */
export const SegmentsTransition = z
  .strictObject({ ...syncAnswer, segments: Count })
  .meta({ id: "SyncSegmentsTransition" });
export type SegmentsTransition = z.infer<typeof SegmentsTransition>;

/** What a change of one segment answers. */
export const SegmentTransition = z
  .strictObject({ ...syncAnswer, segment_index: Count })
  .meta({ id: "SyncSegmentTransition" });
export type SegmentTransition = z.infer<typeof SegmentTransition>;

const SetHeadBody = z.strictObject({
  ...expectation,
  /** The newest block that the source has. */
  head: Block,
  reason: Reason,
});

const RetuneBody = z
  .strictObject({
    ...expectation,
    /** Null for what the definition says. */
    max_parallel: maxParallel.nullable().optional(),
    priority: priority.nullable().optional(),
  })
  .refine((body) => body.max_parallel !== undefined || body.priority !== undefined, {
    error: "must be given, or priority",
    path: ["max_parallel"],
  });

const RepairBody = z.strictObject({
  ...expectation,
  from_block: Block,
  to_block: Block,
  reason: Reason,
});

const VerifyBody = z.strictObject({
  ...expectation,
  /** All that is complete when both are left out. */
  from_block: Block.optional(),
  to_block: Block.optional(),
  /** Fetch again at once what does not pass. */
  repair: z.boolean().default(false),
});

const ExcludeBody = z.strictObject({ ...expectation, reason: z.string().min(1).max(1_000) });

/** What can be done with syncs. */
export const SYNC_CHANGE_OPERATIONS = {
  addSync: {
    method: "POST",
    path: SYNCS_PATH,
    summary: "Adds a target to a sync",
    verb: "write",
    body: AddSyncBody,
    bodyBytesMax: DOCUMENT_BYTES_MAX,
    answer: SyncTransition,
    status: 202,
    creates: true,
    keyField: "client_request_id",
  },
  removeSync: {
    method: "DELETE",
    path: SYNC_PATH,
    summary: "Removes a target of a sync; what is stored stays, and so does the record",
    verb: "write",
    params: SyncParams,
    query: z.strictObject(expectationQuery),
    answer: SyncTransition,
    status: 202,
  },
  pauseSync: {
    method: "POST",
    path: `${SYNC_PATH}/pause`,
    summary: "Stops a sync and its segments, which keep how far they got",
    verb: "write",
    params: SyncParams,
    body: TransitionBody,
    answer: SyncTransition,
    status: 202,
  },
  resumeSync: {
    method: "POST",
    path: `${SYNC_PATH}/resume`,
    summary: "Lets a sync go on",
    verb: "write",
    params: SyncParams,
    body: TransitionBody,
    answer: SyncTransition,
    status: 202,
  },
  retuneSync: {
    method: "POST",
    path: `${SYNC_PATH}/retune`,
    summary: "Changes how many segments of a sync run at once, or the priority",
    verb: "write",
    params: SyncParams,
    body: RetuneBody,
    answer: SyncTransition,
    status: 202,
  },
  setSyncHead: {
    method: "POST",
    path: `${SYNC_PATH}/head`,
    summary: "Sets the head of a sync's source; what was planned beyond it goes",
    verb: "write",
    params: SyncParams,
    body: SetHeadBody,
    answer: SyncTransition,
    status: 202,
  },
  repairSync: {
    method: "POST",
    path: `${SYNC_PATH}/repair`,
    summary: "Fetches exactly these blocks again; what was stored of them is void",
    verb: "write",
    params: SyncParams,
    body: RepairBody,
    bodyBytesMax: DOCUMENT_BYTES_MAX,
    answer: SegmentsTransition,
    status: 202,
  },
  verifySync: {
    method: "POST",
    path: `${SYNC_PATH}/verify`,
    summary: "Has complete segments verified",
    verb: "write",
    params: SyncParams,
    body: VerifyBody,
    bodyBytesMax: DOCUMENT_BYTES_MAX,
    answer: SegmentsTransition,
    status: 202,
  },
  retrySegment: {
    method: "POST",
    path: `${SEGMENT_PATH}/retry`,
    summary: "Tries a segment that was set aside once more",
    verb: "write",
    params: SegmentParams,
    body: TransitionBody,
    answer: SegmentTransition,
    status: 202,
  },
  excludeSegment: {
    method: "POST",
    path: `${SEGMENT_PATH}/exclude`,
    summary: "Lets a segment that was set aside stay unfetched, on record",
    verb: "write",
    params: SegmentParams,
    body: ExcludeBody,
    answer: SegmentTransition,
    status: 202,
  },
} as const satisfies Record<string, Operation>;
