import type { Command } from "commander";
import type { Client } from "../../client/client.ts";
import type { SegmentDocument } from "../../work/sync/documents.ts";
import { PawlError } from "../../kernel/errors.ts";
import { targetKeyOf } from "../../work/sync/spec.ts";
import { act, type Cli, type GlobalOptions } from "../cli.ts";
import { given } from "../base/omit-undefined.ts";
import { integerOption, labelsOption, statesOption } from "../base/options.ts";
import { type PageOptions, withApi } from "../base/api.ts";
import { syncRefOf, print } from "../base/terminal.ts";
import { overviewText } from "../text/sync-overview.ts";
import {
  listedSegmentsText,
  quarantineText,
  segmentsText,
  syncsText,
  syncText,
} from "../text/sync.ts";
import { endText, failureOfSync, waitForSync } from "../wait/sync.ts";

/** How a command says which sync it is about. */
export const SYNC_ARGUMENT = "the sync as name@target, its id, or the short form of that";

/** Adds the commands that look at syncs. */
export function addSyncShowCommands(sync: Command, cli: Cli): void {
  addList(sync, cli);
  sync
    .command("show")
    .description("show a sync, its segments as a strip, and those in trouble")
    .argument("<sync>", SYNC_ARGUMENT)
    .action(
      act(async (options: GlobalOptions, text: string) => {
        await withApi(cli, options, "rows", async ({ client }) => {
          const params = { sync: await syncRefOf(client, text) };
          const document = await client.call("getSync", { params });
          const segments = await allSegments(client, document.sync_id);
          print(cli.terminal, { ...document, segments }, () =>
            syncText(cli.terminal, document, segments),
          );
        });
      }),
    );
  addSegments(sync, cli);
  addQuarantine(sync, cli);
  addOverview(sync, cli);
  sync
    .command("watch")
    .description("show a sync's progress until it is complete or has caught up with the head")
    .argument("<sync>", SYNC_ARGUMENT)
    .action(
      act(async (options: GlobalOptions, text: string) => {
        await withApi(cli, options, "work", async (api) => {
          const document = await waitForSync(cli, api, await syncRefOf(api.client, text));
          print(cli.terminal, document, () => endText(cli.terminal, document));
          const failure = failureOfSync(document);
          if (failure !== null) throw failure;
        });
      }),
    );
}

async function allSegments(client: Client, sync: string): Promise<SegmentDocument[]> {
  const segments: SegmentDocument[] = [];
  const each = client.each("listSegments", { params: { sync }, query: { limit: 200 } });
  for await (const segment of each) segments.push(segment);
  return segments;
}

type ListOptions = PageOptions & {
  name?: string;
  status?: string;
  source?: string;
  target?: Record<string, string>;
};

function addList(sync: Command, cli: Cli): void {
  sync
    .command("list")
    .description("list syncs by name and target")
    .option("--name <name>", "only the targets of this one")
    .addOption(statesOption("--status <states>", "only these, such as failed,paused or removed"))
    .option("--source <source>", "only those fetched from this")
    .addOption(labelsOption("--target <field=value>", "only those with this; may be repeated"))
    .addOption(integerOption("--limit <n>", "how many (default: 50)", 1, 200))
    .option("--cursor <text>", "where the page before ended")
    .action(
      act(async (all: ListOptions & GlobalOptions) => {
        const { name, status, source, target, limit, cursor, ...options } = all;
        const fields = target === undefined ? undefined : targetKeyOf(target);
        const query = given({ name, status, source, target: fields, limit, cursor });
        await withApi(cli, options, "rows", async ({ client }) => {
          const page = await client.call("listSyncs", { query });
          print(cli.terminal, page, () => syncsText(cli.terminal, page));
        });
      }),
    );
}

type SegmentsOptions = PageOptions & {
  status?: string;
  verification?: string;
  from?: number;
  to?: number;
  name?: string;
  source?: string;
  target?: Record<string, string>;
  network?: string;
};

function addSegments(sync: Command, cli: Cli): void {
  sync
    .command("segments")
    .description("list the segments of a sync by their blocks, or those of all syncs that match")
    .argument("[sync]", SYNC_ARGUMENT)
    .addOption(statesOption("--status <states>", "only these, such as failed,abandoned"))
    .option("--name <name>", "of all syncs: only those of this definition")
    .option("--source <source>", "of all syncs: only those of this source")
    .addOption(labelsOption("--target <field=value>", "of all syncs: only those with this"))
    .option("--network <network>", "of all syncs: only those whose target has this network")
    .addOption(statesOption("--verification <states>", "only those verified so, such as failed"))
    .addOption(integerOption("--from <block>", "only those with a block from here on", 0))
    .addOption(integerOption("--to <block>", "only those with a block up to here", 0))
    .addOption(integerOption("--limit <n>", "how many (default: 50)", 1, 200))
    .option("--cursor <text>", "where the page before ended")
    .action(
      act(async (all: SegmentsOptions & GlobalOptions, text?: string) => {
        const { status, verification, from, to, limit, cursor, ...rest } = all;
        const { name, source, target, network, ...options } = rest;
        const one = given({ verification, from_block: from, to_block: to });
        const fields = target === undefined ? undefined : targetKeyOf(target);
        const many = given({ name, source, target: fields, network });
        refuseMixed(text, one, many);
        await withApi(cli, options, "rows", async ({ client }) => {
          const paging = given({ status, limit, cursor });
          if (text === undefined) {
            const page = await client.call("listAllSegments", { query: { ...paging, ...many } });
            print(cli.terminal, page, () => listedSegmentsText(cli.terminal, page));
            return;
          }
          const query = { ...paging, ...one };
          const params = { sync: await syncRefOf(client, text) };
          const page = await client.call("listSegments", { params, query });
          print(cli.terminal, page, () => segmentsText(cli.terminal, page));
        });
      }),
    );
}

/** Options of one sync say nothing about all of them, and the other way round. */
function refuseMixed(sync: string | undefined, one: object, many: object): void {
  const [wrong] = Object.keys(sync === undefined ? one : many);
  if (wrong === undefined) return;
  const flag = `--${wrong.replace("_block", "")}`;
  throw new PawlError(
    "INPUT_INVALID",
    sync === undefined
      ? `${flag} is about the segments of one sync. Name it, or leave ${flag} out.`
      : `${flag} is about all syncs, and ${JSON.stringify(sync)} is one. Leave one of them out.`,
    { details: { option: flag } },
  );
}

function addQuarantine(sync: Command, cli: Cli): void {
  sync
    .command("quarantine")
    .description("list what was set aside because it cannot be fetched, of one sync or of all")
    .argument("[sync]", SYNC_ARGUMENT)
    .addOption(integerOption("--limit <n>", "how many (default: 50)", 1, 200))
    .option("--cursor <text>", "where the page before ended")
    .action(
      act(async ({ limit, cursor, ...options }: PageOptions & GlobalOptions, text?: string) => {
        const query = given({ limit, cursor });
        await withApi(cli, options, "rows", async ({ client }) => {
          const page =
            text === undefined
              ? await client.call("listQuarantine", { query })
              : await client.call("listSyncQuarantine", {
                  params: { sync: await syncRefOf(client, text) },
                  query,
                });
          print(cli.terminal, page, () => quarantineText(cli.terminal, page));
        });
      }),
    );
}

function addOverview(sync: Command, cli: Cli): void {
  sync
    .command("overview")
    .description("show all syncs together, those furthest behind, and their sources")
    .action(
      act(async (options: GlobalOptions) => {
        await withApi(cli, options, "rows", async ({ client }) => {
          const overview = await client.call("syncOverview");
          const { items: sources } = await client.call("listSyncSources");
          print(cli.terminal, { ...overview, sources }, () =>
            overviewText(cli.terminal, overview, sources),
          );
        });
      }),
    );
}
