import {
  changeSchema,
  completeSplit,
  cutOver,
  resumeSplit,
  rollbackSplit,
  runBackfill,
  type SplitChanged,
  startDualWrite,
} from "../../controllers/change-split.ts";
import type { Decide } from "../../controllers/decision.ts";
import { planSplit } from "../../controllers/plan-split.ts";
import { PawlError } from "../../core/errors.ts";
import { SPLITS } from "../../core/rows/split-rows.ts";
import type { Condition } from "../../core/rows/table.ts";
import { type Call, type Handler, readAt, type Reply, submitted } from "../call.ts";
import { claimedLately } from "../claimed-lately.ts";
import { cursorOf, keyOfCursor } from "../cursor.ts";
import { expectedVersion } from "../expected-version.ts";
import { knownSplitRow } from "../find-shard-rows.ts";
import { listRows } from "../list-rows.ts";
import { cutoverChecks } from "../split-cutover-checks.ts";
import { liveSplits, splitDocuments } from "../split-document.ts";
import { splitSteps } from "../split-steps.ts";

function getSplit(call: Call<"getSplit">): Promise<Reply> {
  return readAt(call, async (reader) => {
    const row = await knownSplitRow(reader, call.params.split);
    const now = call.server.now();
    const claimed = claimedLately(call.engine, now);
    const [answer] = await splitDocuments(reader, [row], claimed, now);
    return { answer, pos: (await reader.head()).pos };
  });
}

function listSplits(call: Call<"listSplits">): Promise<Reply> {
  const { phase, source, target } = call.query;
  const where: Condition[] = [];
  if (phase !== undefined) where.push({ cell: "phase", is: "in", values: phase });
  if (source !== undefined) where.push({ cell: "source", is: "=", value: source });
  if (target !== undefined) where.push({ cell: "target", is: "=", value: target });
  const now = call.server.now();
  const claimed = claimedLately(call.engine, now);
  return listRows(
    call,
    { table: SPLITS, where, along: ["created_pos"], descending: true },
    (rows, reader) => splitDocuments(reader, rows, claimed, now),
  );
}

/** The steps are numbered without a hole, so a page is a range of numbers. */
function listSplitSteps(call: Call<"listSplitSteps">): Promise<Reply> {
  const { limit, cursor } = call.query;
  return readAt(call, async (reader) => {
    const row = await knownSplitRow(reader, call.params.split);
    const before = cursor === undefined ? row.steps + 1 : Number(keyOfCursor(cursor, ["int"])[0]);
    const through = Math.min(row.steps, before - 1);
    const from = Math.max(1, through - limit + 1);
    const items = await splitSteps(reader, row, from, through);
    const { pos } = await reader.head();
    return { answer: { items, next_cursor: from > 1 ? cursorOf([from]) : null, pos }, pos };
  });
}

type Changing = Pick<Call<"startDualWrite">, "params" | "body" | "header">;

function commandOf(call: Changing) {
  return { split: call.params.split, reason: call.body.reason, ...expectedVersion(call) };
}

function answerOf(changed: SplitChanged, text: string) {
  return { message: `Split ${changed.split_id} ${text}.`, ...changed };
}

/** Where a split stands after a command, in words. */
function nowIs(changed: SplitChanged) {
  const wanted = changed.wanted === null ? "" : `; ${changed.wanted} is wanted`;
  return answerOf(changed, `is in the phase ${changed.phase}${wanted}`);
}

const NO_DRY_RUN = { dry_run: false, ready: null, checks: null };

async function cutover(call: Call<"cutOverSplit">): Promise<Reply> {
  const decide = cutOver(commandOf(call));
  if (call.body.dry_run) return dryRun(call, decide);
  return submitted(call, decide, (changed) => ({ ...nowIs(changed), ...NO_DRY_RUN }));
}

/** What stands in the way of a cutover, as far as rows tell; nothing is recorded. */
async function dryRun(call: Call<"cutOverSplit">, decide: Decide<SplitChanged>): Promise<Reply> {
  const { engine, server, params } = call;
  const illegal = await refusalOf(() => engine.evaluate(decide));
  return engine.read(async (reader) => {
    const row = await knownSplitRow(reader, params.split);
    const now = server.now();
    const [live] = await liveSplits(reader, [row]);
    const isOver = row.routing_version_cutover !== null;
    const found = live === undefined || isOver ? [] : await cutoverChecks(reader, live, now);
    const phase = {
      check: "phase",
      ok: illegal === null,
      note:
        illegal?.message ?? (isOver ? "It has cut over already." : "A cutover is possible now."),
    };
    const checks = [phase, ...found];
    const ready = checks.every(({ ok }) => ok);
    const { pos } = await reader.head();
    const answer = {
      message: `Split ${row.split_id} is ${ready ? "" : "not "}ready to cut over.`,
      accepted_event_id: null,
      accepted_pos: pos,
      accepted_at: now,
      correlation_id: call.correlationId,
      split_id: row.split_id,
      phase: row.phase,
      state_version: row.state_version,
      wanted: row.wanted,
      routing_version_cutover: row.routing_version_cutover,
      routing_version_rollback: row.routing_version_rollback,
      dry_run: true,
      ready,
      checks,
    };
    return { answer, pos };
  });
}

/** Why a decision is not possible in the present state; null when it is. */
async function refusalOf(evaluate: () => Promise<unknown>): Promise<PawlError | null> {
  try {
    await evaluate();
    return null;
  } catch (error) {
    if (error instanceof PawlError && error.code === "STATE_ILLEGAL") return error;
    throw error;
  }
}

/** What can be done with splits. */
export const SPLIT_HANDLERS: {
  listSplits: Handler<"listSplits">;
  planSplit: Handler<"planSplit">;
  getSplit: Handler<"getSplit">;
  listSplitSteps: Handler<"listSplitSteps">;
  startDualWrite: Handler<"startDualWrite">;
  runSplitBackfill: Handler<"runSplitBackfill">;
  cutOverSplit: Handler<"cutOverSplit">;
  completeSplit: Handler<"completeSplit">;
  rollBackSplit: Handler<"rollBackSplit">;
  resumeSplit: Handler<"resumeSplit">;
  changeSplitSchema: Handler<"changeSplitSchema">;
} = {
  listSplits,
  planSplit: (call) => {
    const { client_request_id: _, ...input } = call.body;
    return submitted(call, planSplit(input), (changed) => answerOf(changed, "was planned"));
  },
  getSplit,
  listSplitSteps,
  startDualWrite: (call) => submitted(call, startDualWrite(commandOf(call)), nowIs),
  runSplitBackfill: (call) => submitted(call, runBackfill(commandOf(call)), nowIs),
  cutOverSplit: cutover,
  completeSplit: (call) => submitted(call, completeSplit(commandOf(call)), nowIs),
  rollBackSplit: (call) => submitted(call, rollbackSplit(commandOf(call)), nowIs),
  resumeSplit: (call) => submitted(call, resumeSplit(commandOf(call)), nowIs),
  changeSplitSchema: (call) =>
    submitted(call, changeSchema({ ...commandOf(call), ddl: call.body.ddl }), nowIs),
};
