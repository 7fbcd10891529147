import { z } from "zod";
import { Count, FailureField, InstantText } from "../envelope.ts";
import { MoveStateField } from "./events.ts";
import { MoveStrategy, MovePlan } from "./spec.ts";
import type { MoveRow, MoveSegmentRow } from "./rows.ts";
import { NextField, Topology } from "../shard/spec.ts";
import { RunStateField } from "../run/api.ts";
import { AssetKey } from "../definition/spec.ts";
import {
  clientRequestId,
  accepted,
  commaList,
  expectation,
  LARGE_BODY_BYTES_MAX,
  type Operation,
  pageOf,
  pageQuery,
  readQuery,
  TransitionBody,
} from "../operation.ts";

/** What a move is busy with. */
export const MovePhaseField = z.enum(["survey", "copy", "remove", "check", "done"]);

/** Where a segment of a move stands. */
export const MoveSegmentStateField = z.enum([
  "PENDING",
  "COPIED",
  "REMOVED",
  "POISONED",
  "EXCLUDED",
]);

const moveFields = {
  move_id: z.string(),
  /** The definition it was made from, if any. */
  name: z.string().nullable(),
  state: MoveStateField,
  state_version: Count,
  /** Why it is in this state, in somebody's words. */
  reason: z.string().nullable(),
  lanes_sealed: Count,
  segment_concurrency: Count,
  rows_per_second: Count.nullable(),
  segments_total: Count,
  segments_pending: Count,
  /** Those that have a run, whatever it is for. */
  segments_active: Count,
  segments_copied: Count,
  segments_removed: Count,
  segments_poisoned: Count,
  segments_excluded: Count,
  /** Of the excluded ones, those that may have rows on the target still. */
  segments_discarding: Count,
  rows_estimated: Count,
  rows_copied: Count,
  bytes_copied: Count,
  rows_removed: Count,
  /** Attempts that failed, and how many of them count against the budget. */
  retries: Count,
  retries_counted: Count,
  last_error: FailureField.nullable(),
  last_error_at: InstantText.nullable(),
  /** Requests to compare everything, segments that wait for it, and what did not match. */
  verifications: Count,
  verify_waiting: Count,
  verify_failed: Count,
  planned_by: z.string(),
  created_at: InstantText,
  created_pos: Count,
  started_at: InstantText.nullable(),
  finished_at: InstantText.nullable(),
  row_version: Count,
} satisfies { [Field in keyof MoveRow]?: z.ZodType<MoveRow[Field]> };

/** The fields of a move's row that are shown as they are. */
export const MOVE_FIELDS = Object.keys(moveFields) as (keyof typeof moveFields)[];

/** What the look at where all rows are came to. */
const check = z.strictObject({
  /** How many times it was made, and whether it is being made. */
  n: Count,
  running: z.boolean(),
  /** The last request to compare everything that it answers; 0 for none. */
  answers: Count,
  /** Null before the first. */
  ok: z.boolean().nullable(),
  note: z.string().nullable(),
  /** Rows of excluded segments, which were left out. */
  excepted: Count,
  /** Rows where they do not belong. */
  misplaced: z.array(z.strictObject({ shard: z.string(), table: z.string(), rows: Count })),
});

const moveDocument = z.strictObject({
  ...moveFields,
  /** Whether it is only looked at how large it would be. */
  dry_run: z.boolean(),
  phase: MovePhaseField,
  /** The shards that rows leave, and those that they come to. */
  shards_from: z.array(z.string()),
  shards_to: z.array(z.string()),
  tables: z.array(z.string()),
  strategy: MoveStrategy,
  replication_lag_ms: Count.nullable(),
  segment_attempts: Count,
  retry_budget: Count.nullable(),
  /** Whether the rows stay on the shards that they came from. */
  keep_source: z.boolean(),
  /** Pairs of shards and tables, and whether it is known how many segments they have. */
  lanes_total: Count,
  surveyed: z.boolean(),
  /** It goes on, but no worker of this server that knows its shards has asked within the last minute. */
  lacks_worker: z.boolean(),
  /** The first of the segments that have a run. */
  current_segment: Count.nullable(),
  /** Segments that are copied, removed or excluded, of all that are known. */
  progress_pct: z.number().min(0).max(100),
  /** Of as many segments as can still run at once, by the work so far; null when not known. */
  rate_rows_per_second: z.number().nonnegative().nullable(),
  eta_seconds: Count.nullable(),
  check,
  next: NextField,
});

/** A move as the API lists it. */
export const MoveDocument = moveDocument.meta({ id: "Move" });
export type MoveDocument = z.infer<typeof MoveDocument>;

/** Rows of one table from one shard to another. */
const LaneDocument = z
  .strictObject({
    lane: Count,
    table: z.string(),
    shard_by: z.string(),
    from: z.string(),
    to: z.string(),
    /** Whether all of its segments are known. */
    sealed: z.boolean(),
  })
  .meta({ id: "MoveLane" });

/** Most lanes that a move is shown with. */
export const LANES_SHOWN_MAX = 1_000;

/** A move with its topologies and what goes where; those may be large. */
export const MoveDetails = moveDocument
  .extend({
    from: Topology,
    to: Topology,
    /** The first thousand. */
    lanes: z.array(LaneDocument),
  })
  .meta({ id: "MoveDetails" });
export type MoveDetails = z.infer<typeof MoveDetails>;

const segmentFields = {
  move_id: z.string(),
  segment_index: Count,
  segment_id: z.string(),
  lane: Count,
  table_name: z.string(),
  /** Keys from here on, and below there; null for no bound. */
  lower: z.array(z.string()).nullable(),
  upper: z.array(z.string()).nullable(),
  generation: Count,
  state: MoveSegmentStateField,
  rows_estimated: Count,
  rows_copied: Count,
  bytes_copied: Count,
  digest: z.string().nullable(),
  /** How far the copy is known to have got, and the position it was read at. */
  cursor: z.array(z.string()).nullable(),
  position: z.string().nullable(),
  run_id: z.string().nullable(),
  step: z.enum(["copy", "verify", "remove"]).nullable(),
  worker_id: z.string().nullable(),
  attempts: Count,
  /** Attempts that failed since somebody looked. */
  failures: Count,
  next_retry_at: InstantText.nullable(),
  error: FailureField.nullable(),
  excluded: z.strictObject({ by: z.string(), reason: z.string(), at: InstantText }).nullable(),
  created_at: InstantText,
  finished_at: InstantText.nullable(),
  row_version: Count,
} satisfies { [Field in keyof MoveSegmentRow]?: z.ZodType<MoveSegmentRow[Field]> };

/** The fields of a segment's row that are shown as they are. */
export const MOVE_SEGMENT_FIELDS = Object.keys(segmentFields) as (keyof typeof segmentFields)[];

const segmentDocument = z.strictObject({
  ...segmentFields,
  from: z.string(),
  to: z.string(),
  running: z.boolean(),
  /** The last comparison of both sides; null when there was none. */
  verification: z
    .strictObject({
      n: Count,
      ok: z.boolean().nullable(),
      note: z.string().nullable(),
      at: InstantText.nullable(),
    })
    .nullable(),
});

/** A segment of a move as the API lists it; of one that runs, how far it is now. */
export const MoveSegmentDocument = segmentDocument.meta({ id: "MoveSegment" });
export type MoveSegmentDocument = z.infer<typeof MoveSegmentDocument>;

const SegmentRun = z
  .strictObject({
    run_id: z.string(),
    step: z.enum(["copy", "verify", "remove"]),
    /** Counts the runs of the segment from 1. */
    n: Count,
    state: RunStateField,
    requested_at: InstantText,
    started_at: InstantText.nullable(),
    finished_at: InstantText.nullable(),
    error: FailureField.nullable(),
  })
  .meta({ id: "MoveSegmentRun" });
export type MoveSegmentRun = z.infer<typeof SegmentRun>;

/** A segment of a move with its runs, newest first: the last fifty. */
export const MoveSegmentDetails = segmentDocument
  .extend({ runs: z.array(SegmentRun) })
  .meta({ id: "MoveSegmentDetails" });
export type MoveSegmentDetails = z.infer<typeof MoveSegmentDetails>;

/** What a segment of a move is shown as on a map: RUNNING where somebody works on it, and was not told to stop. */
export const MoveCellState = z.enum([
  "PENDING",
  "RUNNING",
  "COPIED",
  "REMOVED",
  "POISONED",
  "EXCLUDED",
]);
export type MoveCellState = z.infer<typeof MoveCellState>;

/** How far the rows of one table from one shard to another are; as many lanes as a move is shown with. */
const LaneProgress = z
  .strictObject({
    lane: Count,
    segments: Count,
    /** Of the segments, how many are so; what there is none of is left out. */
    states: z.partialRecord(MoveCellState, Count),
    rows_estimated: Count,
    rows_copied: Count,
  })
  .meta({ id: "MoveLaneProgress" });
export type LaneProgress = z.infer<typeof LaneProgress>;

/** All segments of a move at once, by their index. */
export const MoveSegmentMap = z
  .strictObject({
    move_id: z.string(),
    cells: Count,
    states: z.array(MoveCellState),
    /** A place in `states` and a number of segments, in turn, from the first segment on. */
    lengths: z.array(Count),
    /** Those that have segments, the first thousand. */
    lanes: z.array(LaneProgress),
    state_version: Count,
    row_version: Count,
    pos: Count,
  })
  .meta({ id: "MoveSegmentMap" });
export type MoveSegmentMap = z.infer<typeof MoveSegmentMap>;

/** Where everything about moves lives. */
export const MOVES_PATH = "/api/v1/moves";

const MOVE_PATH = `${MOVES_PATH}/{move}`;
const SEGMENT_PATH = `${MOVE_PATH}/segments/{segment_index}`;

const moveRef = z
  .string()
  .min(1)
  .max(200)
  .describe("The id of the move, or the name of the definition that it was made from");

const MoveParams = z.strictObject({ move: moveRef });

const SegmentParams = z.strictObject({
  move: moveRef,
  segment_index: z.coerce.number<number>({ error: "must be the index of a segment" }).int().min(0),
});

/** A wish to move rows between shards: by a definition, or by a plan of its own. */
export const PlanMoveBody = z
  .strictObject({
    ...clientRequestId,
    /** The name of a definition. */
    move: AssetKey.optional(),
    plan: MovePlan.optional(),
    /** Only look how large it would be; nothing is copied. */
    dry_run: z.boolean().default(false),
  })
  .refine(({ move, plan }) => (move === undefined) !== (plan === undefined), {
    error: "must be given, or plan, and not both",
    path: ["move"],
  })
  .meta({ id: "PlanMove" });
export type PlanMoveBody = z.infer<typeof PlanMoveBody>;

const moveAnswer = {
  ...accepted,
  move_id: z.string(),
  state: MoveStateField,
  state_version: Count,
};

/** What planning or changing a move answers. */
export const MoveTransition = z.strictObject(moveAnswer).meta({ id: "MoveTransition" });
export type MoveTransition = z.infer<typeof MoveTransition>;

/** What a change of one segment answers; null for all that were quarantined. */
export const MoveSegmentTransition = z
  .strictObject({ ...moveAnswer, segment_index: Count.nullable() })
  .meta({ id: "MoveSegmentTransition" });
export type MoveSegmentTransition = z.infer<typeof MoveSegmentTransition>;

const RetuneBody = z
  .strictObject({
    ...expectation,
    segment_concurrency: MovePlan.shape.segment_concurrency.unwrap().optional(),
    /** Null for no limit. */
    rows_per_second: MovePlan.shape.rows_per_second.unwrap().optional(),
  })
  .refine((body) => body.segment_concurrency !== undefined || body.rows_per_second !== undefined, {
    error: "must be given, or rows_per_second",
    path: ["segment_concurrency"],
  });

const transition = {
  method: "POST",
  verb: "write",
  params: MoveParams,
  body: TransitionBody,
  answer: MoveTransition,
  status: 202,
} as const;

const segmentTransition = {
  method: "POST",
  verb: "write",
  params: SegmentParams,
  body: TransitionBody,
  answer: MoveSegmentTransition,
  status: 202,
} as const;

/** What the API can do with moves. */
export const MOVE_OPERATIONS = {
  listMoves: {
    method: "GET",
    path: MOVES_PATH,
    summary: "Lists moves, newest first",
    verb: "read",
    query: z.strictObject({
      ...pageQuery,
      status: commaList(MoveStateField).optional(),
      name: AssetKey.optional(),
    }),
    answer: pageOf(MoveDocument),
    status: 200,
  },
  planMove: {
    method: "POST",
    path: MOVES_PATH,
    summary: "Plans to move rows between shards, or only looks how large that would be",
    verb: "write",
    body: PlanMoveBody,
    bodyBytesMax: LARGE_BODY_BYTES_MAX,
    answer: MoveTransition,
    status: 202,
    creates: true,
    keyField: "client_request_id",
  },
  getMove: {
    method: "GET",
    path: MOVE_PATH,
    summary: "Shows a move, its topologies, how far it is, and what can be done next",
    verb: "read",
    params: MoveParams,
    query: z.strictObject(readQuery),
    answer: MoveDetails,
    status: 200,
  },
  startMove: { ...transition, path: `${MOVE_PATH}/start`, summary: "Begins to copy" },
  pauseMove: {
    ...transition,
    path: `${MOVE_PATH}/pause`,
    summary: "Stops a move; its segments keep how far they got",
  },
  resumeMove: { ...transition, path: `${MOVE_PATH}/resume`, summary: "Lets a move go on" },
  cancelMove: {
    ...transition,
    path: `${MOVE_PATH}/cancel`,
    summary: "Ends a move for good; what was copied stays where it is",
  },
  verifyMove: {
    ...transition,
    path: `${MOVE_PATH}/verify`,
    summary: "Compares everything that was copied once more, or looks where all rows are",
  },
  retuneMove: {
    ...transition,
    path: `${MOVE_PATH}/retune`,
    summary: "Changes how many segments are copied at once, or how fast",
    body: RetuneBody,
  },
  retryMove: {
    ...transition,
    path: `${MOVE_PATH}/retry`,
    summary: "Tries all quarantined segments once more",
    answer: MoveSegmentTransition,
  },
  listMoveSegments: {
    method: "GET",
    path: `${MOVE_PATH}/segments`,
    summary: "Lists the segments of a move by their index",
    verb: "read",
    params: MoveParams,
    query: z.strictObject({
      ...pageQuery,
      state: commaList(MoveSegmentStateField).optional(),
      /** Only those that have a run. */
      active: z.enum(["true"]).optional(),
    }),
    answer: pageOf(MoveSegmentDocument),
    status: 200,
  },
  mapMoveSegments: {
    method: "GET",
    path: `${MOVE_PATH}/segments/map`,
    summary: "Shows the state of all segments of a move as run lengths, and how far each lane is",
    verb: "read",
    params: MoveParams,
    query: z.strictObject(readQuery),
    answer: MoveSegmentMap,
    status: 200,
  },
  getMoveSegment: {
    method: "GET",
    path: SEGMENT_PATH,
    summary: "Shows a segment of a move and its runs",
    verb: "read",
    params: SegmentParams,
    query: z.strictObject(readQuery),
    answer: MoveSegmentDetails,
    status: 200,
  },
  retryMoveSegment: {
    ...segmentTransition,
    path: `${SEGMENT_PATH}/retry`,
    summary: "Tries a quarantined segment once more",
  },
  recopyMoveSegment: {
    ...segmentTransition,
    path: `${SEGMENT_PATH}/recopy`,
    summary: "Copies a segment again from its beginning",
  },
  excludeMoveSegment: {
    ...segmentTransition,
    path: `${SEGMENT_PATH}/exclude`,
    summary: "Lets a quarantined segment stay where it is, on record",
    body: z.strictObject({ ...expectation, reason: z.string().min(1).max(1_000) }),
  },
} as const satisfies Record<string, Operation>;
