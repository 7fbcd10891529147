import { PawlError } from "../../kernel/errors.ts";
import type { Condition } from "../../kernel/table.ts";
import { type Commanded, type CommandTable, commandsAbout, type Expecting } from "../command.ts";
import type { Context, Decide, Decision } from "../decision.ts";
import { DURATION_MS_MAX } from "../definition/spec.ts";
import type { EventData, NewEvent } from "../events.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import { refuseMovedTenants } from "../move/overlaps.ts";
import { currentRouting, routesOf } from "../routing/commands.ts";
import type { Rows } from "../rows.ts";
import { knownShards, type PinnedShards, refuseUnknownShards } from "../shard/look-up.ts";
import { parseSchemaChange, requireTable } from "../shard/schema-change.ts";
import { isTriedAgain, stopStep } from "./advance.ts";
import { SPLIT_TENANTS_MAX } from "./events.ts";
import {
  knownSplit,
  refuseSplitTenants,
  splitPhaseChanged,
  splitStepSettled,
  splitWanted,
} from "./look-up.ts";
import type { SplitPhase, SplitRow, SplitWish } from "./rows.ts";
import { SPLIT_RULES, type SplitFacts } from "./rules.ts";

/** A command about one split, by its id; the version, when given, must be current. */
export type SplitCommand = Expecting & { split: string; reason?: string | undefined };

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
const ACTIVE_PHASES: readonly SplitPhase[] = [
  "planning",
  "dual_write",
  "backfill",
  "tailing",
  "cutover_pending",
  "reversible",
];

type Reference = { split: string; ddl?: string };

const SPLIT: Commanded<SplitRow, SplitPhase, SplitFacts, Reference> = {
  title: ({ split_id }) => `Split ${split_id}`,
  stateOf: ({ phase }) => phase,
  details: ({ split_id, phase, state_version, wanted }) => ({
    split_id,
    phase,
    state_version,
    wanted,
  }),
  versionDetails: ({ state_version, phase }) => ({ state_version, phase }),
  known: (rows, { split }) => knownSplit(rows, split),
  factsOf: (row, { ddl }, rows, { now }) => ({
    ...row,
    isTriedAgain: () => isTriedAgain(rows, row, now),
    isWantedDdl: row.wanted === "ddl" && row.ddl === ddl,
  }),
};

const command = commandsAbout(SPLIT);

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
  wanted: SplitWish,
  said: SplitCommand & { ddl?: string },
  context: Context,
): Decision<SplitChanged> {
  const { reason, ddl } = said;
  const wording = { changedBy: context.principal, reason, ...(ddl === undefined ? {} : { ddl }) };
  const change = { wanted, state_version: split.state_version + 1 };
  return {
    events: [
      splitWanted(split, wanted, wording),
      ...stopStep(rows, { ...split, ...change }, context),
    ],
    result: changed(split, change),
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

function again(split: SplitRow, { reason }: SplitCommand): Decision<SplitChanged> {
  const said = reason ?? split.error?.message ?? null;
  return {
    events: splitStepSettled(split, { outcome: "failed", reason: said }),
    result: changed(split),
  };
}

type Decided = (
  split: SplitRow,
  said: SplitCommand,
  rows: Rows,
  context: Context,
  isIdle: boolean,
) => Decision<SplitChanged>;

/** Wants something that takes a step of its own. */
function wish(wanted: SplitWish): Decided {
  return (split, said, rows, context, isIdle) =>
    isIdle ? unchanged(split) : wished(rows, split, wanted, said, context);
}

/** Everything that can be asked of a split; a repeat is answered alike and records nothing. */
export const SPLIT_COMMANDS = {
  resume: command(SPLIT_RULES.resume, (split, said: SplitCommand, _rows, _context, isIdle) =>
    isIdle ? unchanged(split) : again(split, said),
  ),
  "start-dual-write": command(
    SPLIT_RULES["start-dual-write"],
    (split, said: SplitCommand, rows, context, isIdle) => {
      if (isIdle) return unchanged(split);
      return split.phase === "rolled_back"
        ? begunAgain(rows, split, said, context)
        : moved(split, "dual_write", said, context);
    },
  ),
  "run-backfill": command(
    SPLIT_RULES["run-backfill"],
    (split, said: SplitCommand, _, context, isIdle) => {
      if (isIdle) return unchanged(split);
      // A copy that failed goes on from where it got to.
      return split.phase === "backfill"
        ? again(split, said)
        : moved(split, "backfill", said, context);
    },
  ),
  cutover: command(SPLIT_RULES.cutover, wish("cutover")),
  complete: command(SPLIT_RULES.complete, wish("complete")),
  ddl: command(
    SPLIT_RULES.ddl,
    (split, said: SplitCommand & { ddl: string }, rows, context, isIdle) => {
      if (isIdle) return unchanged(split);
      refuseOthersOnItsShards(rows, split);
      return wished(rows, split, "ddl", said, context);
    },
    ({ tables }, { ddl }) => requireTable(parseSchemaChange(ddl), tables, null),
  ),
  rollback: command(SPLIT_RULES.rollback, (split, said: SplitCommand, rows, context, isIdle) => {
    if (isIdle || split.phase !== "planning") {
      return wish("rollback")(split, said, rows, context, isIdle);
    }
    // Nothing was touched, so nothing has to be put back.
    const stopped = stopStep(rows, { ...split, phase: "rolled_back" }, context);
    return moved(split, "rolled_back", said, context, stopped);
  }),
} satisfies CommandTable<SplitFacts, SplitPhase>;

export const resumeSplit = SPLIT_COMMANDS.resume.decide;
export const startDualWrite = SPLIT_COMMANDS["start-dual-write"].decide;
export const runBackfill = SPLIT_COMMANDS["run-backfill"].decide;
export const requestCutover = SPLIT_COMMANDS.cutover.decide;
export const completeSplit = SPLIT_COMMANDS.complete.decide;
export const changeSchema = SPLIT_COMMANDS.ddl.decide;
export const rollbackSplit = SPLIT_COMMANDS.rollback.decide;

/** A wish to take tenants from one shard to another while they are used. */
export type SplitInput = {
  description?: string | undefined;
  source: string;
  target: string;
  tenants: readonly string[];
  auto_cutover?: boolean | undefined;
  /** How far behind the copy may be to count as caught up. */
  lag_limit_ms?: number | undefined;
  /** How long a cutover waits for writes under way, and how long it holds writes at most. */
  fence_wait_ms?: number | undefined;
  fence_hold_ms?: number | undefined;
  /** How long the rows stay on the source once the split is complete. */
  grace_ms?: number | undefined;
};

const LIMITS = {
  lag_limit_ms: 1_000,
  fence_wait_ms: 1_000,
  fence_hold_ms: 5_000,
  grace_ms: 86_400_000,
} as const;

/** Plans a split; the shards are looked at next, and nothing else is done before somebody says so. */
export function planSplit(input: SplitInput): Decide<SplitChanged> {
  return (rows, context) => {
    const { source, target } = input;
    const tenants = [...input.tenants];
    const { epochs, tables, spec_hash, routing_version } = plannable(rows, input, context);
    const { lag_limit_ms, fence_wait_ms, fence_hold_ms, grace_ms } = limitsOf(input);
    const split_id = context.newId();
    const event: NewEvent = {
      type: "SplitPlanned",
      idempotency_key: IDEMPOTENCY_KEYS.splitPlan(split_id),
      data: {
        split_id,
        description: input.description ?? null,
        source,
        target,
        tenants,
        epochs,
        tables,
        spec_hash,
        routing_version,
        auto_cutover: input.auto_cutover ?? false,
        lag_limit_ms,
        fence_wait_ms,
        fence_hold_ms,
        grace_ms,
        changed_by: context.principal,
      },
    };
    const result = {
      split_id,
      phase: "planning",
      state_version: 1,
      wanted: null,
      routing_version_cutover: null,
      routing_version_rollback: null,
    } as const;
    return { events: [event], result };
  };
}

/** What a split pins when it begins; refuses one that the shards, the routing or other work forbid now. */
export function plannable(
  rows: Rows,
  { source, target, tenants }: Pick<SplitInput, "source" | "target" | "tenants">,
  { hash }: Pick<Context, "hash">,
): NonNullable<EventData<"SplitPhaseChanged">["again"]> {
  const shards = knownShards(rows);
  refuseShards(shards, source, target);
  refuseTenants(tenants);
  const routed = routedTo(rows, source, tenants);
  refuseSplitTenants(rows, tenants, "another split");
  refuseMovedTenants(rows, tenants, hash);
  return { ...routed, tables: shards.spec.tables, spec_hash: shards.spec_hash };
}

function refuseShards(shards: PinnedShards, source: string, target: string): void {
  refuseUnknownShards(shards, [source, target]);
  if (source === target) {
    throw new PawlError(
      "INPUT_INVALID",
      `The source and the target are both ${source}. Name the shard that the tenants are to go to.`,
      { details: { source, target } },
    );
  }
  const engineOf = (name: string) => shards.spec.shards.find(({ shard }) => shard === name)?.engine;
  const [from, to] = [engineOf(source), engineOf(target)];
  if (from === to) return;
  throw new PawlError(
    "INPUT_INVALID",
    `${source} is kept in ${from} and ${target} in ${to}; a split needs the same engine on both ` +
      "sides, so that rows stay exactly what they are.",
    { details: { source, source_engine: from, target, target_engine: to } },
  );
}

function refuseTenants(tenants: readonly string[]): void {
  const count = tenants.length;
  if (count === 0) {
    throw new PawlError("INPUT_INVALID", "A split needs at least one tenant: say whose rows go.");
  }
  if (count > SPLIT_TENANTS_MAX) {
    throw new PawlError(
      "INPUT_INVALID",
      `${count} tenants are more than the ${SPLIT_TENANTS_MAX} that one split may have. ` +
        "Plan several splits, one after the other.",
      { details: { tenants: count, tenants_max: SPLIT_TENANTS_MAX } },
    );
  }
  const twice = tenants.find((tenant, index) => tenants.indexOf(tenant) !== index);
  if (twice === undefined) return;
  throw new PawlError("INPUT_INVALID", `The tenant ${JSON.stringify(twice)} stands there twice.`, {
    details: { tenant: twice },
  });
}

/** The epochs of the tenants, all of which are routed to the source now. */
function routedTo(rows: Rows, source: string, tenants: readonly string[]) {
  const routing = currentRouting(rows);
  if (routing === null) {
    throw new PawlError(
      "STATE_ILLEGAL",
      "The workspace has no routing yet, so nobody knows where the tenants are. Set one first, " +
        `such as \`pawl routing set --default ${source}\`.`,
      { details: { source } },
    );
  }
  const epochs = routesOf(rows, tenants).map((route, index) => {
    if (route?.shard === source) return route.epoch;
    const tenant = tenants[index];
    const place =
      route === null ? "nowhere: it has no route, and there is no default" : route.shard;
    throw new PawlError(
      "STATE_ILLEGAL",
      `The tenant ${JSON.stringify(tenant)} is not on ${source} now; it is routed to ${place}.`,
      { details: { tenant, source, shard: route?.shard ?? null, version: routing.version } },
    );
  });
  return { epochs, routing_version: routing.version };
}

function limitsOf(input: SplitInput): Record<keyof typeof LIMITS, number> {
  const given = (name: keyof typeof LIMITS): number => {
    const value = input[name] ?? LIMITS[name];
    const least = name === "grace_ms" ? 0 : 1;
    if (Number.isInteger(value) && value >= least && value <= DURATION_MS_MAX) return value;
    throw new PawlError(
      "INPUT_INVALID",
      `${name} is ${value}; it must be a whole number from ${least} to ${DURATION_MS_MAX}.`,
      { details: { [name]: value } },
    );
  };
  return {
    lag_limit_ms: given("lag_limit_ms"),
    fence_wait_ms: given("fence_wait_ms"),
    fence_hold_ms: given("fence_hold_ms"),
    grace_ms: given("grace_ms"),
  };
}
