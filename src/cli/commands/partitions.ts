import type { Command } from "commander";
import type { PartitionDocument, PartitionSummary } from "../../work/asset/api.ts";
import type { Client } from "../../client/client.ts";
import { act, type Cli } from "../cli.ts";
import { relativeTime, instantOption, integerOption, statesOption } from "../base/options.ts";
import { given } from "../base/omit-undefined.ts";
import { morePagesText, type PageOptions, withApi } from "../base/api.ts";
import { keysOf } from "../base/selector-flags.ts";
import {
  shortId,
  layoutFields,
  layoutTable,
  paintState,
  print,
  type Terminal,
} from "../base/terminal.ts";
import { staleCount, staleReasonsText } from "../text/trigger.ts";

/** Adds the commands about partitions. */
export function addPartitionsCommands(program: Command, cli: Cli): void {
  const partitions = program.command("partitions").description("look at partitions of assets");
  partitions
    .command("list")
    .description("list the partitions of an asset, or those of all assets that were tried")
    .argument("[asset]", "the asset's key")
    .addOption(statesOption("--status <states>", "only these, such as materialized,stale"))
    .addOption(instantOption("--since <time>", "only those tried since", cli.terminal.now))
    .addOption(instantOption("--until <time>", "only those tried before", cli.terminal.now))
    .addOption(integerOption("--limit <n>", "how many (default: 50)", 1, 200))
    .option("--cursor <text>", "where the page before ended")
    .action(
      act(async (all: ListOptions, asset_key?: string) => {
        const { limit, cursor, status, since, until, ...options } = all;
        const query = given({ limit, cursor, status, since, until });
        await withApi(cli, options, "rows", async ({ client }) => {
          const page =
            asset_key === undefined
              ? await client.call("listPartitions", { query })
              : await client.call("listAssetPartitions", { params: { asset_key }, query });
          print(cli.terminal, page, () => listText(cli.terminal, page));
        });
      }),
    );
  addStale(partitions, cli);
  partitions
    .command("summary")
    .description("count the partitions of an asset by condition")
    .argument("<asset>", "the asset's key")
    .action(
      act(async (options: object, asset_key: string) => {
        await withApi(cli, options, "rows", async ({ client }) => {
          const summary = await client.call("summarizePartitions", { params: { asset_key } });
          print(cli.terminal, summary, () => summaryText(summary));
        });
      }),
    );
  addAdd(partitions, cli);
}

type ListOptions = PageOptions & { status?: string; since?: string; until?: string };

function addStale(partitions: Command, cli: Cli): void {
  partitions
    .command("stale")
    .description("list stale partitions and why they are, of an asset or of all")
    .argument("[asset]", "the asset's key")
    .addOption(statesOption("--reason <reasons>", "only these, such as code-changed"))
    .addOption(integerOption("--limit <n>", "how many (default: 50)", 1, 200))
    .option("--cursor <text>", "where the page before ended")
    .action(
      act(async (all: PageOptions & { reason?: string }, asset?: string) => {
        const { limit, cursor, reason, ...options } = all;
        const query = given({ limit, cursor, reason, asset });
        await withApi(cli, options, "rows", async ({ client }) => {
          const page = await stalePage(client, query);
          print(cli.terminal, page, () => staleText(cli.terminal, page));
        });
      }),
    );
}

/** Pages of the API that one list of the command may need. */
const PAGES_MAX = 50;

type StaleQuery = { limit?: number; cursor?: string; reason?: string; asset?: string };
type StalePage = Awaited<ReturnType<typeof oneStalePage>>;

function oneStalePage(client: Client, query: StaleQuery) {
  return client.call("listStalePartitions", { query });
}

/** A page of the API may be short, or empty, and have a next: this goes on until it is full. */
async function stalePage(client: Client, query: StaleQuery): Promise<StalePage> {
  const limit = query.limit ?? 50;
  let page = await oneStalePage(client, query);
  const { items } = page;
  for (let pages = 1; pages < PAGES_MAX; pages++) {
    const { next_cursor: cursor } = page;
    if (cursor === null || items.length >= limit) break;
    page = await oneStalePage(client, { ...query, cursor, limit: limit - items.length });
    items.push(...page.items);
  }
  return { ...page, items };
}

function staleText(terminal: Terminal, page: StalePage): string {
  const more = morePagesText(page.next_cursor);
  if (page.items.length === 0) {
    const none = page.next_cursor === null ? "Nothing is stale." : "Nothing so far is stale.";
    return none + more;
  }
  const now = terminal.now();
  const isFailed = page.items.some(({ last_attempt_error }) => last_attempt_error !== null);
  const table = layoutTable(
    [
      { heading: "ASSET" },
      { heading: "PARTITION" },
      { heading: "REASON" },
      { heading: "STALE SINCE" },
      { heading: "MATERIALIZED" },
      ...(isFailed ? [{ heading: "ERROR" }] : []),
    ],
    page.items.map((partition) => [
      partition.asset_key,
      partition.partition_key === "" ? "-" : partition.partition_key,
      partition.stale_reason ?? "-",
      relativeTime(partition.stale_since, now),
      relativeTime(partition.last_materialization_at, now),
      ...(isFailed ? [partition.last_attempt_error?.message ?? ""] : []),
    ]),
  );
  return table + more;
}

type AddOptions = { dimension?: string; requestId?: string };

function addAdd(partitions: Command, cli: Cli): void {
  partitions
    .command("add")
    .description("add keys to an asset with dynamic partitions")
    .argument("<asset>", "the asset's key")
    .argument("<key...>", "the new keys")
    .option("--dimension <name>", "which dimension, where the asset has several")
    .option("--request-id <text>", "a name for the request; the same name never adds twice")
    .action(
      act(
        async (
          { dimension, requestId, ...options }: AddOptions,
          asset_key: string,
          keys: string[],
        ) => {
          await withApi(cli, options, "definitions", async ({ client }) => {
            const added = await client.call("addPartitionKeys", {
              params: { asset_key },
              body: given({ keys: keys.flatMap(keysOf), dimension }),
              idempotencyKey: requestId,
            });
            print(cli.terminal, added, () => {
              return `Added ${added.added} keys; ${added.definition} has ${added.count} now.`;
            });
          });
        },
      ),
    );
}

function listText(
  terminal: Terminal,
  page: { items: readonly PartitionDocument[]; next_cursor: string | null },
): string {
  const more = morePagesText(page.next_cursor);
  if (page.items.length === 0) return `There are no such partitions.${more}`;
  const now = terminal.now();
  const isFailed = page.items.some(({ last_attempt_error }) => last_attempt_error !== null);
  const table = layoutTable(
    [
      { heading: "ASSET" },
      { heading: "PARTITION" },
      { heading: "STATUS" },
      { heading: "MATERIALIZED" },
      { heading: "LAST ATTEMPT" },
      { heading: "RUN" },
      ...(isFailed ? [{ heading: "ERROR" }] : []),
    ],
    page.items.map((partition) => [
      partition.asset_key,
      partition.partition_key,
      paintState(terminal, partition.status),
      relativeTime(partition.last_materialization_at, now),
      partition.last_attempt_outcome === null
        ? "-"
        : `${partition.last_attempt_outcome} ${relativeTime(partition.last_attempt_at, now)}`,
      partition.last_attempt_run_id === null ? "-" : shortId(partition.last_attempt_run_id),
      ...(isFailed ? [partition.last_attempt_error?.message ?? ""] : []),
    ]),
  );
  return table + more;
}

function summaryText(summary: PartitionSummary): string {
  const fields: [string, number][] = [
    ["total", summary.total],
    ["materialized", summary.materialized],
    ["of which being remade", summary.being_remade],
    ["last attempt failed", summary.materialized_last_attempt_failed],
    ["in progress", summary.in_progress - summary.being_remade],
    ["failed", summary.failed],
    ["never materialized", summary.never_materialized],
  ];
  const width = Math.max(...fields.map(([, count]) => String(count).length));
  return layoutFields([
    ["asset", summary.asset_key],
    ...fields.map(([name, count]) => [name, String(count).padStart(width)] as [string, string]),
    ["stale", summaryOfStale(summary)],
  ]);
}

function summaryOfStale(summary: PartitionSummary): string {
  const { stale_reasons: reasons, stale_complete, failed } = summary;
  const count = staleCount(reasons);
  const text = staleReasonsText(reasons, failed);
  if (stale_complete) return count === 0 ? "none" : `${count}: ${text}`;
  const found = count === 0 ? "" : ` at least ${count}: ${text};`;
  return `${found} too many partitions to look at all; \`pawl partitions stale\` does`.trim();
}
