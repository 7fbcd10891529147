import { z } from "zod";
import { Block, SyncName } from "../sync-spec.ts";
import { commaList, type Operation, pageOf, pageQuery, readQuery } from "./operation.ts";
import { SegmentMap } from "./segment-map-documents.ts";
import {
  ListedSegmentDocument,
  QuarantineDocument,
  SegmentDocument,
  SegmentShownField,
  SyncDocument,
  SyncStatusField,
  VerificationStatusField,
} from "./sync-documents.ts";
import { SyncOverview, SyncSourceDocument } from "./sync-overview-documents.ts";

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
    summary: "Lists the segments of all syncs that were set aside",
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
    summary: "Lists the segments of a sync that were set aside",
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
