import { ROUTING_ID } from "./fold.ts";
import type { Rows } from "../rows.ts";
import type { RoutingRow } from "./rows.ts";
import type { Key } from "../../kernel/table.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { NewEvent } from "../events.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import { refuseOtherVersion } from "../command.ts";
import type { Decide } from "../decision.ts";
import { knownShards, refuseUnknownShards } from "../shard/look-up.ts";
import { refuseSplitTenants } from "../split/look-up.ts";

/** Where a tenant is, under which epoch, as of a version of the routing. */
export type CurrentRoute = { tenant: string; shard: string; epoch: number; version: number };

/** The routing of the workspace; null before somebody set one. */
export function currentRouting(rows: Rows): RoutingRow | null {
  return rows.routing.get(ROUTING_ID);
}

/** Where a tenant is, by a route of its own or by default; null when it is nowhere. */
export function routeOf(rows: Rows, tenant: string): CurrentRoute | null {
  const routing = currentRouting(rows);
  if (routing === null) return null;
  const { version, default_shard, default_epoch } = routing;
  const own = rows.routes.get(tenant);
  if (own !== null) return { tenant, shard: own.shard, epoch: own.epoch, version };
  if (default_shard === null) return null;
  return { tenant, shard: default_shard, epoch: default_epoch, version };
}

/** Where tenants are, in their order, with one load for all of them. */
export function routesOf(rows: Rows, tenants: readonly string[]): (CurrentRoute | null)[] {
  rows.routes.need(tenants.map((tenant): Key => [tenant]));
  return tenants.map((tenant) => routeOf(rows, tenant));
}

/** Most routes that one change of the routing names. */
export const ROUTES_CHANGED_MAX = 10_000;
/** Tenants under a split that one look-up brings. */
const PAGE_SIZE = 10_000;

/** A wish to say where tenants are; the version, when given, must be the current one. */
export type RoutingInput = {
  /** 0 for a routing that nobody has set. */
  expected_version?: number | undefined;
  default_shard?: string | undefined;
  routes: readonly { tenant: string; shard: string }[];
  reason?: string | undefined;
};

/** Says on which shard tenants are, by name or all others. It moves no rows. */
export function changeRouting(input: RoutingInput): Decide<{ version: number }> {
  return (rows, { principal }) => {
    refuseMalformed(input);
    const { default_shard: wished, routes } = input;
    refuseUnknownShards(knownShards(rows), [
      ...(wished === undefined ? [] : [wished]),
      ...new Set(routes.map(({ shard }) => shard)),
    ]);
    const routing = currentRouting(rows);
    const current = routing?.version ?? 0;
    refuseOtherVersion(input.expected_version, current, `The routing is at version ${current}`, {
      expected_version: input.expected_version,
      version: current,
    });
    const isNewDefault = wished !== undefined && wished !== routing?.default_shard;
    const changed = changedRoutes(rows, routes);
    if (!isNewDefault && changed.length === 0) {
      throw new PawlError(
        "INPUT_INVALID",
        "Nothing to change: every tenant named has that route already, and so has everybody else.",
        { details: { version: current } },
      );
    }
    const action = "changing its route";
    refuseSplitTenants(
      rows,
      changed.map(({ tenant }) => tenant),
      action,
    );
    refusePlacedBySplit(
      rows,
      changed.map(({ tenant }) => tenant),
    );
    if (isNewDefault) refuseSplitsByDefault(rows, action);
    const version = current + 1;
    const event: NewEvent = {
      type: "RoutingChanged",
      idempotency_key: IDEMPOTENCY_KEYS.routing(version),
      data: {
        version,
        ...(isNewDefault ? { default_shard: wished } : {}),
        routes: changed,
        cause: { type: "manual" },
        reason: input.reason ?? null,
        changed_by: principal,
      },
    };
    return { events: [event], result: { version } };
  };
}

function refuseMalformed({ default_shard, routes }: RoutingInput): void {
  if (default_shard === undefined && routes.length === 0) {
    throw new PawlError("INPUT_INVALID", "Nothing to change: give default_shard, routes, or both.");
  }
  if (routes.length > ROUTES_CHANGED_MAX) {
    throw new PawlError(
      "INPUT_INVALID",
      `${routes.length} routes are more than the ${ROUTES_CHANGED_MAX} that one change may have. ` +
        "Send them in several.",
      { details: { routes: routes.length, routes_max: ROUTES_CHANGED_MAX } },
    );
  }
  const seen = new Set<string>();
  for (const { tenant } of routes) {
    if (seen.has(tenant)) {
      throw new PawlError(
        "INPUT_INVALID",
        `The tenant ${JSON.stringify(tenant)} stands there twice.`,
        {
          details: { tenant },
        },
      );
    }
    seen.add(tenant);
  }
}

/** The routes that are not so yet: what is named again keeps its epoch. */
function changedRoutes(rows: Rows, routes: RoutingInput["routes"]) {
  rows.routes.need(routes.map(({ tenant }): Key => [tenant]));
  return routes.flatMap(({ tenant, shard }) =>
    rows.routes.get(tenant)?.shard === shard ? [] : [{ tenant, shard }],
  );
}

/**
 * Refuses tenants that a split has taken where they are, also by its way back: the fences of that
 * cutover stay on the shards, and the rows would not come along.
 */
function refusePlacedBySplit(rows: Rows, tenants: readonly string[]): void {
  const routes = tenants.flatMap((tenant) => rows.routes.get(tenant) ?? []);
  rows.routingVersions.need([...new Set(routes.map(({ epoch }) => epoch))].map((epoch) => [epoch]));
  for (const { tenant, shard, epoch } of routes) {
    const cause = rows.routingVersions.get(epoch)?.cause;
    if (cause?.type !== "split") continue;
    throw new PawlError(
      "STATE_ILLEGAL",
      `The tenant ${JSON.stringify(tenant)} was taken to ${shard} by the split ${cause.split_id}, so ` +
        "only another split can move it on: `pawl split plan`.",
      { details: { tenant, shard, split_id: cause.split_id } },
    );
  }
}

/** Refuses another default while it would move a tenant that a split is about. */
function refuseSplitsByDefault(rows: Rows, action: string): void {
  let after: string | null = null;
  for (;;) {
    const page: { tenant: string }[] = rows.splitTenants.find(
      after === null ? [] : [{ cell: "tenant", is: ">", value: after }],
      [{ cell: "tenant" }],
      PAGE_SIZE,
    );
    rows.routes.need(page.map(({ tenant }): Key => [tenant]));
    const byDefault = page.filter(({ tenant }) => rows.routes.get(tenant) === null);
    refuseSplitTenants(
      rows,
      byDefault.map(({ tenant }) => tenant),
      action,
    );
    if (page.length < PAGE_SIZE) return;
    after = page.at(-1)?.tenant ?? null;
  }
}
