import { PawlError } from "../../kernel/errors.ts";
import type { NewEvent } from "../events.ts";
import { isTerminalBackfill } from "./fold.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import type { BackfillRow, BackfillState } from "./rows.ts";
import type { Rows } from "../rows.ts";
import { cancelActiveRuns } from "../run/cancel.ts";
import type { Decide } from "../decision.ts";
import { activeChunks, stateChanged } from "./advance.ts";

/** A command about one backfill; the version, when given, must be the current one. */
export type BackfillCommand = {
  backfill_id: string;
  expected_state_version?: number | undefined;
  reason?: string | undefined;
};

/** Where the backfill is after a command. */
export type BackfillChanged = { backfill_id: string; state: BackfillState; state_version: number };

/** The backfill, or the refusal that there is none. */
export function knownBackfill(rows: Rows, backfillId: string): BackfillRow {
  const backfill = rows.backfills.get(backfillId);
  if (backfill !== null) return backfill;
  throw new PawlError(
    "BACKFILL_NOT_FOUND",
    `There is no backfill ${JSON.stringify(backfillId)}. \`pawl backfill list\` shows those there are.`,
    { details: { backfill_id: backfillId } },
  );
}

function checked(
  rows: Rows,
  command: BackfillCommand,
  action: string,
  legal: readonly BackfillState[],
): BackfillRow {
  const backfill = knownBackfill(rows, command.backfill_id);
  const expected = command.expected_state_version;
  if (expected !== undefined && expected !== backfill.state_version) {
    throw new PawlError(
      "STATE_VERSION_MISMATCH",
      `Backfill ${backfill.backfill_id} is at state version ${backfill.state_version} ` +
        `(${backfill.state}), not ${expected}. Look at it again, then decide.`,
      {
        details: {
          expected_state_version: expected,
          state_version: backfill.state_version,
          state: backfill.state,
        },
      },
    );
  }
  if (legal.includes(backfill.state)) return backfill;
  throw new PawlError(
    "STATE_ILLEGAL",
    `Backfill ${backfill.backfill_id} is ${backfill.state}; ` +
      `${action} is possible only while it is ${legal.join(" or ")}.`,
    { details: { state: backfill.state, state_version: backfill.state_version, legal } },
  );
}

function changed(backfill: BackfillRow, state: BackfillState, event: NewEvent) {
  const result: BackfillChanged = {
    backfill_id: backfill.backfill_id,
    state,
    state_version: backfill.state_version + 1,
  };
  return { events: [event], result };
}

/** Stops planning; active chunks finish. */
export function pauseBackfill(command: BackfillCommand): Decide<BackfillChanged> {
  return (rows, { principal }) => {
    const backfill = checked(rows, command, "pause", ["RUNNING"]);
    const event = stateChanged(backfill, "PAUSED", saidBy(principal, command));
    return changed(backfill, "PAUSED", event);
  };
}

/**
 * Goes on with the first unplanned chunk; starts a backfill that still waits although the one before
 * it has ended.
 */
export function resumeBackfill(command: BackfillCommand): Decide<BackfillChanged> {
  return (rows, { principal }) => {
    const backfill = checked(rows, command, "resume", ["PAUSED", "PENDING"]);
    if (backfill.state === "PENDING") refuseTooEarly(rows, backfill);
    const event = stateChanged(backfill, "RUNNING", saidBy(principal, command));
    return changed(backfill, "RUNNING", event);
  };
}

function saidBy(principal: string, { reason }: BackfillCommand) {
  return { changedBy: principal, reason: reason ?? null };
}

/** A follower may be told to go on without the success of the one before, but not beside it. */
function refuseTooEarly(rows: Rows, { backfill_id, after_backfill_id }: BackfillRow): void {
  const earlier = after_backfill_id === null ? null : rows.backfills.get(after_backfill_id);
  if (earlier === null || isTerminalBackfill(earlier.state)) return;
  throw new PawlError(
    "STATE_ILLEGAL",
    `Backfill ${backfill_id} starts after backfill ${earlier.backfill_id}, which is ` +
      `${earlier.state}. Wait until that one has ended, or cancel it.`,
    { details: { state: "PENDING", after_backfill_id, after_state: earlier.state } },
  );
}

/** Plans nothing more and ends as cancelled; with `now`, also cancels the active runs. */
export function cancelBackfill(
  command: BackfillCommand & { now?: boolean | undefined },
): Decide<BackfillChanged> {
  return (rows, context) => {
    const legal: BackfillState[] = ["PENDING", "RUNNING", "PAUSED"];
    const now = command.now === true;
    if (now) legal.push("CANCELLING");
    const backfill = checked(rows, command, "cancel", legal);
    const { backfill_id, cancel_runs, state_version } = backfill;
    if (cancel_runs === 1) {
      return { events: [], result: { backfill_id, state: backfill.state, state_version } };
    }
    const state = activeChunks(backfill) === 0 ? "CANCELLED" : "CANCELLING";
    const change = { ...saidBy(context.principal, command), cancelRuns: now };
    // Asked a second time, in a hurry now, it keeps the reason that it was first cancelled for.
    change.reason ??= backfill.state === "CANCELLING" ? backfill.reason : null;
    const changes = changed(backfill, state, stateChanged(backfill, state, change));
    // What one decision cannot hold, the controller goes on with.
    const runs = now ? cancelActiveRuns(rows, backfill, context) : [];
    return { ...changes, events: [...changes.events, ...runs] };
  };
}

/** Changes concurrency or priority while it runs. */
export function retuneBackfill(
  command: BackfillCommand & {
    max_concurrent_runs?: number | undefined;
    priority?: number | undefined;
  },
): Decide<BackfillChanged> {
  return (rows) => {
    const backfill = checked(rows, command, "retune", ["PENDING", "RUNNING", "PAUSED"]);
    if (command.max_concurrent_runs === undefined && command.priority === undefined) {
      throw new PawlError(
        "INPUT_INVALID",
        "Nothing to retune: give max_concurrent_runs, priority, or both.",
      );
    }
    const state_version = backfill.state_version + 1;
    return changed(backfill, backfill.state, {
      type: "BackfillRetuned",
      idempotency_key: IDEMPOTENCY_KEYS.backfillRetune(backfill.backfill_id, state_version),
      data: {
        backfill_id: backfill.backfill_id,
        backfill_pos: backfill.created_pos,
        state_version,
        max_concurrent_runs: command.max_concurrent_runs ?? null,
        priority: command.priority ?? null,
      },
    });
  };
}
