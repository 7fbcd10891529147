import type { AnswerOf } from "../../../../src/work/operations.ts";
import { countText } from "../../parts/time-text.ts";
import { visibleText } from "../../parts/visible-text.ts";

/** A version of the routing, with what it changed. */
export type RoutingVersion = AnswerOf<"listRoutingVersions">["items"][number];

/** Changes that are told one by one. */
const TOLD_MAX = 3;

/** What a version changed, in a line. */
export function changeText({ default_shard, routes }: RoutingVersion, toldMax = TOLD_MAX): string {
  const parts = [
    ...(default_shard === null ? [] : [`default → ${default_shard}`]),
    ...routes
      .slice(0, toldMax)
      .map(({ tenant, shard, from }) => `${tenant}: ${from ?? "default"} → ${shard}`),
    ...(routes.length > toldMax ? [`${countText(routes.length - toldMax)} more`] : []),
  ];
  return visibleText(parts.join(", "));
}

/** A route as somebody writes it, or the line that is none. */
export type TypedRoutes =
  | { routes: { tenant: string; shard: string }[]; problem: null }
  | { routes: null; problem: string };

/** Reads lines such as `acme=west`; the last equals sign parts them, as tenants may have one. */
export function typedRoutes(text: string): TypedRoutes {
  const routes: { tenant: string; shard: string }[] = [];
  for (const [index, line] of text.split("\n").entries()) {
    const route = line.trim();
    if (route === "") continue;
    const at = route.lastIndexOf("=");
    if (at < 1 || at === route.length - 1) {
      return { routes: null, problem: `Line ${index + 1} must be a tenant, = and a shard.` };
    }
    routes.push({ tenant: route.slice(0, at).trim(), shard: route.slice(at + 1).trim() });
  }
  return { routes, problem: null };
}
