import { PawlError } from "../core/errors.ts";
import type { NewEvent } from "../core/events/index.ts";
import { IDEMPOTENCY_KEYS } from "../core/keys.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { SyncRow, SyncState } from "../core/rows/sync-rows.ts";
import type { Condition } from "../core/rows/table.ts";
import type { SyncChanged } from "./add-sync.ts";
import type { Decide } from "./decision.ts";
import { knownDefinition, knownSync } from "./find-sync.ts";
import { currentSync, hasLeftCode } from "./sync-lookup.ts";
import { stopRuns, syncStateChanged } from "./sync-state.ts";

/** A command about one sync, by its id or `name@target_key`; the version, when given, must be current. */
export type SyncCommand = {
  sync: string;
  expected_state_version?: number | undefined;
  reason?: string | undefined;
};

/** The states of a sync that is there. */
export const LIVING: readonly SyncState[] = [
  "PENDING",
  "RUNNING",
  "PAUSED",
  "COMPLETE",
  "FOLLOWING",
];

/** The sync of a command; refuses another version than the one meant, and what makes no sense now. */
export function commandedSync(
  rows: Rows,
  command: SyncCommand,
  action: string,
  legal: readonly SyncState[] = LIVING,
): SyncRow {
  const sync = knownSync(rows, command.sync);
  const { state, state_version } = sync;
  const title = `Sync ${sync.name}@${sync.target_key}`;
  const expected = command.expected_state_version;
  if (expected !== undefined && expected !== state_version) {
    throw new PawlError(
      "STATE_VERSION_MISMATCH",
      `${title} is at state version ${state_version} (${state}), not ${expected}. ` +
        "Look at it again, then decide.",
      { details: { expected_state_version: expected, state_version, state } },
    );
  }
  if (legal.includes(state)) return sync;
  throw new PawlError(
    "STATE_ILLEGAL",
    `${title} is ${state}; ${action} is possible only while it is ${legal.join(" or ")}.`,
    { details: { state, state_version, legal } },
  );
}

/** Where a sync stands after so many changes of its version. */
export function syncChanged(sync: SyncRow, state: SyncState, versions: number): SyncChanged {
  const { sync_id, name, target_key, state_version } = sync;
  return { sync_id, name, target_key, state, state_version: state_version + versions };
}

function moved(sync: SyncRow, state: SyncState, command: SyncCommand, principal: string) {
  const event = syncStateChanged(sync, state, { changedBy: principal, reason: command.reason });
  return { event, result: syncChanged(sync, state, 1) };
}

/** Stops everything of a sync but its verifications; how far its segments got is kept. */
export function pauseSync(command: SyncCommand): Decide<SyncChanged> {
  return (rows, context) => {
    const legal = LIVING.filter((state) => state !== "PAUSED");
    const sync = commandedSync(rows, command, "pausing", legal);
    const { event, result } = moved(sync, "PAUSED", command, context.principal);
    // What one decision cannot hold, the controller goes on with.
    return { events: [event, ...stopRuns(rows, sync, false, context)], result };
  };
}

/** Goes on with a paused sync where it stood. */
export function resumeSync(command: SyncCommand): Decide<SyncChanged> {
  return (rows, { principal }) => {
    const sync = commandedSync(rows, command, "resuming", ["PAUSED"]);
    const to = sync.planned_to === null ? "PENDING" : "RUNNING";
    const { event, result } = moved(sync, to, command, principal);
    return { events: [event], result };
  };
}

/** Ends a sync for good; what it stored stays where it is. */
export function removeSync(command: SyncCommand): Decide<SyncChanged> {
  return (rows, context) => {
    const sync = commandedSync(rows, command, "removing");
    const { name, target_key } = sync;
    if (sync.origin === "code" && !hasLeftCode(sync, currentSync(rows, name)?.spec ?? null)) {
      throw new PawlError(
        "DEFINITION_INVALID",
        `Sync ${name}@${target_key} is named by code; take it out there and publish that with ` +
          "`pawl deploy`. Pausing and resuming work from here too.",
        { details: { kind: "sync", name, target_key } },
      );
    }
    const { event, result } = moved(sync, "REMOVED", command, context.principal);
    return { events: [event, ...stopRuns(rows, sync, true, context)], result };
  };
}

/** Changes how many segments run at once, or how urgent they are; null for what the definition says. */
export function retuneSync(
  command: SyncCommand & {
    max_parallel?: number | null | undefined;
    priority?: number | null | undefined;
  },
): Decide<SyncChanged> {
  return (rows) => {
    const sync = commandedSync(rows, command, "retuning");
    const { max_parallel = sync.max_parallel, priority = sync.priority } = command;
    if (command.max_parallel === undefined && command.priority === undefined) {
      throw new PawlError(
        "INPUT_INVALID",
        "Nothing to retune: give max_parallel, priority, or both.",
      );
    }
    const state_version = sync.state_version + 1;
    const { sync_id } = sync;
    const event: NewEvent = {
      type: "SyncRetuned",
      idempotency_key: IDEMPOTENCY_KEYS.syncRetune(sync_id, state_version),
      data: { sync_id, state_version, max_parallel, priority },
    };
    return { events: [event], result: syncChanged(sync, sync.state, 1) };
  };
}

/**
 * Says where the head of a sync's source is, for all syncs of that source: what was believed by mistake
 * and planned beyond it goes, and a head that is not believed by itself counts from now on.
 */
export function setHead(command: SyncCommand & { head: number }): Decide<SyncChanged> {
  return (rows, { principal }) => {
    const sync = commandedSync(rows, command, "setting its head");
    const { name, source } = sync;
    if (!knownDefinition(rows, name).spec.has.head) {
      throw new PawlError(
        "STATE_ILLEGAL",
        `The sync ${name} has no head: its range is fixed. Change \`to\` in its definition.`,
        { details: { sync: name } },
      );
    }
    const before = rows.syncSources.get(name, source);
    const n = (before?.moves ?? 0) + 1;
    const isLower = before !== null && command.head < before.head;
    const cut = isLower
      ? { rewrite: before.rewrites + 1, from: Math.max(before.head, plannedFurthest(rows, sync)) }
      : null;
    const event: NewEvent = {
      type: "SyncHeadSet",
      idempotency_key: IDEMPOTENCY_KEYS.syncHeadSet(name, source, n),
      data: {
        name,
        source,
        n,
        head: command.head,
        cut,
        changed_by: principal,
        reason: command.reason ?? null,
      },
    };
    return { events: [event], result: syncChanged(sync, sync.state, 0) };
  };
}

/** The last block that any sync of a source has planned. */
function plannedFurthest(rows: Rows, { name, source }: SyncRow): number {
  const where: Condition[] = [
    { cell: "name", is: "=", value: name },
    { cell: "source", is: "=", value: source },
    { cell: "planned_to", is: "not null" },
  ];
  const order = [{ cell: "planned_to", descending: true }];
  return rows.syncs.find(where, order, 1)[0]?.planned_to ?? 0;
}
