import { z } from "zod";
import { Count, InstantText } from "../envelope.ts";
import { RoutingCause } from "./events.ts";
import type { RoutingVersionRow } from "./rows.ts";
import { NamedTenant, ShardName, TenantName } from "../shard/spec.ts";
import {
  accepted,
  type Operation,
  pageOf,
  pageQuery,
  readQuery,
  Reason,
  DOCUMENT_BYTES_MAX,
} from "../operation.ts";

/** The routing as a whole: its version, where everybody else is, and how many tenants are where. */
export const RoutingDocument = z
  .strictObject({
    /** Grows by 1 with each change; 0 while nobody has set anything. */
    version: Count,
    /** Where tenants are that have no route of their own; null when they are nowhere. */
    default_shard: z.string().nullable(),
    /** The version that set it: the epoch of tenants without a route. */
    default_epoch: Count,
    /** Tenants with a route of their own, and how many of them are on which shard. */
    tenants: Count,
    shards: z.array(z.strictObject({ shard: z.string(), tenants: Count })),
    updated_at: InstantText.nullable(),
    pos: Count,
  })
  .meta({ id: "Routing" });
export type RoutingDocument = z.infer<typeof RoutingDocument>;

/** Where one tenant is, by a route of its own or by default. */
export const TenantRoute = z
  .strictObject({
    tenant: z.string(),
    shard: z.string(),
    /** The version of the routing that moved the tenant last. */
    epoch: Count,
    /** Whether it has a route of its own, and is not just where everybody else is. */
    own: z.boolean(),
    /** The version of the routing now. */
    version: Count,
  })
  .meta({ id: "TenantRoute" });
export type TenantRoute = z.infer<typeof TenantRoute>;

/** A route in the list of them. */
export const RouteDocument = z
  .strictObject({
    tenant: z.string(),
    shard: z.string(),
    epoch: Count,
    updated_at: InstantText,
  })
  .meta({ id: "Route" });
export type RouteDocument = z.infer<typeof RouteDocument>;

const versionFields = {
  version: Count,
  /** Where everybody else is from this version on; null when that stayed. */
  default_shard: z.string().nullable(),
  /** What it moved; `from` is null where a tenant had no route. */
  routes: z.array(
    z.strictObject({ tenant: z.string(), shard: z.string(), from: z.string().nullable() }),
  ),
  cause: RoutingCause,
  reason: z.string().nullable(),
  changed_by: z.string(),
  at: InstantText,
} satisfies { [Field in keyof RoutingVersionRow]?: z.ZodType<RoutingVersionRow[Field]> };

/** The fields of a version's row that are shown as they are. */
export const ROUTING_VERSION_FIELDS = Object.keys(versionFields) as (keyof typeof versionFields)[];

/** One version of the routing: what it changed, why, and who did it. */
export const RoutingVersionDocument = z.strictObject(versionFields).meta({ id: "RoutingVersion" });
export type RoutingVersionDocument = z.infer<typeof RoutingVersionDocument>;

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
