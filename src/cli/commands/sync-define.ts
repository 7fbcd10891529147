import type { Command } from "commander";
import { optionMissing } from "../changed-definition.ts";
import { act, type Cli, type GlobalOptions } from "../cli.ts";
import { given } from "../given.ts";
import { integerOption, labelsOption } from "../option-values.ts";
import { withApi } from "../reach-api.ts";
import { syncRefOf } from "../short-id.ts";
import { syncLabel } from "../sync-text.ts";
import { print } from "../terminal.ts";
import { versionOption } from "./schedule-define.ts";
import { SYNC_ARGUMENT } from "./sync-show.ts";

type AddOptions = GlobalOptions & {
  target?: Record<string, string>;
  from?: number;
  to?: number;
  maxParallel?: number;
  priority?: number;
  requestId?: string;
};

/** Adds the commands that add and remove targets of syncs. */
export function addSyncDefineCommands(sync: Command, cli: Cli): void {
  sync
    .command("add")
    .description("add a target to a sync that is defined in code")
    .argument("<name>", "the sync's name")
    .addOption(labelsOption("--target <field=value>", "a field of the target; may be repeated"))
    .addOption(integerOption("--from <block>", "the first block (default: the definition's)", 0))
    .addOption(integerOption("--to <block>", "the last block (default: the definition's)", 0))
    .addOption(integerOption("--max-parallel <n>", "segments at once", 1, 1_000))
    .addOption(integerOption("--priority <n>", "higher goes first", -100, 100))
    .option("--request-id <text>", "a name for the request; the same name never adds a second")
    .action(act((options: AddOptions, name: string) => add(cli, options, name)));
  sync
    .command("remove")
    .description("remove a target; what is stored stays, and so does the record")
    .argument("<sync>", SYNC_ARGUMENT)
    .addOption(versionOption())
    .action(
      act(async (all: GlobalOptions & { expectedStateVersion?: number }, text: string) => {
        const { expectedStateVersion, ...options } = all;
        await withApi(cli, options, "rows", async ({ client }) => {
          const removed = await client.call("removeSync", {
            params: { sync: await syncRefOf(client, text) },
            query: given({ expected_state_version: expectedStateVersion }),
          });
          print(cli.terminal, removed, () => removed.message);
        });
      }),
    );
}

async function add(cli: Cli, all: AddOptions, name: string): Promise<void> {
  const { target, from, to, maxParallel, priority, requestId, ...options } = all;
  if (target === undefined) throw optionMissing("--target", "fields such as network=mainnet");
  const range = { from_block: from, to_block: to };
  const body = { name, target, ...given({ ...range, max_parallel: maxParallel, priority }) };
  await withApi(cli, options, "definitions", async ({ client, isEmbedded }) => {
    const added = await client.call("addSync", { body, idempotencyKey: requestId });
    print(cli.terminal, added, () => {
      const idle = isEmbedded
        ? "\nNo server is running; it is synced while one does, see `pawl start`."
        : "";
      return `Added sync ${syncLabel(added)} (${added.sync_id}).${idle}`;
    });
  });
}
