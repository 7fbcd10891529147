import type { Command } from "commander";
import type { AssetDocument } from "../../work/asset/api.ts";
import type { Cli } from "../cli.ts";
import { PAGE, relativeTime } from "../base/options.ts";
import { addSubcommands, operation, type CommandSubject } from "../base/subcommands.ts";
import { layoutFields, layoutPage } from "../base/tables.ts";
import type { Terminal } from "../base/terminal.ts";

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
