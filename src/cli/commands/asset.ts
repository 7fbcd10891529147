import type { Command } from "commander";
import type { AssetDocument } from "../../work/asset/api.ts";
import { act, type Cli } from "../cli.ts";
import { relativeTime, integerOption } from "../base/options.ts";
import { given } from "../base/omit-undefined.ts";
import { morePagesText, type PageOptions, withApi } from "../base/api.ts";
import { layoutFields, layoutTable, print } from "../base/terminal.ts";

/** Adds the commands about assets. */
export function addAssetCommands(program: Command, cli: Cli): void {
  const asset = program.command("asset").description("look at published assets");
  asset
    .command("list")
    .description("list assets by key")
    .addOption(integerOption("--limit <n>", "how many (default: 50)", 1, 200))
    .option("--cursor <text>", "where the page before ended")
    .action(
      act(async ({ limit, cursor, ...options }: PageOptions) => {
        await withApi(cli, options, "rows", async ({ client }) => {
          const page = await client.call("listAssets", { query: given({ limit, cursor }) });
          print(cli.terminal, page, () => listText(page, cli.terminal.now()));
        });
      }),
    );
  asset
    .command("show")
    .description("show an asset")
    .argument("<asset>", "the asset's key")
    .action(
      act(async (options: object, asset_key: string) => {
        await withApi(cli, options, "rows", async ({ client }) => {
          const document = await client.call("getAsset", { params: { asset_key } });
          print(cli.terminal, document, () => showText(document, cli.terminal.now()));
        });
      }),
    );
}

function listText(
  page: { items: readonly AssetDocument[]; next_cursor: string | null },
  now: number,
): string {
  if (page.items.length === 0) {
    return "No assets are published. `pawl deploy` and `pawl start` publish those of the project.";
  }
  const table = layoutTable(
    [
      { heading: "ASSET" },
      { heading: "PARTITIONS" },
      { heading: "COUNT", align: "right" },
      { heading: "UPSTREAM" },
      { heading: "PUBLISHED" },
    ],
    page.items.map((asset) => [
      asset.asset_key,
      asset.spec.partitions?.type ?? "none",
      asset.partition_count === null ? "-" : String(asset.partition_count),
      asset.spec.upstream.map(({ asset_key }) => asset_key).join(", ") || "-",
      relativeTime(asset.published_at, now),
    ]),
  );
  return table + morePagesText(page.next_cursor);
}

function showText(asset: AssetDocument, now: number): string {
  const { spec } = asset;
  const attempts = spec.retry.max_attempts === null ? "without end" : `${spec.retry.max_attempts}`;
  return layoutFields([
    ["asset", asset.asset_key],
    ...(spec.description === undefined
      ? []
      : [["description", spec.description] as [string, string]]),
    ["partitions", spec.partitions === null ? "none" : JSON.stringify(spec.partitions)],
    ["count", asset.partition_count === null ? "-" : String(asset.partition_count)],
    ["upstream", spec.upstream.map(({ asset_key }) => asset_key).join(", ") || "none"],
    ["attempts", attempts],
    ["batch", spec.batch ? "yes" : "no"],
    ["pool", spec.pool ?? "none"],
    ["code version", asset.code_version ?? "none"],
    ["published", `${relativeTime(asset.published_at, now)} (version ${asset.definition_version})`],
  ]);
}
