import { PawlError } from "../../kernel/errors.ts";
import type { NewEvent, EventData } from "../events.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import type { Rows } from "../rows.ts";
import type { SyncRow, SyncState } from "./rows.ts";
import type { Condition } from "../../kernel/table.ts";
import { type Commanded, commandsAbout, type CommandTable, type Expecting } from "../command.ts";
import type { Decide, Context } from "../decision.ts";
import {
  knownDefinition,
  knownSync,
  currentSync,
  hasLeftCode,
  stopRuns,
  syncStateChanged,
  livingSync,
} from "./look-up.ts";
import { sourceOf, type SyncSpec, SyncTarget, targetKeyOf } from "./spec.ts";
import { leftCode } from "./advance.ts";
import { SYNC_RULES, type SyncFacts } from "./rules.ts";

/** A command about one sync, by its id or `name@target_key`; the version, when given, must be current. */
export type SyncCommand = Expecting & { sync: string; reason?: string | undefined };

const SYNC: Commanded<SyncRow, SyncState, SyncFacts, { sync: string }> = {
  title: ({ name, target_key }) => `Sync ${name}@${target_key}`,
  stateOf: ({ state }) => state,
  details: ({ state, state_version }) => ({ state, state_version }),
  known: (rows, { sync }) => knownSync(rows, sync),
  factsOf: (row, _, rows) => ({
    ...row,
    isInCode: () =>
      row.origin === "code" && !hasLeftCode(row, currentSync(rows, row.name)?.spec ?? null),
  }),
};

/** Makes a command about a sync. */
export const syncCommand = commandsAbout(SYNC);

/** Where a sync stands after so many changes of its version. */
export function syncChanged(sync: SyncRow, state: SyncState, versions: number): SyncChanged {
  const { sync_id, name, target_key, state_version } = sync;
  return { sync_id, name, target_key, state, state_version: state_version + versions };
}

function turned(
  sync: SyncRow,
  state: SyncState,
  { reason }: SyncCommand,
  principal: string,
  stopped: readonly NewEvent[] = [],
) {
  const event = syncStateChanged(sync, state, { changedBy: principal, reason });
  return { events: [event, ...stopped], result: syncChanged(sync, state, 1) };
}

type Tuning = {
  /** Null for what the definition says. */
  max_parallel?: number | null | undefined;
  priority?: number | null | undefined;
};

/** What can be asked of a sync as a whole; what is about its segments stands in `repair.ts`. */
export const SYNC_COMMANDS = {
  pause: syncCommand(SYNC_RULES.pause, (sync, said: SyncCommand, rows, context) =>
    // What one decision cannot hold, the controller goes on with.
    turned(sync, "PAUSED", said, context.principal, stopRuns(rows, sync, false, context)),
  ),
  resume: syncCommand(SYNC_RULES.resume, (sync, said: SyncCommand, _, { principal }) =>
    turned(sync, sync.planned_to === null ? "PENDING" : "RUNNING", said, principal),
  ),
  remove: syncCommand(SYNC_RULES.remove, (sync, said: SyncCommand, rows, context) =>
    turned(sync, "REMOVED", said, context.principal, stopRuns(rows, sync, true, context)),
  ),
  retune: syncCommand(SYNC_RULES.retune, (sync, said: SyncCommand & Tuning) => {
    const { max_parallel = sync.max_parallel, priority = sync.priority } = said;
    if (said.max_parallel === undefined && said.priority === undefined) {
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
  }),
  /**
   * For all syncs of the source: what was believed by mistake and planned beyond the head goes, and a
   * head that is not believed by itself counts from now on.
   */
  "set-head": syncCommand(
    SYNC_RULES["set-head"],
    (sync, said: SyncCommand & { head: number }, rows, { principal }) => {
      const { name, source } = sync;
      if (!knownDefinition(rows, name).spec.has.head) {
        throw new PawlError(
          "STATE_ILLEGAL",
          `The sync ${name} has no head: its range is fixed. Change \`to\` in its definition.`,
          { details: { sync: name } },
        );
      }
      const { head, reason = null } = said;
      const before = rows.syncSources.get(name, source);
      const n = (before?.moves ?? 0) + 1;
      const isLower = before !== null && head < before.head;
      const cut = isLower
        ? { rewrite: before.rewrites + 1, from: Math.max(before.head, plannedFurthest(rows, sync)) }
        : null;
      const event: NewEvent = {
        type: "SyncHeadSet",
        idempotency_key: IDEMPOTENCY_KEYS.syncHeadSet(name, source, n),
        data: { name, source, n, head, cut, changed_by: principal, reason },
      };
      return { events: [event], result: syncChanged(sync, sync.state, 0) };
    },
  ),
} satisfies CommandTable<SyncFacts, SyncState>;

export const pauseSync = SYNC_COMMANDS.pause.decide;
export const resumeSync = SYNC_COMMANDS.resume.decide;
export const removeSync = SYNC_COMMANDS.remove.decide;
export const retuneSync = SYNC_COMMANDS.retune.decide;
export const setHead = SYNC_COMMANDS["set-head"].decide;

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

/** Longest name of a source. */
const SOURCE_LENGTH_MAX = 200;

/** A wish to sync one more target. */
export type AddSyncInput = {
  name: string;
  target: SyncTarget;
  from_block?: number | undefined;
  to_block?: number | undefined;
  max_parallel?: number | undefined;
  priority?: number | undefined;
};

/** Where a sync stands after a command. */
export type SyncChanged = {
  sync_id: string;
  name: string;
  target_key: string;
  state: SyncState;
  state_version: number;
};

/** A target as its event has it. */
export type AddedSync = EventData<"SyncsAdded">["syncs"][number];

/** Adds a target that code does not name. */
export function addSync(input: AddSyncInput): Decide<SyncChanged> {
  return (rows, context) => {
    const { spec } = knownDefinition(rows, input.name);
    const added = asInput(() => addedSync(spec, checkedTarget(input), input, context));
    const { name } = spec;
    const { sync_id, target_key } = added;
    const existing = livingSync(rows, name, target_key);
    if (existing !== null) {
      throw new PawlError(
        "NAME_TAKEN",
        `${name} syncs ${target_key} already, as ${existing.sync_id} (${existing.state}).`,
        { details: { sync: name, target_key, sync_id: existing.sync_id } },
      );
    }
    const result = { sync_id, name, target_key, state: "PENDING", state_version: 1 } as const;
    return { events: [syncsAdded(name, "api", [added])], result };
  };
}

/** What does not fit the definition is the fault of the target that somebody gave, not of code. */
function asInput<Result>(body: () => Result): Result {
  try {
    return body();
  } catch (error) {
    if (!(error instanceof PawlError) || error.code !== "DEFINITION_INVALID") throw error;
    throw new PawlError("INPUT_INVALID", error.message, { details: error.details, cause: error });
  }
}

function checkedTarget({ target }: AddSyncInput): SyncTarget {
  const parsed = SyncTarget.safeParse(target);
  if (parsed.success) return parsed.data;
  const fault = parsed.error.issues.map(({ path, message }) => [...path, message].join(" "));
  throw new PawlError("INPUT_INVALID", `The target is none: ${fault.join("; ")}.`, {
    details: { target },
  });
}

/** A new sync of a target; refuses one that has nothing to fetch, or no source. */
export function addedSync(
  spec: SyncSpec,
  target: SyncTarget,
  own: Omit<AddSyncInput, "name" | "target">,
  context: Pick<Context, "newId">,
): AddedSync {
  const from_block = own.from_block ?? spec.from;
  const to_limit = own.to_block ?? null;
  const end = to_limit ?? spec.to;
  const target_key = targetKeyOf(target);
  if (end !== null && end < from_block) {
    throw new PawlError(
      "INPUT_INVALID",
      `${spec.name} of ${target_key} would begin at ${from_block} and end before that, at ${end}.`,
      { details: { from_block, to_block: end } },
    );
  }
  return {
    sync_id: context.newId(),
    target,
    target_key,
    source: sourceNamed(spec, target),
    from_block,
    to_limit,
    max_parallel: own.max_parallel ?? null,
    priority: own.priority ?? null,
  };
}

function sourceNamed(spec: SyncSpec, target: SyncTarget): string {
  const source = sourceOf(spec, target);
  if (source.length <= SOURCE_LENGTH_MAX) return source;
  throw new PawlError(
    "DEFINITION_INVALID",
    `The sync ${spec.name} has, for ${targetKeyOf(target)}, a source of ${source.length} ` +
      `characters; at most ${SOURCE_LENGTH_MAX} are possible.`,
    { details: { sync: spec.name, source } },
  );
}

/** The event that adds syncs. */
export function syncsAdded(
  name: string,
  origin: "code" | "api",
  syncs: readonly [AddedSync, ...AddedSync[]],
): NewEvent {
  return {
    type: "SyncsAdded",
    idempotency_key: IDEMPOTENCY_KEYS.syncsAdded(syncs[0].sync_id),
    data: { name, origin, syncs: [...syncs] },
  };
}

/** Most targets that one event adds. */
const TARGETS_IN_EVENT_MAX = 500;
/** Most syncs of one name. */
const SYNCS_MAX = 1_000_000;

/** Definitions of syncs that change with a publish: what they become, null for those that go. */
export type SyncPublication = { name: string; spec: SyncSpec | null };

/**
 * What publishing definitions of syncs does to the syncs: targets that code names are added, and
 * those that it does not name any more are removed, as many as there is room for; the rest removes
 * itself when it is next looked at. What the API added stays.
 */
export function publishSyncs(
  rows: Rows,
  publications: readonly SyncPublication[],
  room: number,
  context: Context,
): NewEvent[] {
  const living = publications.map(({ name }) => livingSyncs(rows, name));
  const events = publications.flatMap(({ spec }, index) =>
    spec === null ? [] : additions(spec, living[index] ?? [], context),
  );
  for (const [index, { spec }] of publications.entries()) {
    for (const sync of living[index] ?? []) {
      if (!hasLeftCode(sync, spec)) continue;
      if (events.length >= room) return events;
      // Each of them stops its runs by itself: of thousands, that is too much for one decision.
      events.push(leftCode(sync));
    }
  }
  return events;
}

function livingSyncs(rows: Rows, name: string): SyncRow[] {
  const where = [
    { cell: "name", is: "=", value: name },
    { cell: "state", is: "<>", value: "REMOVED" },
  ] as const;
  return rows.syncs.find(where, [{ cell: "target_key" }, { cell: "sync_id" }], SYNCS_MAX);
}

function additions(spec: SyncSpec, living: readonly SyncRow[], context: Context): NewEvent[] {
  const known = new Set(living.map(({ target_key }) => target_key));
  const added = spec.targets
    .filter((target) => !known.has(targetKeyOf(target)))
    .map((target) => addedSync(spec, target, {}, context));
  const events: NewEvent[] = [];
  for (let at = 0; at < added.length; at += TARGETS_IN_EVENT_MAX) {
    const [first, ...rest] = added.slice(at, at + TARGETS_IN_EVENT_MAX);
    const page: [AddedSync, ...AddedSync[]] | null = first === undefined ? null : [first, ...rest];
    if (page !== null) events.push(syncsAdded(spec.name, "code", page));
  }
  return events;
}
