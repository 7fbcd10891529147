import { z } from "zod";
import { ShardName, TenantName } from "../shard/spec.ts";

/** Why the routing changed. */
export const RoutingCause = z.discriminatedUnion("type", [
  z.object({ type: z.literal("manual") }),
  /** The commit record of a cutover: one for each split and direction. */
  z.object({
    type: z.literal("split"),
    split_id: z.string(),
    direction: z.enum(["forward", "back"]),
  }),
]);

/** The routing has a new version; a tenant that it names has this version as its epoch from now on. */
export const RoutingChanged = {
  /** Grows by 1. */
  version: z.int().positive(),
  /** Where tenants are that have no route of their own; absent when that stays. */
  default_shard: ShardName.optional(),
  routes: z.array(z.object({ tenant: TenantName, shard: ShardName })).max(10_000),
  cause: RoutingCause,
  reason: z.string().max(2_000).nullable(),
  changed_by: z.string(),
};
