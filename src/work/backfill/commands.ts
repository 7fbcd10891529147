import { PawlError } from "../../kernel/errors.ts";
import type { NewEvent } from "../events.ts";
import { isTerminalBackfill } from "./fold.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import type { BackfillRow, BackfillState } from "./rows.ts";
import type { Rows } from "../rows.ts";
import { cancelActiveRuns } from "../run/cancel.ts";
import type { Context, Decide, Decision } from "../decision.ts";
import {
  type Commanded,
  commandsAbout,
  type CommandTable,
  type Expecting,
  notFound,
} from "../command.ts";
import { activeChunks, stateChanged } from "./advance.ts";
import { refuseSeveralAtOnce } from "./in-order.ts";
import { BACKFILL_RULES, type BackfillFacts } from "./rules.ts";

/** A command about one backfill; the version, when given, must be the current one. */
export type BackfillCommand = Expecting & { backfill_id: string; reason?: string | undefined };

/** Where the backfill is after a command. */
export type BackfillChanged = { backfill_id: string; state: BackfillState; state_version: number };

/** The refusal of a backfill that is not there. */
export function backfillNotFound(backfillId: string): PawlError {
  return notFound("BACKFILL_NOT_FOUND", "backfill", backfillId, { field: "backfill_id" });
}

/** The backfill, or the refusal that there is none. */
export function knownBackfill(rows: Rows, backfillId: string): BackfillRow {
  const backfill = rows.backfills.get(backfillId);
  if (backfill === null) throw backfillNotFound(backfillId);
  return backfill;
}

const BACKFILL: Commanded<BackfillRow, BackfillState, BackfillFacts, { backfill_id: string }> = {
  title: ({ backfill_id }) => `Backfill ${backfill_id}`,
  stateOf: ({ state }) => state,
  details: ({ state, state_version }) => ({ state, state_version }),
  known: (rows, { backfill_id }) => knownBackfill(rows, backfill_id),
  factsOf: (row) => row,
};

const command = commandsAbout(BACKFILL);

function changed(backfill: BackfillRow, state: BackfillState, event: NewEvent) {
  const result: BackfillChanged = {
    backfill_id: backfill.backfill_id,
    state,
    state_version: backfill.state_version + 1,
  };
  return { events: [event], result };
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

function cancelled(
  rows: Rows,
  backfill: BackfillRow,
  said: BackfillCommand,
  context: Context,
  cancelRuns: boolean,
): Decision<BackfillChanged> {
  const state = activeChunks(backfill) === 0 ? "CANCELLED" : "CANCELLING";
  const change = { ...saidBy(context.principal, said), cancelRuns };
  // Asked a second time, in a hurry now, it keeps the reason that it was first cancelled for.
  change.reason ??= backfill.state === "CANCELLING" ? backfill.reason : null;
  const changes = changed(backfill, state, stateChanged(backfill, state, change));
  // What one decision cannot hold, the controller goes on with.
  const runs = cancelRuns ? cancelActiveRuns(rows, backfill, context) : [];
  return { ...changes, events: [...changes.events, ...runs] };
}

type Tuning = { max_concurrent_runs?: number | undefined; priority?: number | undefined };

/** Everything that can be asked of a backfill, but for its retry, which makes another one. */
export const BACKFILL_COMMANDS = {
  pause: command(BACKFILL_RULES.pause, (backfill, said: BackfillCommand, _, { principal }) =>
    changed(backfill, "PAUSED", stateChanged(backfill, "PAUSED", saidBy(principal, said))),
  ),
  resume: command(BACKFILL_RULES.resume, (backfill, said: BackfillCommand, rows, { principal }) => {
    if (backfill.state === "PENDING") refuseTooEarly(rows, backfill);
    return changed(backfill, "RUNNING", stateChanged(backfill, "RUNNING", saidBy(principal, said)));
  }),
  retune: command(BACKFILL_RULES.retune, (backfill, said: BackfillCommand & Tuning, rows) => {
    if (said.max_concurrent_runs === undefined && said.priority === undefined) {
      throw new PawlError(
        "INPUT_INVALID",
        "Nothing to retune: give max_concurrent_runs, priority, or both.",
      );
    }
    refuseSeveralAtOnce(rows, backfill, said.max_concurrent_runs ?? 1);
    const state_version = backfill.state_version + 1;
    return changed(backfill, backfill.state, {
      type: "BackfillRetuned",
      idempotency_key: IDEMPOTENCY_KEYS.backfillRetune(backfill.backfill_id, state_version),
      data: {
        backfill_id: backfill.backfill_id,
        backfill_pos: backfill.created_pos,
        state_version,
        max_concurrent_runs: said.max_concurrent_runs ?? null,
        priority: said.priority ?? null,
      },
    });
  }),
  cancel: command(BACKFILL_RULES.cancel, (backfill, said: BackfillCommand, rows, context) =>
    cancelled(rows, backfill, said, context, false),
  ),
  "cancel --now": command(
    BACKFILL_RULES["cancel --now"],
    (backfill, said: BackfillCommand, rows, context, isIdle) => {
      if (!isIdle) return cancelled(rows, backfill, said, context, true);
      const { backfill_id, state, state_version } = backfill;
      return { events: [], result: { backfill_id, state, state_version } };
    },
  ),
} satisfies CommandTable<BackfillFacts, BackfillState>;

export const pauseBackfill = BACKFILL_COMMANDS.pause.decide;
export const resumeBackfill = BACKFILL_COMMANDS.resume.decide;
export const retuneBackfill = BACKFILL_COMMANDS.retune.decide;

/** Plans nothing more and ends as cancelled; with `now`, also cancels the active runs. */
export function cancelBackfill(
  said: BackfillCommand & { now?: boolean | undefined },
): Decide<BackfillChanged> {
  return BACKFILL_COMMANDS[said.now === true ? "cancel --now" : "cancel"].decide(said);
}
