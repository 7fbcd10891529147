import { PawlError } from "../../kernel/errors.ts";
import type { NewEvent } from "../events.ts";
import type { Rows } from "../rows.ts";
import type { SplitPhase, SplitRow, SplitWanted } from "./rows.ts";
import type { Condition } from "../../kernel/table.ts";
import { parseSchemaChange, requireTable } from "../shard/schema-change.ts";
import type { Context, Decide, Decision } from "../decision.ts";
import { knownSplit, splitPhaseChanged, splitStepSettled, splitWanted } from "./look-up.ts";
import { plannable } from "./plan.ts";
import { areChecksOk, isReadyToCutOver, isTriedAgain, stopStep } from "./advance.ts";

/** A command about one split, by its id; the version, when given, must be current. */
export type SplitCommand = {
  split: string;
  expected_state_version?: number | undefined;
  reason?: string | undefined;
};

/** Where a split stands after a command. */
export type SplitChanged = Pick<
  SplitRow,
  | "split_id"
  | "phase"
  | "state_version"
  | "wanted"
  | "routing_version_cutover"
  | "routing_version_rollback"
>;

/** The phases of a split that has not ended. */
export const ACTIVE_PHASES: readonly SplitPhase[] = [
  "planning",
  "dual_write",
  "backfill",
  "tailing",
  "cutover_pending",
  "reversible",
];

/** The split of a command; refuses another version than the one meant. */
function meantSplit(rows: Rows, command: SplitCommand): SplitRow {
  const split = knownSplit(rows, command.split);
  const { split_id, phase, state_version } = split;
  const expected = command.expected_state_version;
  if (expected !== undefined && expected !== state_version) {
    throw new PawlError(
      "STATE_VERSION_MISMATCH",
      `Split ${split_id} is at state version ${state_version} (${phase}), not ${expected}. ` +
        "Look at it again, then decide.",
      { details: { expected_state_version: expected, state_version, phase } },
    );
  }
  return split;
}

/** The split of a command; refuses another version than the one meant, and what makes no sense now. */
function commandedSplit(
  rows: Rows,
  command: SplitCommand,
  action: string,
  legal: readonly SplitPhase[],
): SplitRow {
  const split = meantSplit(rows, command);
  if (legal.includes(split.phase)) return split;
  throw illegal(split, `${action} is possible only while it is ${legal.join(" or ")}.`, { legal });
}

function illegal(split: SplitRow, sentence: string, details: object = {}): PawlError {
  const { split_id, phase, state_version, wanted } = split;
  return new PawlError("STATE_ILLEGAL", `Split ${split_id} is ${phase}; ${sentence}`, {
    details: { split_id, phase, state_version, wanted, ...details },
  });
}

function changed(split: SplitRow, change: Partial<SplitRow> = {}): SplitChanged {
  const after = { ...split, ...change };
  const { split_id, phase, state_version, wanted } = after;
  const { routing_version_cutover, routing_version_rollback } = after;
  return {
    split_id,
    phase,
    state_version,
    wanted,
    routing_version_cutover,
    routing_version_rollback,
  };
}

function unchanged(split: SplitRow): Decision<SplitChanged> {
  return { events: [], result: changed(split) };
}

/** What was asked for has been come to, unless it is being taken back: a repeat changes nothing. */
function repeated(split: SplitRow, action: string): Decision<SplitChanged> {
  if (split.wanted === "rollback") refuseWhileWanted(split, action);
  return unchanged(split);
}

/** Refuses a wish while another one has not been come to. */
function refuseWhileWanted(split: SplitRow, action: string): void {
  if (split.wanted === null) return;
  throw illegal(split, `${action} has to wait: ${split.wanted} is asked for and under way.`);
}

function refuseFailed(split: SplitRow, action: string): void {
  const { step, step_state, error } = split;
  if (step_state !== "FAILED") return;
  throw illegal(
    split,
    `${action} has to wait: its step ${step} failed (${error?.message ?? "it does not say why"}). ` +
      "Put that right and try it again with `pawl split resume`.",
    { step, error },
  );
}

function moved(
  split: SplitRow,
  phase: SplitPhase,
  { reason }: SplitCommand,
  { principal }: Context,
  more: readonly NewEvent[] = [],
): Decision<SplitChanged> {
  const event = splitPhaseChanged(split, phase, { changedBy: principal, reason });
  const change = { phase, state_version: split.state_version + 1 };
  return { events: [event, ...more], result: changed(split, change) };
}

/** Has something asked for; a step that is waiting and not wanted any more is cancelled at once. */
function wished(
  rows: Rows,
  split: SplitRow,
  wanted: SplitWanted,
  command: SplitCommand & { ddl?: string },
  context: Context,
): Decision<SplitChanged> {
  const { reason, ddl } = command;
  const said = { changedBy: context.principal, reason, ...(ddl === undefined ? {} : { ddl }) };
  const change = { wanted, state_version: split.state_version + 1 };
  return {
    events: [splitWanted(split, wanted, said), ...stopStep(rows, { ...split, ...change }, context)],
    result: changed(split, change),
  };
}

/**
 * Arms capture and fences inside the shards; both schemas must have been found fit. The plan of a split
 * that was rolled back begins again with this.
 */
export function startDualWrite(command: SplitCommand): Decide<SplitChanged> {
  return (rows, context) => {
    const action = "starting its dual write";
    const split = meantSplit(rows, command);
    if (split.phase === "rolled_back") return begunAgain(rows, split, command, context);
    if (split.phase !== "planning") return repeated(split, action);
    refuseFailed(split, action);
    if (split.run_pos === null && areChecksOk(split)) {
      return moved(split, "dual_write", command, context);
    }
    if (split.run_pos !== null || split.step_state === null) {
      throw illegal(split, "both shards are still being looked at. Wait until that has ended.");
    }
    const failed = split.checks?.filter(({ ok }) => !ok) ?? [];
    const faults = failed.map(({ check, note }) => (note === null ? check : `${check}: ${note}`));
    throw illegal(
      split,
      `what the look at both shards found stands in the way: ${faults.join("; ") || "nobody said"}. ` +
        "Put it right and have them looked at again with `pawl split resume`.",
      { checks: failed },
    );
  };
}

/** Runs a plan again; whether both shards are fit for it is looked at before anything is armed. */
function begunAgain(
  rows: Rows,
  split: SplitRow,
  { reason }: SplitCommand,
  context: Context,
): Decision<SplitChanged> {
  const said = { changedBy: context.principal, reason, again: plannable(rows, split, context) };
  const change = {
    phase: "dual_write",
    state_version: split.state_version + 1,
    routing_version_cutover: null,
    routing_version_rollback: null,
  } as const;
  return {
    events: [splitPhaseChanged(split, "dual_write", said)],
    result: changed(split, change),
  };
}

/** Begins to copy, or tries a copy that failed again from where it got to. */
export function runBackfill(command: SplitCommand): Decide<SplitChanged> {
  return (rows, context) => {
    const action = "running its backfill";
    const legal = [...ACTIVE_PHASES.filter((phase) => phase !== "planning"), "completed"] as const;
    const split = commandedSplit(rows, command, action, legal);
    const isFailed = split.phase === "backfill" && split.step_state === "FAILED";
    if (split.phase !== "dual_write" && !isFailed) return repeated(split, action);
    refuseWhileWanted(split, action);
    if (isFailed) return again(split, command);
    refuseFailed(split, action);
    if (split.armed === 1) return moved(split, "backfill", command, context);
    throw illegal(split, "the capture of changes is not armed yet. Wait until that has ended.");
  };
}

/** Hands the tenants over to the target. A repeat answers the version that the first one made. */
export function cutOver(command: SplitCommand): Decide<SplitChanged> {
  return (rows, context) => {
    const action = "its cutover";
    const legal: readonly SplitPhase[] = ["cutover_pending", "reversible", "completed"];
    const split = commandedSplit(rows, command, action, legal);
    const { wanted, phase } = split;
    if (phase !== "cutover_pending" || wanted === "cutover") return repeated(split, action);
    refuseWhileWanted(split, action);
    refuseFailed(split, action);
    if (isReadyToCutOver(split)) return wished(rows, split, "cutover", command, context);
    const { tail_status, verification } = split;
    throw illegal(
      split,
      `its copy has to be caught up and verified again first (the tail is ${tail_status}).`,
      { tail_status, verification },
    );
  };
}

/** Ends the way back; what is left on the source is removed after the grace time. */
export function completeSplit(command: SplitCommand): Decide<SplitChanged> {
  return (rows, context) => {
    const action = "completing";
    const split = commandedSplit(rows, command, action, ["reversible", "completed"]);
    if (split.phase === "completed" || split.wanted === "complete") return unchanged(split);
    refuseWhileWanted(split, action);
    return wished(rows, split, "complete", command, context);
  };
}

/**
 * Takes everything back: before the cutover the copy is discarded, after it the tenants are handed
 * back to the source first. It may take the place of what was wanted, as long as that can be undone.
 */
export function rollbackSplit(command: SplitCommand): Decide<SplitChanged> {
  return (rows, context) => {
    const action = "rolling back";
    const split = commandedSplit(rows, command, action, [...ACTIVE_PHASES, "rolled_back"]);
    if (split.phase === "rolled_back" || split.wanted === "rollback") return unchanged(split);
    if (split.phase === "planning") {
      // Nothing was touched, so nothing has to be put back.
      const stopped = stopStep(rows, { ...split, phase: "rolled_back" }, context);
      return moved(split, "rolled_back", command, context, stopped);
    }
    if (split.committing === 1) {
      throw illegal(split, "its cutover is recorded and being carried out. Roll back after that.");
    }
    if (split.phase === "reversible" && split.armed === 0) {
      throw illegal(split, "the way back is being taken down, as it is to be completed.");
    }
    // What the source has of the writes since the cutover is not to be trusted then.
    if (split.phase === "reversible") refuseFailed(split, action);
    return wished(rows, split, "rollback", command, context);
  };
}

/** Runs a statement on both shards, at the same place in the stream of changes. */
export function changeSchema(command: SplitCommand & { ddl: string }): Decide<SplitChanged> {
  return (rows, context) => {
    const action = "changing the schema";
    const legal = ACTIVE_PHASES.filter((phase) => phase !== "planning");
    const split = commandedSplit(rows, command, action, legal);
    requireTable(parseSchemaChange(command.ddl), split.tables, null);
    if (split.wanted === "ddl" && split.ddl === command.ddl) return unchanged(split);
    refuseWhileWanted(split, action);
    refuseOthersOnItsShards(rows, split);
    if (split.armed === 1) return wished(rows, split, "ddl", command, context);
    throw illegal(
      split,
      "the capture of changes is not armed yet, so nothing would carry the statement over. Run it " +
        "on both shards, or wait until that has ended.",
    );
  };
}

/** Most active splits that are looked at. */
const SPLITS_READ_MAX = 100_000;

/**
 * Refuses a change of tables that another split has a stream from or to: each takes the statement
 * over at a time of its own, and rows of before and after would meet.
 */
function refuseOthersOnItsShards(rows: Rows, { split_id, source, target }: SplitRow): void {
  const where: Condition[] = [{ cell: "phase", is: "in", values: ACTIVE_PHASES }];
  const other = rows.splits
    .find(where, [{ cell: "split_id" }], SPLITS_READ_MAX)
    .filter((each) => each.split_id !== split_id && each.phase !== "planning")
    .find((each) => [each.source, each.target].some((shard) => [source, target].includes(shard)));
  if (other === undefined) return;
  throw new PawlError(
    "SPLIT_OVERLAPS",
    `The split ${other.split_id} from ${other.source} to ${other.target} is under way with the same ` +
      "tables. Complete it or roll it back before the schema is changed.",
    { details: { split_id: other.split_id } },
  );
}

/** Tries a step that failed for good once more, or looks at the shards again. */
export function resumeSplit(command: SplitCommand): Decide<SplitChanged> {
  return (rows, context) => {
    const legal: readonly SplitPhase[] = [...ACTIVE_PHASES, "completed"];
    const split = commandedSplit(rows, command, "resuming", legal);
    const { step, step_state, checks } = split;
    const isUnfit = step === "check" && !areChecksOk(split);
    if (step_state === "FAILED" || (isUnfit && step_state === "SUCCEEDED")) {
      return again(split, command);
    }
    if ((isUnfit && checks !== null) || isTriedAgain(rows, split, context.now)) {
      return unchanged(split);
    }
    const state = step_state === null ? "done" : step_state.toLowerCase();
    const last = step === null ? "it has done nothing yet" : `its last step, ${step}, is ${state}`;
    throw illegal(
      split,
      `there is nothing to resume: ${last}. \`pawl split status\` says what can be done now.`,
      { step, step_state },
    );
  };
}

function again(split: SplitRow, { reason }: SplitCommand): Decision<SplitChanged> {
  const said = reason ?? split.error?.message ?? null;
  return {
    events: splitStepSettled(split, { outcome: "failed", reason: said }),
    result: changed(split),
  };
}
