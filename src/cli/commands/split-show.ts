import type { Command } from "commander";
import { SplitPhaseField } from "../../core/events/split-events.ts";
import { act, type Cli, type GlobalOptions } from "../cli.ts";
import { given } from "../given.ts";
import { integerOption, listOption } from "../option-values.ts";
import type { PageOptions } from "../page-options.ts";
import { withApi } from "../reach-api.ts";
import { splitIdOf } from "../short-id.ts";
import { splitLines, splitsText, splitText } from "../split-text.ts";
import { print } from "../terminal.ts";
import { failureOfSplit, isEnded, waitForSplit } from "../wait-for-split.ts";

/** How a command says which split it is about. */
export const SPLIT_ARGUMENT = "the split's id, or its short form";

const PHASES = SplitPhaseField.options;
const NAMES = PHASES.map((phase) => phase.toUpperCase());

type ListOptions = PageOptions & { phase?: string[]; source?: string; target?: string };

/** Adds the commands that look at splits. */
export function addSplitShowCommands(split: Command, cli: Cli): void {
  split
    .command("list")
    .description("list splits, newest first")
    .addOption(listOption("--phase <phases>", "only these, such as tailing,reversible", NAMES))
    .option("--source <shard>", "only those away from this one")
    .option("--target <shard>", "only those to this one")
    .addOption(integerOption("--limit <n>", "how many (default: 50)", 1, 200))
    .option("--cursor <text>", "where the page before ended")
    .action(
      act(async (all: ListOptions & GlobalOptions) => {
        const { phase, source, target, limit, cursor, ...options } = all;
        const phases = phase?.join(",").toLowerCase();
        const query = given({ phase: phases, source, target, limit, cursor });
        await withApi(cli, options, "rows", async ({ client }) => {
          const page = await client.call("listSplits", { query });
          print(cli.terminal, page, () => splitsText(cli.terminal, page));
        });
      }),
    );
  split
    .command("show")
    .description("show a split with everything that is known of it, and its last steps")
    .argument("<split>", SPLIT_ARGUMENT)
    .action(
      act(async (options: GlobalOptions, text: string) => {
        await withApi(cli, options, "rows", async ({ client }) => {
          const params = { split: await splitIdOf(client, text) };
          const document = await client.call("getSplit", { params });
          const { items: steps } = await client.call("listSplitSteps", {
            params,
            query: { limit: 20 },
          });
          print(cli.terminal, { ...document, steps }, () =>
            splitText(cli.terminal, document, steps),
          );
        });
      }),
    );
  addStatus(split, cli);
  addWatch(split, cli);
}

function addStatus(split: Command, cli: Cli): void {
  split
    .command("status")
    .description("show how far a split is and what can be done next; without one, all under way")
    .argument("[split]", SPLIT_ARGUMENT)
    .action(
      act(async (options: GlobalOptions, text?: string) => {
        await withApi(cli, options, "rows", async ({ client }) => {
          if (text === undefined) {
            const query = { phase: PHASES.slice(0, -2).join(","), limit: 200 };
            const page = await client.call("listSplits", { query });
            print(cli.terminal, page, () => splitsText(cli.terminal, page));
            return;
          }
          const params = { split: await splitIdOf(client, text) };
          const document = await client.call("getSplit", { params });
          print(cli.terminal, document, () => splitLines(cli.terminal, document).join("\n"));
        });
      }),
    );
}

function addWatch(split: Command, cli: Cli): void {
  split
    .command("watch")
    .description("show a split as it goes on, until it ends or cannot go on by itself")
    .argument("<split>", SPLIT_ARGUMENT)
    .addOption(
      listOption("--until <phases>", "until it is in one of these, such as reversible", NAMES),
    )
    .action(
      act(async ({ until, ...options }: GlobalOptions & { until?: string[] }, text: string) => {
        await withApi(cli, options, "work", async (api) => {
          const id = await splitIdOf(api.client, text);
          const isThere: Parameters<typeof waitForSplit>[3] = (document) =>
            until === undefined ? isEnded(document) : until.includes(document.phase.toUpperCase());
          const document = await waitForSplit(cli, api, id, isThere);
          print(cli.terminal, document, () => splitLines(cli.terminal, document).join("\n"));
          const failure = failureOfSplit(document, isThere);
          if (failure !== null) throw failure;
        });
      }),
    );
}
