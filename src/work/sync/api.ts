import { z } from "zod";
import { Block, SyncName, SyncTarget } from "./spec.ts";
import {
  commaList,
  type Operation,
  pageOf,
  pageQuery,
  readQuery,
  clientRequestId,
  entityAnswer,
  expectation,
  expectationQuery,
  Reason,
  TransitionBody,
  DOCUMENT_BYTES_MAX,
} from "../operation.ts";
import {
  SegmentMap,
  ListedSegmentDocument,
  QuarantineDocument,
  SegmentDocument,
  SegmentShownField,
  SyncDocument,
  SyncStatusField,
  VerificationStatusField,
  SyncOverview,
  SyncSourceDocument,
} from "./documents.ts";
import { Count } from "../envelope.ts";
import { SyncStateField } from "./events.ts";

/** Where everything about range syncs lives. */
export const SYNCS_PATH = "/api/v1/syncs";

/** Where one sync is. */
export const SYNC_PATH = `${SYNCS_PATH}/{sync}`;
/** Where one segment is. */
export const SEGMENT_PATH = `${SYNC_PATH}/segments/{segment_index}`;

const syncRef = z
  .string()
  .min(1)
  .max(4_000)
  .describe("The id of the sync, or `{name}@{target_key}`");

/** Which sync. */
export const SyncParams = z.strictObject({ sync: syncRef });

/** Which segment. */
export const SegmentParams = z.strictObject({
  sync: syncRef,
  segment_index: z.coerce.number<number>({ error: "must be the index of a segment" }).int().min(0),
});

const BlockText = z.coerce
  .number<number>({ error: "must be a block, an integer from 0" })
  .pipe(Block);

/** What can be asked about syncs; fixed paths come before those with a sync in them. */
export const SYNC_OPERATIONS = {
  syncOverview: {
    method: "GET",
    path: `${SYNCS_PATH}/overview`,
    summary: "Shows all syncs together, and those of each name",
    verb: "read",
    query: z.strictObject(readQuery),
    answer: SyncOverview,
    status: 200,
  },
  listSyncSources: {
    method: "GET",
    path: `${SYNCS_PATH}/sources`,
    summary: "Lists what syncs fetch from: heads, and what was learnt by asking",
    verb: "read",
    query: z.strictObject({ ...pageQuery, name: SyncName.optional() }),
    answer: pageOf(SyncSourceDocument),
    status: 200,
  },
  listQuarantine: {
    method: "GET",
    path: `${SYNCS_PATH}/quarantine`,
    summary: "Lists the quarantined segments of all syncs",
    verb: "read",
    query: z.strictObject(pageQuery),
    answer: pageOf(QuarantineDocument),
    status: 200,
  },
  listAllSegments: {
    method: "GET",
    path: `${SYNCS_PATH}/segments`,
    summary: "Lists segments of all syncs, sync by sync; a page may be short and still have a next",
    verb: "read",
    query: z.strictObject({
      ...pageQuery,
      name: SyncName.optional(),
      source: z.string().min(1).max(200).optional(),
      /** `network=mainnet`, or several fields separated by commas: all of them must match. */
      target: z.string().min(1).max(4_000).optional(),
      /** The field `network` of the target. */
      network: z.string().min(1).max(500).optional(),
      status: commaList(SegmentShownField).optional(),
    }),
    answer: pageOf(ListedSegmentDocument),
    status: 200,
  },
  listSyncs: {
    method: "GET",
    path: SYNCS_PATH,
    summary: "Lists syncs by name and target; a page may be short and still have a next",
    verb: "read",
    query: z.strictObject({
      ...pageQuery,
      name: SyncName.optional(),
      /** All but those that were removed unless told. */
      status: commaList(SyncStatusField).optional(),
      source: z.string().min(1).max(200).optional(),
      /** `network=mainnet`, or several fields separated by commas: all of them must match. */
      target: z.string().min(1).max(4_000).optional(),
    }),
    answer: pageOf(SyncDocument),
    status: 200,
  },
  getSync: {
    method: "GET",
    path: SYNC_PATH,
    summary: "Shows a sync",
    verb: "read",
    params: SyncParams,
    query: z.strictObject(readQuery),
    answer: SyncDocument,
    status: 200,
  },
  listSegments: {
    method: "GET",
    path: `${SYNC_PATH}/segments`,
    summary: "Lists the segments of a sync by their blocks; a page may be short and have a next",
    verb: "read",
    params: SyncParams,
    query: z.strictObject({
      ...pageQuery,
      status: commaList(SegmentShownField).optional(),
      /** Only those whose last verification is so far, or found this. */
      verification: commaList(VerificationStatusField).optional(),
      /** Only those with a block from here on, and up to there. */
      from_block: BlockText.optional(),
      to_block: BlockText.optional(),
    }),
    answer: pageOf(SegmentDocument),
    status: 200,
  },
  mapSegments: {
    method: "GET",
    path: `${SYNC_PATH}/segments/map`,
    summary: "Shows all segments of a sync in at most 365 cells, each as the worst in it",
    verb: "read",
    params: SyncParams,
    query: z.strictObject(readQuery),
    answer: SegmentMap,
    status: 200,
  },
  listSyncQuarantine: {
    method: "GET",
    path: `${SYNC_PATH}/quarantine`,
    summary: "Lists the quarantined segments of a sync",
    verb: "read",
    params: SyncParams,
    query: z.strictObject(pageQuery),
    answer: pageOf(QuarantineDocument),
    status: 200,
  },
  getSegment: {
    method: "GET",
    path: SEGMENT_PATH,
    summary: "Shows a segment",
    verb: "read",
    params: SegmentParams,
    query: z.strictObject(readQuery),
    answer: SegmentDocument,
    status: 200,
  },
} as const satisfies Record<string, Operation>;

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
    summary: "Tries a quarantined segment once more",
    verb: "write",
    params: SegmentParams,
    body: TransitionBody,
    answer: SegmentTransition,
    status: 202,
  },
  excludeSegment: {
    method: "POST",
    path: `${SEGMENT_PATH}/exclude`,
    summary: "Lets a quarantined segment stay unfetched, on record",
    verb: "write",
    params: SegmentParams,
    body: ExcludeBody,
    answer: SegmentTransition,
    status: 202,
  },
} as const satisfies Record<string, Operation>;
