import { z } from "zod";
import { Count, InstantText } from "../events/fields.ts";
import { RoutingCause } from "../events/routing-events.ts";
import type { RoutingVersionRow } from "../rows/routing-rows.ts";

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
