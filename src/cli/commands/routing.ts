import type { Command } from "commander";
import { PawlError } from "../../kernel/errors.ts";
import type {
  RouteDocument,
  RoutingDocument,
  RoutingVersionDocument,
} from "../../work/routing/api.ts";
import type { Cli } from "../cli.ts";
import { option, PAGE, REASON, relativeTime } from "../base/options.ts";
import { shortId } from "../base/api.ts";
import {
  addSubcommands,
  messageText,
  operation,
  outcomeOf,
  subcommand,
} from "../base/subcommands.ts";
import { countText, layoutFields, layoutPage, type Page, type Terminal } from "../base/terminal.ts";

const ROUTING = {
  show: subcommand({
    description: "show the version, the default, and the tenants with a route of their own",
    flags: { shard: option.text("--shard <shard>", "only the tenants of this one"), ...PAGE },
    async run({ terminal, client, flags: query }) {
      const document = await client.call("getRouting");
      const routes = await client.call("listRoutes", { query });
      return outcomeOf({ ...document, routes }, () => routingText(terminal, document, routes));
    },
  }),
  set: operation("changeRouting", {
    description: "say on which shard tenants are; it moves no rows, see `pawl split` for that",
    argument: ["[routes...]", "routes such as acme=shard-a"],
    flags: {
      default_shard: option.text("--default <shard>", "where everybody without a route is"),
      reason: REASON,
      // A routing that nobody has set has the version 0.
      expected_version: option.version(0),
    },
    need: "definitions",
    fields: ({ argument, flags }) => ({ routes: argument.map(routeOf), ...flags }),
    text: messageText,
  }),
  route: subcommand({
    description: "show on which shard a tenant is, by its own route or by default",
    argument: ["<tenant>", "the tenant"],
    async run({ client, argument: tenant }) {
      const route = await client.call("getRoute", { query: { tenant } });
      const { shard, epoch, version } = route;
      return outcomeOf(
        route,
        () => `${tenant} is on ${shard} (epoch ${epoch}; the routing is at version ${version}).`,
      );
    },
  }),
  history: operation("listRoutingVersions", {
    description: "list the versions of the routing, newest first",
    flags: PAGE,
    text: historyText,
  }),
};

/** Adds the commands about which tenant is on which shard. */
export function addRoutingCommands(program: Command, cli: Cli): void {
  const routing = program.command("routing").description("which tenant is on which shard");
  addSubcommands(routing, cli, ROUTING);
}

/** A tenant may hold any letters, so the last `=` parts it from the shard, which may not. */
function routeOf(text: string): { tenant: string; shard: string } {
  const at = text.lastIndexOf("=");
  const [tenant, shard] = [text.slice(0, at), text.slice(at + 1)];
  if (at > 0 && shard !== "") return { tenant, shard };
  throw new PawlError(
    "INPUT_INVALID",
    `Expected a route such as acme=shard-a, got ${JSON.stringify(text)}.`,
    { details: { route: text } },
  );
}

/** The tenants that a version moved and that are named. */
const NAMED_MAX = 3;

/** The routing, and the first routes of its own. */
function routingText(
  terminal: Terminal,
  routing: RoutingDocument,
  routes: Page<RouteDocument>,
): string {
  if (routing.version === 0) {
    return "No routing set. `pawl routing set --default <shard>` sets one.";
  }
  const { version, default_shard, default_epoch, tenants, shards } = routing;
  const counts = shards.map(({ shard, tenants: count }) => `${countText(count)} on ${shard}`);
  const fields = layoutFields([
    ["version", `${version} (${relativeTime(routing.updated_at, terminal.now())})`],
    ["default", default_shard === null ? "none" : `${default_shard}, epoch ${default_epoch}`],
    ["tenants", `${countText(tenants)} with a route${tenants > 0 ? `: ${counts.join(", ")}` : ""}`],
  ]);
  if (routes.items.length === 0) return fields;
  return `${fields}\n\n${routesText(terminal, routes)}`;
}

function routesText(terminal: Terminal, page: Page<RouteDocument>): string {
  return layoutPage(page, "", [
    ["TENANT", ({ tenant }) => tenant],
    ["SHARD", ({ shard }) => shard],
    ["EPOCH", ({ epoch }) => String(epoch), "right"],
    ["SINCE", ({ updated_at }) => relativeTime(updated_at, terminal.now())],
  ]);
}

/** A page of the routing's history. */
function historyText(terminal: Terminal, page: Page<RoutingVersionDocument>): string {
  return layoutPage(page, "No routing set.", [
    ["VERSION", ({ version }) => String(version), "right"],
    ["WHEN", ({ at }) => relativeTime(at, terminal.now())],
    ["CAUSE", causeText],
    ["BY", ({ changed_by }) => changed_by],
    ["CHANGE", changeText],
    ["REASON", ({ reason }) => reason ?? "-"],
  ]);
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
