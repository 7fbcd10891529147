import type { Command } from "commander";
import { PawlError } from "../../kernel/errors.ts";
import { act, type Cli, type GlobalOptions } from "../cli.ts";
import { expectOption, type PageOptions, withApi } from "../base/api.ts";
import { given } from "../base/omit-undefined.ts";
import { integerOption } from "../base/options.ts";
import { historyText, routingText } from "../text/routing.ts";
import { print } from "../base/terminal.ts";

type SetOptions = GlobalOptions & { default?: string; reason?: string; expect?: number };

/** Adds the commands about which tenant is on which shard. */
export function addRoutingCommands(program: Command, cli: Cli): void {
  const routing = program.command("routing").description("which tenant is on which shard");
  addShow(routing, cli);
  routing
    .command("set")
    .description("say on which shard tenants are; it moves no rows, see `pawl split` for that")
    .argument("[routes...]", "routes such as acme=shard-a")
    .option("--default <shard>", "where everybody without a route is")
    .option("--reason <text>", "why, for the record")
    .addOption(expectOption())
    .action(act((options: SetOptions, routes: string[]) => set(cli, options, routes)));
  routing
    .command("route")
    .description("show on which shard a tenant is, by its own route or by default")
    .argument("<tenant>", "the tenant")
    .action(
      act(async (options: GlobalOptions, tenant: string) => {
        await withApi(cli, options, "rows", async ({ client }) => {
          const route = await client.call("getRoute", { query: { tenant } });
          const { shard, epoch, version } = route;
          print(
            cli.terminal,
            route,
            () =>
              `${tenant} is on ${shard} (epoch ${epoch}; the routing is at version ${version}).`,
          );
        });
      }),
    );
  routing
    .command("history")
    .description("list the versions of the routing, newest first")
    .addOption(integerOption("--limit <n>", "how many (default: 50)", 1, 200))
    .option("--cursor <text>", "where the page before ended")
    .action(
      act(async ({ limit, cursor, ...options }: PageOptions & GlobalOptions) => {
        await withApi(cli, options, "rows", async ({ client }) => {
          const query = given({ limit, cursor });
          const page = await client.call("listRoutingVersions", { query });
          print(cli.terminal, page, () => historyText(cli.terminal, page));
        });
      }),
    );
}

function addShow(routing: Command, cli: Cli): void {
  routing
    .command("show")
    .description("show the version, the default, and the tenants with a route of their own")
    .option("--shard <shard>", "only the tenants of this one")
    .addOption(integerOption("--limit <n>", "how many (default: 50)", 1, 200))
    .option("--cursor <text>", "where the page before ended")
    .action(
      act(async (all: PageOptions & GlobalOptions & { shard?: string }) => {
        const { shard, limit, cursor, ...options } = all;
        await withApi(cli, options, "rows", async ({ client }) => {
          const document = await client.call("getRouting");
          const query = given({ shard, limit, cursor });
          const routes = await client.call("listRoutes", { query });
          print(cli.terminal, { ...document, routes }, () =>
            routingText(cli.terminal, document, routes),
          );
        });
      }),
    );
}

async function set(cli: Cli, all: SetOptions, texts: readonly string[]): Promise<void> {
  const { default: default_shard, reason, expect, ...options } = all;
  const routes = texts.map(routeOf);
  const body = { routes, ...given({ default_shard, reason, expected_version: expect }) };
  await withApi(cli, options, "definitions", async ({ client }) => {
    const changed = await client.call("changeRouting", { body });
    print(cli.terminal, changed, () => changed.message);
  });
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
