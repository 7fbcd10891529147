import {
  cancelMove,
  type MoveChanged,
  pauseMove,
  resumeMove,
  retuneMove,
  startMove,
  verifyMove,
  excludeSegment,
  recopySegment,
  retrySegments,
} from "../../work/move/commands.ts";
import { planMove } from "../../work/move/plan.ts";
import { PawlError } from "../../kernel/errors.ts";
import { MOVE_SEGMENTS, MOVES } from "../../work/move/rows.ts";
import type { Condition } from "../../kernel/table.ts";
import { type Call, type Handler, readAt, type Reply, submitted } from "../http/call.ts";
import { claimedLately, knownMoveRow, knownMoveSegmentRow } from "../look-ups.ts";
import { expectedVersion } from "../http/await-event.ts";
import { listRows } from "../http/read-within.ts";
import {
  moveDetails,
  moveDocuments,
  moveSegmentDocuments,
  runsOfSegment,
} from "./move-documents.ts";

function getMove(call: Call<"getMove">): Promise<Reply> {
  return readAt(call, async (reader) => {
    const row = await knownMoveRow(reader, call.params.move);
    const claimed = claimedLately(call.engine, call.server.now());
    const answer = await moveDetails(reader, row, claimed);
    return { answer, pos: (await reader.head()).pos };
  });
}

function listMoves(call: Call<"listMoves">): Promise<Reply> {
  const { status, name } = call.query;
  const where: Condition[] = [];
  if (status !== undefined) where.push({ cell: "state", is: "in", values: status });
  if (name !== undefined) where.push({ cell: "name", is: "=", value: name });
  const claimed = claimedLately(call.engine, call.server.now());
  return listRows(
    call,
    { table: MOVES, where, along: ["created_pos"], descending: true },
    (rows, reader) => moveDocuments(reader, rows, claimed),
  );
}

async function listMoveSegments(call: Call<"listMoveSegments">): Promise<Reply> {
  const { state, active } = call.query;
  const move = await readAt(call, (reader) => knownMoveRow(reader, call.params.move));
  const where: Condition[] = [{ cell: "move_id", is: "=", value: move.move_id }];
  if (state !== undefined) where.push({ cell: "state", is: "in", values: state });
  if (active !== undefined) where.push({ cell: "run_pos", is: "not null" });
  const list = { table: MOVE_SEGMENTS, where, along: ["segment_index"] as const };
  return listRows(call, list, (rows, reader) => moveSegmentDocuments(reader, move, rows));
}

function getMoveSegment(call: Call<"getMoveSegment">): Promise<Reply> {
  return readAt(call, async (reader) => {
    const move = await knownMoveRow(reader, call.params.move);
    const row = await knownMoveSegmentRow(reader, move, call.params.segment_index);
    const [document] = await moveSegmentDocuments(reader, move, [row]);
    const answer = { ...document, runs: await runsOfSegment(reader, row) };
    return { answer, pos: (await reader.head()).pos };
  });
}

type Changing = Pick<Call<"startMove">, "engine" | "params"> &
  Parameters<typeof expectedVersion>[0] & { body: { reason?: string | undefined } };

/** The command of a change, by the move's id; the version it is for may also stand in `If-Match`. */
async function commandOf(call: Changing) {
  const { move_id } = await call.engine.read((reader) => knownMoveRow(reader, call.params.move));
  return { move: move_id, reason: call.body.reason, ...expectedVersion(call) };
}

function answerOf(changed: MoveChanged, text: string) {
  const { move_id, state, state_version } = changed;
  return { message: `Move ${move_id} ${text}.`, move_id, state, state_version };
}

function nowIs(changed: MoveChanged) {
  return answerOf(changed, `is ${changed.state}`);
}

async function planOrLook(call: Call<"planMove">): Promise<Reply> {
  const { move, plan, dry_run } = call.body;
  const text = dry_run ? "is a dry run; nothing is copied" : "was planned";
  return submitted(call, planMove(wishOf(move, plan), dry_run), (changed) =>
    answerOf(changed, text),
  );
}

function wishOf(
  move: string | undefined,
  plan: Call<"planMove">["body"]["plan"],
): Parameters<typeof planMove>[0] {
  if (move !== undefined) return { move };
  if (plan !== undefined) return { plan };
  throw new PawlError("INPUT_INVALID", "A move needs the name of a definition or a plan.");
}

/** What is done to a segment, in words. */
const SEGMENT_TEXT = {
  retry: "tries segment {} again",
  recopy: "copies segment {} again",
  exclude: "does without segment {}",
} as const;

function ofSegment(segment_index: number, text: keyof typeof SEGMENT_TEXT) {
  return (changed: MoveChanged) => ({
    ...answerOf(changed, SEGMENT_TEXT[text].replace("{}", String(segment_index))),
    segment_index,
  });
}

/** What can be done with moves. */
export const MOVE_HANDLERS: {
  listMoves: Handler<"listMoves">;
  planMove: Handler<"planMove">;
  getMove: Handler<"getMove">;
  startMove: Handler<"startMove">;
  pauseMove: Handler<"pauseMove">;
  resumeMove: Handler<"resumeMove">;
  cancelMove: Handler<"cancelMove">;
  verifyMove: Handler<"verifyMove">;
  retuneMove: Handler<"retuneMove">;
  retryMove: Handler<"retryMove">;
  listMoveSegments: Handler<"listMoveSegments">;
  getMoveSegment: Handler<"getMoveSegment">;
  retryMoveSegment: Handler<"retryMoveSegment">;
  recopyMoveSegment: Handler<"recopyMoveSegment">;
  excludeMoveSegment: Handler<"excludeMoveSegment">;
} = {
  listMoves,
  planMove: planOrLook,
  getMove,
  startMove: async (call) => submitted(call, startMove(await commandOf(call)), nowIs),
  pauseMove: async (call) => submitted(call, pauseMove(await commandOf(call)), nowIs),
  resumeMove: async (call) => submitted(call, resumeMove(await commandOf(call)), nowIs),
  cancelMove: async (call) => submitted(call, cancelMove(await commandOf(call)), nowIs),
  verifyMove: async (call) =>
    submitted(call, verifyMove(await commandOf(call)), (changed) =>
      answerOf(changed, "is compared once more"),
    ),
  retuneMove: async (call) => {
    const { segment_concurrency, rows_per_second } = call.body;
    const { reason: _, ...command } = await commandOf({ ...call, body: { ...call.body } });
    return submitted(call, retuneMove({ ...command, segment_concurrency, rows_per_second }), (to) =>
      answerOf(to, "was retuned"),
    );
  },
  retryMove: async (call) =>
    submitted(call, retrySegments({ ...(await commandOf(call)), segment_index: null }), (to) => ({
      ...answerOf(to, "retries all quarantined segments"),
      segment_index: null,
    })),
  listMoveSegments,
  getMoveSegment,
  retryMoveSegment: async (call) => {
    const { segment_index } = call.params;
    const command = { ...(await commandOf(call)), segment_index };
    return submitted(call, retrySegments(command), ofSegment(segment_index, "retry"));
  },
  recopyMoveSegment: async (call) => {
    const { segment_index } = call.params;
    const command = { ...(await commandOf(call)), segment_index };
    return submitted(call, recopySegment(command), ofSegment(segment_index, "recopy"));
  },
  excludeMoveSegment: async (call) => {
    const { segment_index } = call.params;
    const command = { ...(await commandOf(call)), segment_index, reason: call.body.reason };
    return submitted(call, excludeSegment(command), ofSegment(segment_index, "exclude"));
  },
};
