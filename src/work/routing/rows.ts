import type { z } from "zod";
import type { RoutingCause } from "./events.ts";
import type { Instant } from "../../kernel/instant.ts";
import { int, json, type RowIn, defineTable, text, textOf } from "../../kernel/table.ts";

/** The table of the routing policy. */
export const ROUTING = defineTable("routing", ["id"], {
  id: textOf<"routing">(),
  version: int,
  default_shard: textOf<string | null>(),
  /** The version that set it: the epoch of tenants without a route of their own. */
  default_epoch: int,
  updated_at: textOf<Instant>(),
  row_version: int,
});

/** The routing policy of the workspace. There is one, with the id `routing`, once somebody set it. */
export type RoutingRow = RowIn<typeof ROUTING>;

/** The table of routes. */
export const ROUTES = defineTable("routes", ["tenant"], {
  tenant: text,
  shard: text,
  epoch: int,
  updated_at: textOf<Instant>(),
  row_version: int,
});

/** Where a tenant is. Its epoch is the version of the routing that moved it last. */
export type RouteRow = RowIn<typeof ROUTES>;

/** The table of the routing's history. */
export const ROUTING_VERSIONS = defineTable("routing_versions", ["version"], {
  version: int,
  default_shard: textOf<string | null>(),
  /** What it moved; `from` is null where a tenant had no route. */
  routes: json<{ tenant: string; shard: string; from: string | null }[]>(),
  cause: json<z.infer<typeof RoutingCause>>(),
  reason: textOf<string | null>(),
  changed_by: text,
  at: textOf<Instant>(),
  row_version: int,
});

/** One version of the routing: what it changed, and why. */
export type RoutingVersionRow = RowIn<typeof ROUTING_VERSIONS>;
