import { offeredCommands } from "../../work/command.ts";
import { SPLIT_RULES } from "../../work/split/rules.ts";
import type { NextField } from "../../work/shard/spec.ts";
import { type SplitDocument, SPLIT_FIELDS } from "../../work/split/api.ts";
import { type SplitRow, type SplitWish, SPLITS } from "../../work/split/rows.ts";
import { type SplitStep, StepReport } from "../../work/shard/step-protocol.ts";
import { reported } from "../../work/split/fold.ts";
import type { Instant } from "../../kernel/instant.ts";
import type { TaskRow } from "../../work/run/rows.ts";
import { loadTasks } from "../../work/run/task-blocks.ts";
import type { Condition } from "../../kernel/table.ts";
import type { Reader } from "../../store/store.ts";
import { cursorOf, keyOfCursor, listRows, pickFields } from "../http/read-within.ts";
import {
  changeSchema,
  completeSplit,
  planSplit,
  requestCutover,
  resumeSplit,
  rollbackSplit,
  runBackfill,
  type SplitChanged,
  startDualWrite,
} from "../../work/split/commands.ts";
import { PawlError } from "../../kernel/errors.ts";
import {
  type Call,
  commandRoutes,
  expectedVersion,
  type Handlers,
  readAt,
  type Reply,
  submitted,
} from "../http/call.ts";
import { claimedLately, knownSplitRow } from "../look-ups.ts";
import { cutoverCheckDocuments, splitSteps } from "../split-checks.ts";

type Step = SplitDocument["step"];

/** What a split does now, in words, and which commands make sense. */
export function nextOfSplit(split: SplitRow, step: Step): NextField {
  const commands = offeredCommands(SPLIT_RULES, split.phase, split);
  return { text: sentences(split, step), commands };
}

function sentences(split: SplitRow, step: Step): string {
  const parts = [
    doing(split, step),
    split.wanted === null ? "" : wantedText(split),
    step?.lacks_worker === true
      ? `Waiting for a worker with ${split.source} and ${split.target}.`
      : "",
    (step?.retry_at ?? null) === null
      ? ""
      : "The last attempt failed; it will be retried automatically.",
  ];
  return parts.filter((part) => part !== "").join(" ");
}

function isFailed(step: Step): boolean {
  return step?.state === "FAILED";
}

function failedText({ error }: SplitRow, step: Step): string {
  const why = error === null ? "" : `: ${error.message.replace(/\.$/, "")}`;
  return `Step ${step?.step ?? ""} failed${why}. The split waits for a retry.`;
}

function doing(split: SplitRow, step: Step): string {
  const { source, target, lag_limit_ms, armed, remove_after, removed_at } = split;
  if (isFailed(step)) return failedText(split, step);
  const busyWith = isBusy(split) ? step?.step : null;
  if (busyWith === "discard") return `Discarding the copy on ${target}.`;
  if (busyWith === "finish") return `${target} serves the tenants; removing the way to roll back.`;
  if (busyWith === "cutover") return `Cutting over to ${target}.`;
  if (busyWith === "ddl") return "Changing the schema on both shards.";
  switch (split.phase) {
    case "planning":
      return planningText(split);
    case "dual_write":
      return armed === 1
        ? `Capturing changes in ${source}; nothing is copied yet.`
        : `Setting up change capture in ${source}.`;
    case "backfill":
      return `Copying rows from ${source} to ${target}.`;
    case "tailing":
      return (
        `Replaying changes from ${source} to ${target} until the lag is below ${lag_limit_ms} ms ` +
        "and everything is verified."
      );
    case "cutover_pending":
      return `${target} is caught up and verified; ${source} still serves the tenants.`;
    case "reversible":
      return step?.step === "cutback"
        ? `Rolling back to ${source}.`
        : `${target} serves the tenants; ${source} is kept in sync, so you can roll back.`;
    case "completed":
      if (removed_at !== null) return `Complete; the rows on ${source} are removed.`;
      return remove_after === null
        ? `Complete; ${target} serves the tenants.`
        : `Complete; the rows on ${source} will be removed after ${remove_after}.`;
    case "rolled_back":
      return `Rolled back; ${source} serves the tenants. Start the plan again, or plan a new split.`;
  }
}

function planningText({ checks, source, target }: SplitRow): string {
  if (checks === null || checks === undefined)
    return `Comparing the tables of ${source} and ${target}.`;
  const wrong = checks.filter(({ ok }) => !ok);
  if (wrong.length === 0)
    return `The schemas of ${source} and ${target} match; nothing is changed yet.`;
  const notes = wrong
    .map(({ check, note }) => note ?? check)
    .map((note) => note.replace(/\.$/, ""));
  return `The schemas of ${source} and ${target} do not match: ${notes.join("; ")}.`;
}

const WANTED_TEXT = {
  cutover: "Cutover requested",
  complete: "Completion requested",
  rollback: "Rollback requested",
  ddl: "Schema change requested",
} as const;

/** The steps that come to what is wanted. */
const STEPS_OF_WANTED: Readonly<Record<SplitWish, readonly SplitStep[]>> = {
  cutover: ["cutover"],
  complete: ["finish"],
  rollback: ["cutback", "discard"],
  ddl: ["ddl"],
};

function isBusy({ step_state }: SplitRow): boolean {
  return step_state === "RUNNING" || step_state === "QUEUED";
}

function wantedText(split: SplitRow): string {
  const { wanted, step } = split;
  if (wanted === null) return "";
  if (!isBusy(split)) return `${WANTED_TEXT[wanted]}.`;
  const isOnIt = step !== null && STEPS_OF_WANTED[wanted].includes(step);
  return `${WANTED_TEXT[wanted]}${isOnIt ? "" : "; the current step ends first"}.`;
}

/** A split with what its running step last said laid over it, and the task that the step is. */
export type LiveSplit = { row: SplitRow; task: TaskRow | null; reportedAt: Instant | null };

/** Splits as they are now: how far a running step is only its checkpoint knows. */
export async function liveSplits(reader: Reader, rows: readonly SplitRow[]): Promise<LiveSplit[]> {
  const active = rows.flatMap(({ run_pos }) => (run_pos === null ? [] : [run_pos]));
  if (active.length === 0) return rows.map((row) => ({ row, task: null, reportedAt: null }));
  const tasks = await loadTasks(
    reader,
    active.map((run_pos) => ({ run_pos, task_key: 0 })),
  );
  const taskOf = new Map(tasks.map((task) => [task.run_pos, task]));
  const kept = await reader.checkpoints(active.map((run_pos) => ({ run_pos, task_key: 0 })));
  const checkpointOf = new Map(kept.map((checkpoint) => [checkpoint.run_pos, checkpoint]));
  return rows.map((row) => {
    const task = taskOf.get(row.run_pos ?? -1) ?? null;
    const checkpoint = checkpointOf.get(row.run_pos ?? -1);
    const report = StepReport.safeParse(checkpoint?.value).data;
    if (checkpoint === undefined || report?.work !== "split")
      return { row, task, reportedAt: null };
    const { work: _, ...said } = report;
    const checks = row.step === "check" ? (said.checks ?? row.checks) : row.checks;
    const live = { ...row, ...reported(row, said), checks };
    return { row: live, task, reportedAt: checkpoint.saved_at };
  });
}

/** Splits as the API shows them. */
export async function splitDocuments(
  reader: Reader,
  rows: readonly SplitRow[],
  claimed: ReadonlySet<string>,
  now: Instant,
): Promise<SplitDocument[]> {
  return (await liveSplits(reader, rows)).map((live) => documentOf(live, claimed, now));
}

function documentOf(live: LiveSplit, claimed: ReadonlySet<string>, now: Instant): SplitDocument {
  const { row } = live;
  const { armed, auto_cutover, write_pause_us, error, split_id } = row;
  const step = stepOf(live, claimed, now);
  return {
    id: split_id,
    ...pickFields(row, SPLIT_FIELDS),
    auto_cutover: auto_cutover === 1,
    armed: armed === 1,
    backfill: {
      status: row.backfill_status,
      started_at: row.backfill_started_at,
      completed_at: row.backfill_completed_at,
      total_rows_copied: row.total_rows_copied,
      tables: tablesOf(row),
      tenants: row.tenant_rows,
    },
    tail: {
      status: row.tail_status,
      last_event_id: row.last_event_id,
      last_event_ts: row.last_event_ts,
      lag_events: row.tail_lag_events,
      lag_ms: row.tail_lag_ms,
    },
    verification: row.verification,
    checks: row.checks ?? null,
    error_message: error?.message ?? null,
    write_pause_ms: write_pause_us === null ? null : write_pause_us / 1_000,
    step,
    next: nextOfSplit(row, step),
  };
}

/** All tables of the split, also those that nobody has begun with. */
function tablesOf({ tables, table_progress }: SplitRow): SplitDocument["backfill"]["tables"] {
  const known = new Map(table_progress.map((progress) => [progress.table, progress]));
  return tables.map(
    ({ table }) => known.get(table) ?? { table, rows: 0, cursor: null, done: false },
  );
}

function stepOf(
  { row, task, reportedAt }: LiveSplit,
  claimed: ReadonlySet<string>,
  now: Instant,
): SplitDocument["step"] {
  if (row.step === null) return null;
  const isWaiting = task?.state === "READY" || task?.state === "RETRY_WAIT";
  const isLater = task?.state === "RETRY_WAIT" && (task.retry_at ?? now) > now;
  return {
    n: row.steps,
    step: row.step,
    // An attempt that was given back or failed has left the row as it was.
    state: isWaiting ? "QUEUED" : row.step_state,
    run_id: row.run_id,
    worker_id: isWaiting ? null : row.worker_id,
    attempt: task?.attempt ?? 0,
    retry_at: isLater ? task.retry_at : null,
    reported_at: reportedAt,
    lacks_worker: isWaiting && !isLater && !claimed.has(task.asset_key),
  };
}

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

function answerOf(changed: SplitChanged, text: string) {
  return { message: `Split ${changed.split_id} ${text}.`, ...changed };
}

/** Where a split stands after a command, in words. */
function nowIs(changed: SplitChanged) {
  const wanted = changed.wanted === null ? "" : `; ${changed.wanted} is wanted`;
  return answerOf(changed, `is in the phase ${changed.phase}${wanted}`);
}

const NO_DRY_RUN = { dry_run: false, ready: null, checks: null };

const command = commandRoutes(({ split }: { split: string }) => ({ split }));

const cutOverNow = command(requestCutover, (changed) => ({ ...nowIs(changed), ...NO_DRY_RUN }));

/** What stands in the way of a cutover, as far as rows tell; nothing is recorded. */
async function dryRun(call: Call<"cutOverSplit">): Promise<Reply> {
  const { engine, server, params } = call;
  const decide = requestCutover({ ...params, ...expectedVersion(call) });
  const illegal = await refusalOf(() => engine.evaluate(decide));
  return engine.read(async (reader) => {
    const row = await knownSplitRow(reader, params.split);
    const now = server.now();
    const [live] = await liveSplits(reader, [row]);
    const isOver = row.routing_version_cutover !== null;
    const found =
      live === undefined || isOver ? [] : await cutoverCheckDocuments(reader, live, now);
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
export const SPLIT_HANDLERS = {
  listSplits,
  planSplit: (call) => {
    const { client_request_id: _, ...input } = call.body;
    return submitted(call, planSplit(input), (changed) => answerOf(changed, "was planned"));
  },
  getSplit,
  listSplitSteps,
  startDualWrite: command(startDualWrite, nowIs),
  runSplitBackfill: command(runBackfill, nowIs),
  cutOverSplit: (call) => (call.body.dry_run ? dryRun(call) : cutOverNow(call)),
  completeSplit: command(completeSplit, nowIs),
  rollBackSplit: command(rollbackSplit, nowIs),
  resumeSplit: command(resumeSplit, nowIs),
  changeSplitSchema: command(changeSchema, nowIs),
} satisfies Handlers;
