import type { Client } from "../../client/client.ts";
import { PawlError } from "../../kernel/errors.ts";
import { isDocument, numberText } from "../../kernel/metadata-value.ts";
import type { AssetNumbers, SaidMetadata } from "../../work/asset/metadata-api.ts";
import { shortId } from "../base/api.ts";
import { omitUndefined, option, PAGE, relativeTime } from "../base/options.ts";
import { type CommandSubject, outcomeOf, subcommand } from "../base/subcommands.ts";
import {
  type Column,
  type Field,
  layoutPage,
  layoutTable,
  type Terminal,
} from "../base/terminal.ts";
import { metadataFields } from "../text/run.ts";

const NO_METADATA = "No materialization of it carried metadata.";

/** `pawl partitions metadata`: what a partition said over time, or the numbers of an asset's partitions. */
export function metadataCommand(about: CommandSubject) {
  return subcommand({
    description: "list what a partition said of itself over time, or the numbers of all partitions",
    about,
    argument: ["[key]", "the partition's key; the last partitions without one"],
    flags: {
      name: option.text("--name <name>", "only this fact, such as rows"),
      ...PAGE,
    },
    async run({ terminal, client, ref: asset_key, argument: partition, flags }) {
      const { name, ...page } = flags;
      const isWhole = partition === undefined && (await hasNoPartitions(client, asset_key));
      if (partition !== undefined || isWhole) {
        const query = { ...page, ...omitUndefined({ partition }) };
        const params = { asset_key };
        const answer = await client.call("listPartitionMetadata", { params, query });
        const said = { ...answer, items: answer.items.flatMap((item) => only(item, name)) };
        return outcomeOf(said, () =>
          layoutPage(said, NO_METADATA, historyColumns(said.items, terminal)),
        );
      }
      if (page.cursor !== undefined) throw cursorWithoutKey();
      const query = omitUndefined({ limit: page.limit, names: name });
      const numbers = await client.call("listPartitionNumbers", { params: { asset_key }, query });
      return outcomeOf(numbers, () => numbersText(terminal, numbers));
    },
  });
}

function cursorWithoutKey(): PawlError {
  return new PawlError("INPUT_INVALID", "--cursor goes with the key of a partition.");
}

async function hasNoPartitions(client: Client, asset_key: string): Promise<boolean> {
  const { partition_count } = await client.call("getAsset", { params: { asset_key } });
  return partition_count === null;
}

/** The entry with one fact only; nothing where it does not have that. */
function only(said: SaidMetadata, name: string | undefined): SaidMetadata[] {
  if (name === undefined) return [said];
  const { metadata } = said;
  const fact = isDocument(metadata) && Object.hasOwn(metadata, name) ? metadata[name] : undefined;
  return fact === undefined ? [] : [{ ...said, metadata: { [name]: fact } }];
}

function historyColumns(
  items: readonly SaidMetadata[],
  terminal: Terminal,
): Column<SaidMetadata>[] {
  const rows = new Map(items.map((item) => [item, new Map(factsOf(item))]));
  const names = new Set([...rows.values()].flatMap((facts) => [...facts.keys()]));
  return [
    ["MATERIALIZED", ({ materialized_at }) => relativeTime(materialized_at, terminal.now())],
    ["BY", byWhom],
    ["CODE", ({ code_version }) => code_version ?? "-"],
    ...[...names].map(
      (name): Column<SaidMetadata> => [name, (item) => rows.get(item)?.get(name) ?? "-"],
    ),
  ];
}

function factsOf({ metadata }: SaidMetadata): [string, string][] {
  const fields: Field[] = isDocument(metadata)
    ? metadataFields(metadata)
    : [["metadata", JSON.stringify(metadata)]];
  return fields.map(([name, value]) => [name, (value ?? "-").trim()]);
}

function byWhom({ run_id, reported_by }: SaidMetadata): string {
  return reported_by === null ? shortId(run_id ?? "-") : `reported by ${reported_by}`;
}

function numbersText(terminal: Terminal, { items, names, from, through, total }: AssetNumbers) {
  if (items.length === 0) {
    return `None of ${through - from} partitions has numbers in its metadata (${total} in all).`;
  }
  return layoutTable(items, [
    ["PARTITION", ({ partition_key }) => partition_key],
    ["MATERIALIZED", (each) => relativeTime(each.materialized_at, terminal.now())],
    ...names.map(
      ({ name, unit }): Column<AssetNumbers["items"][number]> => [
        name,
        ({ numbers }) => {
          const value = numbers[name];
          return value === undefined ? "-" : numberText(value, unit ?? undefined);
        },
        "right",
      ],
    ),
  ]);
}
