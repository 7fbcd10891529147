import { PawlError } from "../core/errors.ts";
import type { NewEvent } from "../core/events/index.ts";
import { IDEMPOTENCY_KEYS } from "../core/keys.ts";
import type { BackfillRow, BackfillState } from "../core/rows/backfill-rows.ts";
import type { Rows } from "../core/rows/rows.ts";
import { cancelEvents } from "./cancel-run.ts";
import { type Context, type Decide, DECISION_EVENTS_MAX } from "./decision.ts";
import { activeChunks, stateChanged } from "./plan-chunks.ts";

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
    const event = stateChanged(backfill, "PAUSED", command.reason ?? null, false, principal);
    return changed(backfill, "PAUSED", event);
  };
}

/** Goes on with the first unplanned chunk; starts a backfill that waits for an earlier one. */
export function resumeBackfill(command: BackfillCommand): Decide<BackfillChanged> {
  return (rows, { principal }) => {
    const backfill = checked(rows, command, "resume", ["PAUSED", "PENDING"]);
    const event = stateChanged(backfill, "RUNNING", command.reason ?? null, false, principal);
    return changed(backfill, "RUNNING", event);
  };
}

/** Plans nothing more and ends as cancelled; with `now`, also cancels the active runs. */
export function cancelBackfill(
  command: BackfillCommand & { now?: boolean | undefined },
): Decide<BackfillChanged> {
  return (rows, context) => {
    const legal: BackfillState[] = ["PENDING", "RUNNING", "PAUSED"];
    if (command.now === true) legal.push("CANCELLING");
    const backfill = checked(rows, command, "cancel", legal);
    const events: NewEvent[] = [];
    let state: BackfillState = backfill.state;
    if (state !== "CANCELLING") {
      state = activeChunks(backfill) === 0 ? "CANCELLED" : "CANCELLING";
      const reason = command.reason ?? null;
      events.push(stateChanged(backfill, state, reason, false, context.principal));
    }
    if (command.now === true) events.push(...cancelRuns(rows, backfill, context));
    const state_version = backfill.state_version + (backfill.state === state ? 0 : 1);
    return { events, result: { backfill_id: backfill.backfill_id, state, state_version } };
  };
}

function cancelRuns(rows: Rows, backfill: BackfillRow, context: Context): NewEvent[] {
  const where = [
    { cell: "backfill_id", is: "=", value: backfill.backfill_id },
    { cell: "state", is: "in", values: ["PENDING", "RUNNING"] },
  ] as const;
  // All that are active: more than the concurrency allows when that was lowered meanwhile.
  const runs = rows.runs.find(where, [{ cell: "run_pos" }], activeChunks(backfill));
  const reason = `backfill ${backfill.backfill_id} was cancelled`;
  const events: NewEvent[] = [];
  for (const run of runs) {
    if (run.cancel_requested_at !== null) continue;
    const cancelled = cancelEvents(rows, run, reason, context);
    if (events.length + cancelled.length > DECISION_EVENTS_MAX - 1) break;
    events.push(...cancelled);
  }
  return events;
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
