import type { Command } from "commander";
import type { Client } from "../../client/client.ts";
import type { AssetDocument, PartitionDocument, PartitionSummary } from "../../work/asset/api.ts";
import { shortId } from "../base/api.ts";
import { keysOf, option, PAGE, relativeTime } from "../base/options.ts";
import {
  addSubcommands,
  type CommandSubject,
  operation,
  optional,
  outcomeOf,
  subcommand,
} from "../base/subcommands.ts";
import {
  type Column,
  type Field,
  layoutFields,
  layoutPage,
  type Page,
  paintState,
  type Terminal,
} from "../base/terminal.ts";
import type { Cli } from "../cli.ts";
import { staleCount, staleReasonsText } from "../text/backfill.ts";

/** An asset as commands name it. */
export const ASSET: CommandSubject = {
  noun: "asset",
  description: "the asset's key",
  param: "asset_key",
  find: (_client, key) => Promise.resolve(key),
};

const NO_ASSETS =
  "No assets are published. `pawl deploy` and `pawl start` publish those of the project.";

const ASSETS = {
  list: operation("listAssets", {
    description: "list assets by key",
    flags: PAGE,
    text: (terminal, page) =>
      layoutPage(page, NO_ASSETS, [
        ["ASSET", ({ asset_key }) => asset_key],
        ["PARTITIONS", ({ spec }) => spec.partitions?.type ?? "none"],
        ["COUNT", countOf, "right"],
        ["UPSTREAM", (asset) => upstreamOf(asset) || "-"],
        ["PUBLISHED", ({ published_at }) => relativeTime(published_at, terminal.now())],
      ]),
  }),
  show: operation("getAsset", {
    description: "show an asset",
    about: ASSET,
    text: assetText,
  }),
};

/** Adds the commands about assets. */
export function addAssetCommands(program: Command, cli: Cli): void {
  const asset = program.command("asset").description("look at published assets");
  addSubcommands(asset, cli, ASSETS);
}

function countOf({ partition_count }: AssetDocument): string {
  return partition_count === null ? "-" : String(partition_count);
}

function upstreamOf({ spec }: AssetDocument): string {
  return spec.upstream.map(({ asset_key }) => asset_key).join(", ");
}

function assetText(terminal: Terminal, asset: AssetDocument): string {
  const { spec, definition_version } = asset;
  const published = relativeTime(asset.published_at, terminal.now());
  const attempts = spec.retry.max_attempts === null ? "without end" : `${spec.retry.max_attempts}`;
  return layoutFields([
    ["asset", asset.asset_key],
    ["description", spec.description ?? null],
    ["partitions", spec.partitions === null ? "none" : JSON.stringify(spec.partitions)],
    ["count", countOf(asset)],
    ["upstream", upstreamOf(asset) || "none"],
    ["attempts", attempts],
    ["batch", spec.batch ? "yes" : "no"],
    ["pool", spec.pool ?? "none"],
    ["code version", asset.code_version ?? "none"],
    ["published", `${published} (version ${definition_version})`],
  ]);
}

const PARTITIONS = {
  list: subcommand({
    description: "list the partitions of an asset, or those of all assets that were tried",
    about: optional(ASSET),
    flags: {
      status: option.states("--status <states>", "only these, such as materialized,stale"),
      since: option.instant("--since <time>", "only those tried since"),
      until: option.instant("--until <time>", "only those tried before"),
      ...PAGE,
    },
    async run({ terminal, client, ref: asset_key, flags: query }) {
      const page =
        asset_key === undefined
          ? await client.call("listPartitions", { query })
          : await client.call("listAssetPartitions", { params: { asset_key }, query });
      return outcomeOf(page, () => partitionsText(terminal, page));
    },
  }),
  stale: subcommand({
    description: "list stale partitions and why they are, of an asset or of all",
    about: optional(ASSET),
    flags: {
      reason: option.states("--reason <reasons>", "only these, such as code-changed"),
      ...PAGE,
    },
    async run({ terminal, client, ref: asset, flags }) {
      const query = asset === undefined ? flags : { ...flags, asset };
      const page = await stalePage(client, query);
      return outcomeOf(page, () => staleText(terminal, page));
    },
  }),
  summary: operation("summarizePartitions", {
    description: "count the partitions of an asset by condition",
    about: ASSET,
    text: (_terminal, summary) => summaryText(summary),
  }),
  add: operation("addPartitionKeys", {
    description: "add keys to an asset with dynamic partitions",
    about: ASSET,
    argument: ["<key...>", "the new keys"],
    flags: {
      dimension: option.text("--dimension <name>", "which dimension, where the asset has several"),
      requestId: option.requestId("never adds twice"),
    },
    need: "definitions",
    fields: ({ argument, fields }) => ({ keys: argument.flatMap(keysOf), ...fields }),
    text: (_terminal, { added, definition, count }) =>
      `Added ${added} keys; ${definition} has ${count} now.`,
  }),
};

/** Adds the commands about partitions. */
export function addPartitionsCommands(program: Command, cli: Cli): void {
  const partitions = program.command("partitions").description("look at partitions of assets");
  addSubcommands(partitions, cli, PARTITIONS);
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

/** The column with what went wrong, where something did. */
function errorColumn(items: readonly PartitionDocument[]): Column<PartitionDocument>[] {
  const isFailed = items.some(({ last_attempt_error }) => last_attempt_error !== null);
  return isFailed ? [["ERROR", ({ last_attempt_error: error }) => error?.message ?? ""]] : [];
}

function staleText(terminal: Terminal, page: StalePage): string {
  const none = page.next_cursor === null ? "Nothing is stale." : "Nothing so far is stale.";
  return layoutPage(page, none, [
    ["ASSET", ({ asset_key }) => asset_key],
    ["PARTITION", ({ partition_key }) => partition_key || "-"],
    ["REASON", ({ stale_reason }) => stale_reason ?? "-"],
    ["STALE SINCE", ({ stale_since }) => relativeTime(stale_since, terminal.now())],
    ["MATERIALIZED", (each) => relativeTime(each.last_materialization_at, terminal.now())],
    ...errorColumn(page.items),
  ]);
}

function partitionsText(terminal: Terminal, page: Page<PartitionDocument>): string {
  const now = terminal.now();
  return layoutPage(page, "There are no such partitions.", [
    ["ASSET", ({ asset_key }) => asset_key],
    ["PARTITION", ({ partition_key }) => partition_key],
    ["STATUS", ({ status }) => paintState(terminal, status)],
    ["MATERIALIZED", (each) => relativeTime(each.last_materialization_at, now)],
    [
      "LAST ATTEMPT",
      ({ last_attempt_outcome: outcome, last_attempt_at }) =>
        outcome === null ? "-" : `${outcome} ${relativeTime(last_attempt_at, now)}`,
    ],
    ["RUN", ({ last_attempt_run_id: run }) => (run === null ? "-" : shortId(run))],
    ...errorColumn(page.items),
  ]);
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
    ...fields.map(([name, count]): Field => [name, String(count).padStart(width)]),
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
