import { PawlError } from "../../kernel/errors.ts";
import type { EventData, NewEvent } from "../events.ts";
import { SPLIT_TENANTS_MAX } from "./events.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import type { Rows } from "../rows.ts";
import { DURATION_MS_MAX } from "../definition/spec.ts";
import type { SplitChanged } from "./commands.ts";
import type { Context, Decide } from "../decision.ts";
import { knownShards, type PinnedShards, refuseUnknownShards } from "../shard/look-up.ts";
import { refuseSplitTenants } from "./look-up.ts";
import { refuseMovedTenants } from "../move/overlaps.ts";
import { currentRouting, routesOf } from "../routing/commands.ts";

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
