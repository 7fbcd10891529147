import type { Command } from "commander";
import type { Client } from "../../client/client.ts";
import type { EventDocument } from "../../work/server-api.ts";
import { PawlError } from "../../kernel/errors.ts";
import { act, type Cli, type GlobalOptions, projectOf } from "../cli.ts";
import { omitUndefined, option } from "../base/options.ts";
import { shortId, withApi } from "../base/api.ts";
import { type Column, layoutTable, paint, print, type Terminal } from "../base/terminal.ts";
import { BACKFILL_ARGUMENT } from "./backfill.ts";
import { RUN_ARGUMENT } from "./run.ts";
import { syncIdOf } from "./sync.ts";

type EventsOptions = GlobalOptions & {
  follow?: boolean;
  type?: string[];
  entity?: string;
  why?: string;
  asOf?: number;
  after?: number;
  limit?: number;
};

/** Adds the command that reads the ledger. */
export function addEventsCommand(program: Command, cli: Cli): void {
  program
    .command("events")
    .description("show the newest events of the ledger, oldest first")
    .option("--follow", "go on with events as they come")
    .addOption(option.repeated("--type <types>", "only these types, separated by commas"))
    .option(
      "--entity <id>",
      "only events about a backfill, a chunk, a run, a schedule, a tick, a sync or a segment",
    )
    .option(
      "--why <id>",
      "what led to where a backfill, a chunk, a run, a schedule, a tick, a sync, a segment or a " +
        "partition (asset@key) stands",
    )
    .addOption(option.integer("--as-of <pos>", "only events up to this position", 0))
    .addOption(option.integer("--after <pos>", "the oldest events after this position", 0))
    .addOption(option.integer("--limit <n>", "how many (default: 50)", 1, 200))
    .action(
      act(async (options: EventsOptions) => {
        await withApi(cli, options, "rows", async (api) => {
          const { client } = api;
          if (options.why !== undefined) {
            const entity = await entityOf(client, options.why);
            const chain = await client.call("explainEntity", { query: { entity } });
            print(cli.terminal, chain, () => eventsText(cli.terminal, chain.items));
          } else if (options.follow === true) {
            refuseDeafFollow(cli, options, api.isEmbedded);
            await follow(cli, client, options);
          } else {
            await list(cli, client, options);
          }
        });
      }),
    );
}

async function list(cli: Cli, client: Client, options: EventsOptions): Promise<void> {
  const { asOf, after, limit, type } = options;
  const entity = options.entity === undefined ? undefined : await entityOf(client, options.entity);
  const newestFirst = after === undefined;
  const query = omitUndefined({
    after,
    limit,
    entity,
    types: type?.join(","),
    before: asOf === undefined ? undefined : asOf + 1,
    descending: newestFirst ? ("true" as const) : undefined,
  });
  const page = await client.call("listEvents", { query });
  const items = newestFirst ? page.items.toReversed() : page.items;
  print(cli.terminal, { ...page, items }, () => {
    if (items.length === 0) return "There are no such events.";
    const more = page.next_after === null ? "" : `\n\nThere is more: --after ${page.next_after}`;
    return eventsText(cli.terminal, items) + more;
  });
}

async function follow(cli: Cli, client: Client, options: EventsOptions): Promise<void> {
  const { terminal, signal } = cli;
  const entity = options.entity === undefined ? undefined : await entityOf(client, options.entity);
  const after = options.after ?? (await client.call("listEvents", { query: { limit: 1 } })).pos;
  const types = options.type?.flatMap((text) => text.split(","));
  for await (const event of client.follow({ after, types, entity, signal })) {
    // A stream has no end, so machines get a document on each line.
    const cells = columnsOf(terminal).map(([, cell]) => cell(event));
    const line = terminal.json ? JSON.stringify(event) : cells.join("  ");
    terminal.stdout.write(`${line}\n`);
  }
}

/** Without a server, an embedded store tells nobody of what other processes append. */
function refuseDeafFollow(cli: Cli, options: GlobalOptions, isEmbedded: boolean): void {
  if (!isEmbedded || projectOf(cli, options).config.database_url !== null) return;
  throw new PawlError(
    "SERVER_UNREACHABLE",
    "--follow needs a server, and none runs for this project. Start one with `pawl start`.",
  );
}

async function entityOf(client: Client, text: string): Promise<string> {
  if (text.includes("@") || text.includes(":manual:")) return text;
  if (text.startsWith("run_")) return RUN_ARGUMENT.find(client, text);
  const [, backfill, index] = /^(.+):(\d+)$/.exec(text) ?? [];
  if (backfill !== undefined) return `${await longIdOf(client, backfill)}:${index}`;
  return longIdOf(client, text);
}

/** What has no short form of its own kind is left to the server. */
async function longIdOf(client: Client, text: string): Promise<string> {
  const id = await BACKFILL_ARGUMENT.find(client, text);
  return id === text ? syncIdOf(client, text) : id;
}

function eventsText(terminal: Terminal, events: readonly EventDocument[]): string {
  return layoutTable(events, columnsOf(terminal));
}

function columnsOf(terminal: Terminal): Column<EventDocument>[] {
  return [
    ["POS", ({ pos }) => String(pos), "right"],
    ["WHEN", ({ occurred_at }) => occurred_at.slice(0, 19).replace("T", " ")],
    ["TYPE", ({ type }) => paint(terminal, "cyan", type)],
    [
      "BY",
      ({ actor: { principal } }) =>
        principal.length > 24 ? `${principal.slice(0, 23)}…` : principal,
    ],
    ["WHAT", ({ data }) => whatText(data)],
  ];
}

const WHAT_LENGTH_MAX = 90;

/** Values that are for machines: hashes, and positions that the event's own says too. */
const UNTOLD = /(?:_pos|_hash|_fingerprint|_version|_count|chunk_id)$/;

/** What a client makes up for a request that was given no name. */
const MADE_UP = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{4}(?=[0-9a-f]{8}$)/;

/** An id as commands take it back; what was made up for a request is taken nowhere, and is cut. */
function idText(id: string): string {
  return shortId(id.replace(MADE_UP, ""));
}

/** The short values of an event's data: enough to recognise it. */
function whatText(data: EventDocument["data"]): string {
  if (typeof data !== "object" || data === null || Array.isArray(data)) return "";
  const parts: string[] = [];
  for (const [name, value] of Object.entries(data)) {
    if (value === null || value === false || typeof value === "object") continue;
    if (UNTOLD.test(name)) continue;
    const text = name.endsWith("_id") ? idText(String(value)) : String(value);
    const part = `${name.replace(/_(?:id|index)$/, "")}=${text}`;
    if (parts.join(" ").length + part.length <= WHAT_LENGTH_MAX) parts.push(part);
  }
  return parts.join(" ");
}
