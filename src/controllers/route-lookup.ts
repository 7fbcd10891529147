import { ROUTING_ID } from "../core/fold/fold-routing.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { RoutingRow } from "../core/rows/routing-rows.ts";
import type { Key } from "../core/rows/table.ts";

/** Where a tenant is, under which epoch, as of a version of the routing. */
export type TenantRoute = { tenant: string; shard: string; epoch: number; version: number };

/** The routing of the workspace; null before somebody set one. */
export function currentRouting(rows: Rows): RoutingRow | null {
  return rows.routing.get(ROUTING_ID);
}

/** Where a tenant is, by a route of its own or by default; null when it is nowhere. */
export function routeOf(rows: Rows, tenant: string): TenantRoute | null {
  const routing = currentRouting(rows);
  if (routing === null) return null;
  const { version, default_shard, default_epoch } = routing;
  const own = rows.routes.get(tenant);
  if (own !== null) return { tenant, shard: own.shard, epoch: own.epoch, version };
  if (default_shard === null) return null;
  return { tenant, shard: default_shard, epoch: default_epoch, version };
}

/** Where tenants are, in their order, with one load for all of them. */
export function routesOf(rows: Rows, tenants: readonly string[]): (TenantRoute | null)[] {
  rows.routes.need(tenants.map((tenant): Key => [tenant]));
  return tenants.map((tenant) => routeOf(rows, tenant));
}
