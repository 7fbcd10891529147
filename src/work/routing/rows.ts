import type { z } from "zod";
import type { RoutingCause } from "./events.ts";
import type { Instant } from "../../kernel/instant.ts";
import type { Table } from "../../kernel/table.ts";

/** The routing policy of the workspace. There is one, with the id `routing`, once somebody set it. */
export type RoutingRow = {
  id: "routing";
  version: number;
  default_shard: string | null;
  /** The version that set it: the epoch of tenants without a route of their own. */
  default_epoch: number;
  updated_at: Instant;
  row_version: number;
};

/** The table of the routing policy. */
export const ROUTING: Table<RoutingRow> = {
  name: "routing",
  key: ["id"],
  cells: {
    id: "text",
    version: "int",
    default_shard: "text",
    default_epoch: "int",
    updated_at: "text",
    row_version: "int",
  },
};

/** Where a tenant is. Its epoch is the version of the routing that moved it last. */
export type RouteRow = {
  tenant: string;
  shard: string;
  epoch: number;
  updated_at: Instant;
  row_version: number;
};

/** The table of routes. */
export const ROUTES: Table<RouteRow> = {
  name: "routes",
  key: ["tenant"],
  cells: { tenant: "text", shard: "text", epoch: "int", updated_at: "text", row_version: "int" },
};

/** One version of the routing: what it changed, and why. */
export type RoutingVersionRow = {
  version: number;
  default_shard: string | null;
  /** What it moved; `from` is null where a tenant had no route. */
  routes: { tenant: string; shard: string; from: string | null }[];
  cause: z.infer<typeof RoutingCause>;
  reason: string | null;
  changed_by: string;
  at: Instant;
  row_version: number;
};

/** The table of the routing's history. */
export const ROUTING_VERSIONS: Table<RoutingVersionRow> = {
  name: "routing_versions",
  key: ["version"],
  cells: {
    version: "int",
    default_shard: "text",
    routes: "json",
    cause: "json",
    reason: "text",
    changed_by: "text",
    at: "text",
    row_version: "int",
  },
};
