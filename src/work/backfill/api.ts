import { z } from "zod";
import { Count, InstantText, JsonValue } from "../envelope.ts";
import {
  ChunkStateField,
  BackfillDocument,
  BackfillStateField,
  ChunkDocument,
  ChunkPartitionDocument,
} from "./documents.ts";
import { Selector, StaleReasons } from "../../kernel/keyspace/selector.ts";
import { AssetSelection, Labels, RetryPolicy } from "../definition/spec.ts";
import {
  BACKFILL_ALIASES,
  accepted,
  commaList,
  expectation,
  type Operation,
  ORCHESTRATION_PATH,
  pageOf,
  pageQuery,
  PosText,
  QueryInstant,
  readQuery,
  Reason,
  timeQuery,
  TransitionBody,
  DOCUMENT_BYTES_MAX,
} from "../operation.ts";

/** The states of all chunks of a backfill, short enough to be drawn at once. */
export const ChunkMap = z
  .strictObject({
    backfill_id: z.string(),
    /** As the backfill counts them: a split chunk is not counted, its tiles are. */
    total_chunks: Count,
    /** How many cells the map has: all values of chunk_index, split chunks and tiles included. */
    cells: Count,
    /** The chunks that the backfill began with; the cells from here on are tiles of split ones. */
    base_chunks: Count,
    states: z.array(ChunkStateField),
    /** Place in `states` and number of chunks, in turn, from chunk_index 0 on. */
    lengths: z.array(Count),
    state_version: Count,
    row_version: Count,
    pos: Count,
  })
  .meta({ id: "ChunkMap" });
export type ChunkMap = z.infer<typeof ChunkMap>;

/** Tasks that failed alike: with errors of one class, whose messages differ only in values. */
export const FailureGroup = z
  .strictObject({
    error_class: z.string(),
    /** The newest message. */
    message: z.string(),
    /** The messages without numbers, quoted values, ids and partition keys. */
    pattern: z.string(),
    /** Runs in which tasks failed so. */
    runs: Count,
    /** Tasks that failed so; a batch counts once for each kind that its partitions failed with. */
    tasks: Count,
    first_at: InstantText,
    last_at: InstantText,
    /** A task in the newest failed run that failed so; the run alone where more is not known. */
    example: z.strictObject({
      run_id: z.string(),
      chunk_index: Count,
      task_key: Count.nullable(),
      asset_key: z.string().nullable(),
      partition_key: z.string().nullable(),
    }),
  })
  .meta({ id: "FailureGroup" });
export type FailureGroup = z.infer<typeof FailureGroup>;

/** What went wrong in a backfill, what most tasks failed with first. */
export const FailureGroups = z
  .strictObject({
    backfill_id: z.string(),
    items: z.array(FailureGroup),
    /**
     * False when there are more failed runs or kinds of failure than were looked at; tasks may then be
     * counted as the first one of their run that failed.
     */
    complete: z.boolean(),
    pos: Count,
  })
  .meta({ id: "FailureGroups" });
export type FailureGroups = z.infer<typeof FailureGroups>;

const BACKFILLS_PATH = `${ORCHESTRATION_PATH}/backfills`;
const BACKFILL_PATH = `${BACKFILLS_PATH}/{backfill_id}`;

/** An id that a caller may choose: it stands in paths, in the names of chunks and in run keys. */
const OwnBackfillId = z
  .string()
  .max(64)
  .regex(/^(?!run_)[A-Za-z0-9][A-Za-z0-9_-]*$/, {
    error: "must have letters, digits, - and _ only, and may not begin with run_",
  });

const createFields = {
  /** Its id, for callers that want one of their own; made up when it is left out. */
  backfill_id: OwnBackfillId.optional(),
  /** Names the request; the same name never makes a second backfill. */
  client_request_id: z.string().min(1).max(200).optional(),
  /** The assets to fill; `asset_selection` is the same. */
  assets: z.array(AssetSelection).min(1).max(1_000).optional(),
  asset_selection: z.array(AssetSelection).min(1).max(1_000).optional(),
  selector: Selector,
  chunk_size: z.int().min(1).max(10_000).default(10),
  max_concurrent_runs: z.int().min(1).max(1_000).default(2),
  order: z.enum(["ascending", "descending"]).default("ascending"),
  priority: z.int().min(-100).max(100).default(0),
  retry: RetryPolicy.optional(),
  failure_limit: z
    .union([
      z.strictObject({ count: z.int().min(1) }),
      z.strictObject({ percent: z.number().positive().max(100) }),
    ])
    .optional(),
  /** Go ahead although another active backfill touches the same partitions. */
  allow_overlap: z.boolean().default(false),
  /** Start although the backfill before this one failed. */
  continue_on_failure: z.boolean().default(false),
  after_backfill_id: z.string().min(1).max(100).optional(),
  /** The plan that a preview showed; refused when it is no longer the same. */
  plan_hash: z.string().min(1).max(100).optional(),
  labels: Labels.optional(),
  config: JsonValue.optional(),
  code_version: z.string().min(1).max(200).optional(),
  /** Plan no chunk before this time. */
  start_at: QueryInstant.optional(),
  /** Plan chunks only in this time of each day, such as `22:00-06:00 Europe/Berlin`; UTC without a zone. */
  window: z.string().min(1).max(200).optional(),
};

/** A wish for a backfill. */
export const CreateBackfillBody = z
  .strictObject(createFields)
  .refine((body) => (body.assets === undefined) !== (body.asset_selection === undefined), {
    error: "must be given, either as assets or as asset_selection",
    path: ["assets"],
  })
  .meta({ id: "CreateBackfill" });
export type CreateBackfillBody = z.infer<typeof CreateBackfillBody>;

/** One of the backfills that a request makes: one for each partition definition it touches. */
const MadeBackfill = z.strictObject({
  backfill_id: z.string(),
  asset_selection: z.array(z.string()),
  /** Keys of partitions, and partitions of all assets: what the backfill counts in. */
  total_partitions: Count,
  partitions_total: Count,
  total_chunks: Count,
  /** Why its partitions are stale, for a selector of stale ones. */
  stale_reasons: StaleReasons.nullable(),
});

/** What making a backfill answers. */
export const CreatedBackfill = z
  .strictObject({
    ...accepted,
    backfill_id: z.string(),
    state: BackfillStateField,
    state_version: Count,
    asset_selection: z.array(z.string()),
    selector: Selector,
    total_partitions: Count,
    partitions_total: Count,
    total_chunks: Count,
    stale_reasons: StaleReasons.nullable(),
    /** All that were made, in the order they run; the first is the one named above. */
    backfills: z.array(MadeBackfill),
  })
  .meta({ id: "CreatedBackfill" });
export type CreatedBackfill = z.infer<typeof CreatedBackfill>;

/** What a backfill would be. */
export const BackfillPreview = z
  .strictObject({
    asset_selection: z.array(z.string()),
    selector: Selector,
    total_partitions: Count,
    partitions_total: Count,
    /** How many the selector names in all backfills before `only` leaves any out; null without it. */
    partitions_selected: Count.nullable(),
    /** When its first chunk may be planned, by its start and its window; null for at once. */
    opens_at: InstantText.nullable(),
    total_chunks: Count,
    stale_reasons: StaleReasons.nullable(),
    estimated_runs: Count,
    first_chunk_partitions: z.array(z.string()),
    overlaps: z.array(z.strictObject({ backfill_id: z.string(), asset_keys: z.array(z.string()) })),
    /** From past runs of the same assets; null when there are none. */
    estimated_seconds: z.number().nullable(),
    plan_hash: z.string(),
    backfills: z.array(MadeBackfill.omit({ backfill_id: true })),
    pos: Count,
  })
  .meta({ id: "BackfillPreview" });
export type BackfillPreview = z.infer<typeof BackfillPreview>;

/** What a change of state answers. */
export const BackfillTransition = z
  .strictObject({
    ...accepted,
    backfill_id: z.string(),
    state: BackfillStateField,
    state_version: Count,
  })
  .meta({ id: "BackfillTransition" });
export type BackfillTransition = z.infer<typeof BackfillTransition>;

/** A run of a backfill whose tasks logged something. */
export const LoggedRunDocument = z
  .strictObject({
    run_id: z.string(),
    chunk_index: Count,
    /** The times of its first and its last line. */
    began_at: InstantText,
    last_at: InstantText,
    /** What is kept of its log. */
    bytes: Count,
    /** Lines that were not kept, as there was no room for them. */
    dropped: Count,
  })
  .meta({ id: "LoggedRun" });

const BackfillParams = z.strictObject({ backfill_id: z.string().min(1).max(100) });

const CancelBody = z.strictObject({
  ...expectation,
  reason: Reason,
  /** Cancel the active runs too, rather than let them end. */
  now: z.boolean().default(false),
});

const RetryBody = z.strictObject({
  retry_request_id: z.string().min(1).max(200).optional(),
  /** Everything of the target that is not materialized, whatever happened to it; once it has ended. */
  missing: z.boolean().default(false),
  /** Partitions that ended so and that no other retry has taken on; before it has ended, only FAILED. */
  outcomes: z
    .array(z.enum(["FAILED", "CANCELLED", "SKIPPED"]))
    .min(1)
    .max(3)
    .optional(),
  /** Go ahead although an active backfill touches the same partitions. */
  allow_overlap: z.boolean().default(false),
});

const RetuneBody = z
  .strictObject({
    ...expectation,
    max_concurrent_runs: z.int().min(1).max(1_000).optional(),
    priority: z.int().min(-100).max(100).optional(),
  })
  .refine((body) => body.max_concurrent_runs !== undefined || body.priority !== undefined, {
    error: "must be given, or priority",
    path: ["max_concurrent_runs"],
  });

/** What the API can do with backfills. */
export const BACKFILL_OPERATIONS = {
  createBackfill: {
    method: "POST",
    path: BACKFILLS_PATH,
    summary: "Creates a backfill",
    verb: "write",
    body: CreateBackfillBody,
    aliases: BACKFILL_ALIASES,
    bodyBytesMax: DOCUMENT_BYTES_MAX,
    answer: CreatedBackfill,
    status: 202,
    creates: true,
    keyField: "client_request_id",
  },
  previewBackfill: {
    method: "POST",
    path: `${BACKFILLS_PATH}/preview`,
    summary: "Shows what a backfill would do, without creating it",
    verb: "read",
    body: CreateBackfillBody,
    aliases: BACKFILL_ALIASES,
    bodyBytesMax: DOCUMENT_BYTES_MAX,
    answer: BackfillPreview,
    status: 200,
  },
  listBackfills: {
    method: "GET",
    path: BACKFILLS_PATH,
    summary: "Lists backfills, newest first",
    verb: "read",
    query: z.strictObject({
      ...pageQuery,
      ...timeQuery,
      status: commaList(BackfillStateField).optional(),
      /** Only retries of this backfill. */
      parent_backfill_id: z.string().min(1).max(100).optional(),
    }),
    answer: pageOf(BackfillDocument),
    status: 200,
  },
  getBackfill: {
    method: "GET",
    path: BACKFILL_PATH,
    summary: "Shows a backfill, now or as it was at a position",
    verb: "read",
    params: BackfillParams,
    query: z.strictObject({ ...readQuery, as_of: PosText.optional() }),
    answer: BackfillDocument,
    status: 200,
  },
  listChunks: {
    method: "GET",
    path: `${BACKFILL_PATH}/chunks`,
    summary: "Lists the chunks of a backfill by index, also those not planned yet",
    verb: "read",
    params: BackfillParams,
    query: z.strictObject({
      ...pageQuery,
      status: commaList(ChunkStateField).optional(),
      /** The same as `status`. */
      state: commaList(ChunkStateField).optional(),
      /** The first chunk_index of the list; not together with `cursor`. */
      from: z.coerce.number<number>().int().min(0).optional(),
    }),
    answer: pageOf(ChunkDocument),
    status: 200,
  },
  listChunkPartitions: {
    method: "GET",
    path: `${BACKFILL_PATH}/chunks/{chunk_index}/partitions`,
    summary: "Lists the partitions of a chunk in their order, with what did not succeed",
    verb: "read",
    params: BackfillParams.extend({ chunk_index: z.coerce.number<number>().int().min(0) }),
    query: z.strictObject({
      ...pageQuery,
      /** Only partitions of which an asset ended so. */
      outcome: commaList(z.enum(["FAILED", "CANCELLED", "SKIPPED"])).optional(),
    }),
    answer: pageOf(ChunkPartitionDocument),
    status: 200,
  },
  mapChunks: {
    method: "GET",
    path: `${BACKFILL_PATH}/chunks/map`,
    summary: "Shows the state of every chunk of a backfill at once",
    verb: "read",
    params: BackfillParams,
    query: z.strictObject(readQuery),
    answer: ChunkMap,
    status: 200,
  },
  listLoggedRuns: {
    method: "GET",
    path: `${BACKFILL_PATH}/logs`,
    summary:
      "Lists the runs of a backfill whose tasks logged something, those of the last chunks first; " +
      "a page may be short and still have a next",
    verb: "read",
    params: BackfillParams,
    query: z.strictObject(pageQuery),
    answer: pageOf(LoggedRunDocument),
    status: 200,
  },
  listFailures: {
    method: "GET",
    path: `${BACKFILL_PATH}/failures`,
    summary: "Lists what went wrong in a backfill, failures of one kind as one",
    verb: "read",
    params: BackfillParams,
    query: z.strictObject(readQuery),
    answer: FailureGroups,
    status: 200,
  },
  pauseBackfill: {
    method: "POST",
    path: `${BACKFILL_PATH}/pause`,
    summary: "Stops planning chunks; active ones finish",
    verb: "write",
    params: BackfillParams,
    body: TransitionBody,
    answer: BackfillTransition,
    status: 202,
  },
  resumeBackfill: {
    method: "POST",
    path: `${BACKFILL_PATH}/resume`,
    summary: "Goes on with the first chunk that is not planned",
    verb: "write",
    params: BackfillParams,
    body: TransitionBody,
    answer: BackfillTransition,
    status: 202,
  },
  cancelBackfill: {
    method: "POST",
    path: `${BACKFILL_PATH}/cancel`,
    summary: "Ends a backfill; active runs finish, or are cancelled too",
    verb: "write",
    params: BackfillParams,
    body: CancelBody,
    answer: BackfillTransition,
    status: 202,
  },
  retryBackfill: {
    method: "POST",
    path: `${BACKFILL_PATH}/retry-failed`,
    summary:
      "Creates a backfill of exactly the partitions that failed, so far while it goes on, or are missing",
    verb: "write",
    params: BackfillParams,
    body: RetryBody,
    answer: CreatedBackfill,
    status: 202,
    creates: true,
    keyField: "retry_request_id",
  },
  retuneBackfill: {
    method: "POST",
    path: `${BACKFILL_PATH}/retune`,
    summary: "Changes how many chunks run at once, or the priority",
    verb: "write",
    params: BackfillParams,
    body: RetuneBody,
    answer: BackfillTransition,
    status: 202,
  },
} as const satisfies Record<string, Operation>;
