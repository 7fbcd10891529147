import { taskOf } from "../run/task-blocks.ts";
import type { NewEvent } from "../events.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import type { Rows } from "../rows.ts";
import type { SplitRow } from "./rows.ts";
import type { SplitReport, StepAnswer, StepWord } from "../shard/step-protocol.ts";
import type { Context, Decide, Decision } from "../decision.ts";
import { currentRouting, routesOf } from "../routing/commands.ts";
import { isHeldBy, stepOfRun } from "../run/tasks.ts";
import { isSuperseded } from "./advance.ts";
import { isReadyToCutOver } from "./rules.ts";

type Direction = "forward" | "back";

const LOST: Decision<StepAnswer> = {
  events: [],
  result: { status: "lost", stop: true, routing_version: null },
};

/**
 * Hears how far a step is, answers whether it should come to an end, and records what it asks for:
 * that a split is caught up, or the commit record of its cutover. What is not to be recorded now is
 * not, and the answer has no version of the routing then.
 */
export function reportStep(word: StepWord): Decide<StepAnswer> {
  return (rows, context) => {
    const task = taskOf(rows, word.run_pos, word.task_key);
    if (!isHeldBy(task, word.attempt, context.holder)) return LOST;
    const run = rows.runs.get(word.run_pos);
    const ref = run === null ? null : stepOfRun(run);
    if (run === null || ref === null) return LOST;
    // A run that is cancelled is not told to stop here: its worker breaks it off.
    const answer = { status: "current", stop: false, routing_version: null } as const;
    if (ref.work === "move") return { events: [], result: answer };
    const split = rows.splits.get(ref.split_id);
    if (split === null || split.run_pos !== run.run_pos) return LOST;
    const stop = isSuperseded(split, context.now);
    const { record } = word;
    if (record === "commit") {
      const isUnwanted = stop || run.cancel_requested_at !== null;
      return commit(rows, split, reportOf(word), isUnwanted, context);
    }
    const events = record === null || stop ? [] : caughtUp(split, reportOf(word));
    return { events, result: { ...answer, stop, routing_version: versionOf(split) } };
  };
}

function reportOf({ report: { work, ...report } }: StepWord): SplitReport | null {
  return work === "split" ? report : null;
}

/** The way of the cutover that a split's step is; null for other steps. */
function directionOf({ step }: SplitRow): Direction | null {
  if (step === "cutover") return "forward";
  return step === "cutback" ? "back" : null;
}

/** The version of the routing that the step's commit record made; null when there is none. */
function versionOf(split: SplitRow): number | null {
  const direction = directionOf(split);
  if (direction === null) return null;
  return direction === "forward" ? split.routing_version_cutover : split.routing_version_rollback;
}

/** The event of a tail that has caught up and is verified; nothing where that is known. */
function caughtUp(split: SplitRow, report: SplitReport | null): NewEvent[] {
  const { split_id, steps: n, step, phase } = split;
  const isNew =
    phase === "tailing" || (phase === "cutover_pending" && split.tail_status !== "caught_up");
  const { finished, ok } = report?.verification ?? { finished: false, ok: false };
  if (report === null || step !== "tail" || !isNew || !finished || !ok) return [];
  return [
    {
      type: "SplitCaughtUp",
      idempotency_key: IDEMPOTENCY_KEYS.splitCaughtUp(split_id, n),
      data: { split_id, n, state_version: split.state_version + 1, report },
    },
  ];
}

/** The commit record, once for each direction; a repeat is answered with its version. */
function commit(
  rows: Rows,
  split: SplitRow,
  report: SplitReport | null,
  isUnwanted: boolean,
  context: Context,
): Decision<StepAnswer> {
  const known = versionOf(split);
  if (known !== null) {
    return { events: [], result: { status: "current", stop: false, routing_version: known } };
  }
  const direction = directionOf(split);
  const isSound = report !== null && report.verification?.ok !== false;
  if (isUnwanted || !isSound || direction === null || !mayCommit(rows, split, direction)) {
    return { events: [], result: { status: "current", stop: true, routing_version: null } };
  }
  const version = (currentRouting(rows)?.version ?? 0) + 1;
  return {
    events: commitEvents(split, direction, version, context),
    result: { status: "current", stop: false, routing_version: version },
  };
}

/** Whether everything that the ledger knows allows the tenants to change hands now. */
function mayCommit(rows: Rows, split: SplitRow, direction: Direction): boolean {
  const { phase, wanted, tenants, source, target } = split;
  const isAllowed =
    direction === "forward"
      ? wanted === "cutover" && isReadyToCutOver(split)
      : wanted === "rollback" && phase === "reversible";
  if (!isAllowed) return false;
  const owner = direction === "forward" ? source : target;
  return routesOf(rows, tenants).every((route) => route?.shard === owner);
}

function commitEvents(
  split: SplitRow,
  direction: Direction,
  version: number,
  { principal }: Context,
): NewEvent[] {
  const { split_id, steps: n, tenants } = split;
  const shard = direction === "forward" ? split.target : split.source;
  return [
    {
      type: "RoutingChanged",
      idempotency_key: IDEMPOTENCY_KEYS.routing(version),
      data: {
        version,
        routes: tenants.map((tenant) => ({ tenant, shard })),
        cause: { type: "split", split_id, direction },
        reason: null,
        changed_by: principal,
      },
    },
    {
      type: "SplitCutOver",
      idempotency_key: IDEMPOTENCY_KEYS.splitCutOver(
        split_id,
        direction,
        split.routing_version_at_start,
      ),
      data: {
        split_id,
        n,
        direction,
        routing_version: version,
        state_version: split.state_version + 1,
      },
    },
  ];
}
