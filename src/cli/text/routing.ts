import type {
  RouteDocument,
  RoutingDocument,
  RoutingVersionDocument,
} from "../../work/routing/api.ts";
import { relativeTime } from "../base/options.ts";
import { morePagesText } from "../base/api.ts";
import { shortId, layoutFields, layoutTable, type Terminal } from "../base/terminal.ts";
import { countText } from "./sync.ts";

type Page<Item> = { items: readonly Item[]; next_cursor: string | null };

/** The tenants that a version moved and that are named. */
const NAMED_MAX = 3;

/** The routing, and the first routes of its own. */
export function routingText(
  terminal: Terminal,
  routing: RoutingDocument,
  routes: Page<RouteDocument>,
): string {
  if (routing.version === 0) {
    return "Nobody has set a routing; `pawl routing set --default <shard>` begins with one.";
  }
  const { version, default_shard, default_epoch, tenants, shards } = routing;
  const counts = shards.map(({ shard, tenants: count }) => `${countText(count)} on ${shard}`);
  const fields: [string, string][] = [
    ["version", `${version} (${relativeTime(routing.updated_at, terminal.now())})`],
    ["default", default_shard === null ? "none" : `${default_shard}, epoch ${default_epoch}`],
    ["tenants", `${countText(tenants)} with a route${tenants > 0 ? `: ${counts.join(", ")}` : ""}`],
  ];
  if (routes.items.length === 0) return layoutFields(fields);
  return `${layoutFields(fields)}\n\n${routesText(terminal, routes)}`;
}

function routesText(terminal: Terminal, page: Page<RouteDocument>): string {
  const table = layoutTable(
    [
      { heading: "TENANT" },
      { heading: "SHARD" },
      { heading: "EPOCH", align: "right" },
      { heading: "SINCE" },
    ],
    page.items.map(({ tenant, shard, epoch, updated_at }) => [
      tenant,
      shard,
      String(epoch),
      relativeTime(updated_at, terminal.now()),
    ]),
  );
  return table + morePagesText(page.next_cursor);
}

/** A page of the routing's history. */
export function historyText(terminal: Terminal, page: Page<RoutingVersionDocument>): string {
  if (page.items.length === 0) return "Nobody has set a routing yet.";
  const table = layoutTable(
    [
      { heading: "VERSION", align: "right" },
      { heading: "WHEN" },
      { heading: "CAUSE" },
      { heading: "BY" },
      { heading: "CHANGE" },
      { heading: "REASON" },
    ],
    page.items.map((version) => [
      String(version.version),
      relativeTime(version.at, terminal.now()),
      causeText(version),
      version.changed_by,
      changeText(version),
      version.reason ?? "-",
    ]),
  );
  return table + morePagesText(page.next_cursor);
}

function causeText({ cause }: RoutingVersionDocument): string {
  if (cause.type === "manual") return "by hand";
  const what = cause.direction === "forward" ? "cutover" : "rollback";
  return `${what} of split ${shortId(cause.split_id)}`;
}

function changeText({ default_shard, routes }: RoutingVersionDocument): string {
  const named = routes
    .slice(0, NAMED_MAX)
    .map(({ tenant, shard, from }) => `${tenant}: ${from ?? "default"} → ${shard}`);
  const rest = routes.length - named.length;
  const parts = [
    ...(default_shard === null ? [] : [`default → ${default_shard}`]),
    ...named,
    ...(rest > 0 ? [`and ${countText(rest)} more`] : []),
  ];
  return parts.join(", ") || "-";
}
