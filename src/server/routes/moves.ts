import {
  cancelMove,
  excludeSegment,
  type MoveChanged,
  type MoveCommand,
  pauseMove,
  planMove,
  recopySegment,
  resumeMove,
  retrySegments,
  retuneMove,
  startMove,
  verifyMove,
} from "../../work/move/commands.ts";
import { PawlError } from "../../kernel/errors.ts";
import { MOVE_SEGMENTS, MOVES } from "../../work/move/rows.ts";
import type { Condition } from "../../kernel/table.ts";
import {
  type Call,
  commandRoutes,
  type Handlers,
  readAt,
  type Reply,
  submitted,
} from "../http/call.ts";
import { claimedLately, knownMoveRow, knownMoveSegmentRow } from "../look-ups.ts";
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
function ofSegment(text: (index: number) => string) {
  return (changed: MoveChanged, { params }: { params: { segment_index: number } }) => ({
    ...answerOf(changed, text(params.segment_index)),
    segment_index: params.segment_index,
  });
}

const command = commandRoutes(({ move }: { move: string }) => ({ move }));

/** What can be done with moves. */
export const MOVE_HANDLERS = {
  listMoves,
  planMove: planOrLook,
  getMove,
  startMove: command(startMove, nowIs),
  pauseMove: command(pauseMove, nowIs),
  resumeMove: command(resumeMove, nowIs),
  cancelMove: command(cancelMove, nowIs),
  verifyMove: command(verifyMove, (changed) => answerOf(changed, "is compared once more")),
  retuneMove: command(retuneMove, (changed) => answerOf(changed, "was retuned")),
  retryMove: command(
    (said: MoveCommand) => retrySegments({ ...said, segment_index: null }),
    (changed) => ({
      ...answerOf(changed, "retries all quarantined segments"),
      segment_index: null,
    }),
  ),
  listMoveSegments,
  getMoveSegment,
  retryMoveSegment: command(
    retrySegments,
    ofSegment((index) => `tries segment ${index} again`),
  ),
  recopyMoveSegment: command(
    recopySegment,
    ofSegment((index) => `copies segment ${index} again`),
  ),
  excludeMoveSegment: command(
    excludeSegment,
    ofSegment((index) => `does without segment ${index}`),
  ),
} satisfies Handlers;
