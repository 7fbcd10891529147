import { z } from "zod";
import { Count } from "../events/fields.ts";
import { MoveStateField } from "../events/move-events.ts";
import { MovePlan } from "../move-spec.ts";
import { AssetKey } from "../spec.ts";
import { clientRequestId } from "./entity-fields.ts";
import {
  MoveDetails,
  MoveDocument,
  MoveSegmentDetails,
  MoveSegmentDocument,
  MoveSegmentStateField,
} from "./move-documents.ts";
import { MoveSegmentMap } from "./move-map-documents.ts";
import {
  accepted,
  commaList,
  expectation,
  LARGE_BODY_BYTES_MAX,
  type Operation,
  pageOf,
  pageQuery,
  readQuery,
  TransitionBody,
} from "./operation.ts";

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

/** What a change of one segment answers; null for all that were set aside. */
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
    summary: "Tries all segments that were set aside once more",
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
    summary: "Tries a segment that was set aside once more",
  },
  recopyMoveSegment: {
    ...segmentTransition,
    path: `${SEGMENT_PATH}/recopy`,
    summary: "Copies a segment again from its beginning",
  },
  excludeMoveSegment: {
    ...segmentTransition,
    path: `${SEGMENT_PATH}/exclude`,
    summary: "Lets a segment that was set aside stay where it is, on record",
    body: z.strictObject({ ...expectation, reason: z.string().min(1).max(1_000) }),
  },
} as const satisfies Record<string, Operation>;
