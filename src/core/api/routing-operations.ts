import { z } from "zod";
import { Count } from "../events/fields.ts";
import { NamedTenant, ShardName, TenantName } from "../shard-spec.ts";
import {
  accepted,
  type Operation,
  pageOf,
  pageQuery,
  readQuery,
  Reason,
  DOCUMENT_BYTES_MAX,
} from "./operation.ts";
import {
  RouteDocument,
  RoutingDocument,
  RoutingVersionDocument,
  TenantRoute,
} from "./routing-documents.ts";

/** Where everything about the routing lives. */
export const ROUTING_PATH = "/api/v1/routing";

/** A change of the routing: only what it names is changed. */
export const ChangeRoutingBody = z
  .strictObject({
    /** Refused when the routing has another version by now; 0 for one that nobody has set. */
    expected_version: Count.optional(),
    /** Where tenants are that have no route of their own; as before when it is left out. */
    default_shard: ShardName.optional(),
    routes: z
      .array(z.strictObject({ tenant: NamedTenant, shard: ShardName }))
      .max(10_000)
      .default([]),
    reason: Reason,
  })
  .meta({ id: "ChangeRouting" });
export type ChangeRoutingBody = z.infer<typeof ChangeRoutingBody>;

/** What a change of the routing answers. */
export const RoutingTransition = z
  .strictObject({ ...accepted, version: Count })
  .meta({ id: "RoutingTransition" });
export type RoutingTransition = z.infer<typeof RoutingTransition>;

/** What the API can do with the routing. */
export const ROUTING_OPERATIONS = {
  getRouting: {
    method: "GET",
    path: ROUTING_PATH,
    summary: "Shows the version of the routing, the default, and how many tenants are where",
    verb: "read",
    query: z.strictObject(readQuery),
    answer: RoutingDocument,
    status: 200,
  },
  changeRouting: {
    method: "PUT",
    path: ROUTING_PATH,
    summary: "Says on which shard tenants are, and everybody else; what is not named stays",
    verb: "write",
    body: ChangeRoutingBody,
    bodyBytesMax: DOCUMENT_BYTES_MAX,
    answer: RoutingTransition,
    status: 202,
  },
  listRoutes: {
    method: "GET",
    path: `${ROUTING_PATH}/routes`,
    summary: "Lists the tenants that have a route of their own, in order of their names",
    verb: "read",
    query: z.strictObject({ ...pageQuery, shard: ShardName.optional() }),
    answer: pageOf(RouteDocument),
    status: 200,
  },
  getRoute: {
    method: "GET",
    // In the query, as a path can have no part that is "." or "..", and a tenant may be called so.
    path: `${ROUTING_PATH}/route`,
    summary: "Shows on which shard a tenant is, by its own route or by default",
    verb: "read",
    query: z.strictObject({ ...readQuery, tenant: TenantName }),
    answer: TenantRoute,
    status: 200,
  },
  listRoutingVersions: {
    method: "GET",
    path: `${ROUTING_PATH}/history`,
    summary: "Lists the versions of the routing, newest first",
    verb: "read",
    query: z.strictObject(pageQuery),
    answer: pageOf(RoutingVersionDocument),
    status: 200,
  },
} as const satisfies Record<string, Operation>;
