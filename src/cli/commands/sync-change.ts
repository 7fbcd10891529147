import type { Command } from "commander";
import type { Client } from "../../client/client.ts";
import type { SyncTransition } from "../../core/api/sync-change-operations.ts";
import { PawlError } from "../../core/errors.ts";
import { act, type Cli, type GlobalOptions } from "../cli.ts";
import { given } from "../given.ts";
import { integerOption } from "../option-values.ts";
import { withApi } from "../reach-api.ts";
import { syncRefOf } from "../short-id.ts";
import { syncLabel } from "../sync-text.ts";
import { paintState, print } from "../terminal.ts";
import { versionOption } from "./schedule-define.ts";
import { SYNC_ARGUMENT } from "./sync-show.ts";

type ChangeOptions = GlobalOptions & { reason?: string; expectedStateVersion?: number };

type RetuneOptions = GlobalOptions & {
  maxParallel?: number;
  priority?: number;
  expectedStateVersion?: number;
};

/** Adds the commands that change syncs and decide about what was set aside. */
export function addSyncChangeCommands(sync: Command, cli: Cli): void {
  changeCommand(sync, "pause", "stop a sync and its segments, which keep how far they got")
    .option("--reason <text>", "why, for the record")
    .action(
      act(async (all: ChangeOptions, text: string) => {
        const { body, options } = bodyOf(all);
        await change(cli, options, text, (client, target) =>
          client.call("pauseSync", { ...target, body }),
        );
      }),
    );
  changeCommand(sync, "resume", "let a sync go on")
    .option("--reason <text>", "why, for the record")
    .action(
      act(async (all: ChangeOptions, text: string) => {
        const { body, options } = bodyOf(all);
        await change(cli, options, text, (client, target) =>
          client.call("resumeSync", { ...target, body }),
        );
      }),
    );
  changeCommand(sync, "retune", "change how many segments run at once, or the priority")
    .addOption(integerOption("--max-parallel <n>", "segments at once", 1, 1_000))
    .addOption(integerOption("--priority <n>", "higher goes first", -100, 100))
    .action(
      act(async (all: RetuneOptions, text: string) => {
        const { maxParallel, priority, expectedStateVersion, ...options } = all;
        const body = given({
          max_parallel: maxParallel,
          priority,
          expected_state_version: expectedStateVersion,
        });
        await change(cli, options, text, (client, target) =>
          client.call("retuneSync", { ...target, body }),
        );
      }),
    );
  changeCommand(sync, "set-head", "say where the head of a sync's source is")
    .addOption(
      integerOption(
        "--head <block>",
        "the newest block that the source has",
        0,
      ).makeOptionMandatory(),
    )
    .option("--reason <text>", "why, for the record")
    .action(
      act(async ({ head, ...all }: ChangeOptions & { head: number }, text: string) => {
        const { body, options } = bodyOf(all);
        await change(cli, options, text, (client, target) =>
          client.call("setSyncHead", { ...target, body: { ...body, head } }),
        );
      }),
    );
  addSegmentCommands(sync, cli);
}

function bodyOf({ reason, expectedStateVersion, ...options }: ChangeOptions) {
  const body = given({ reason, expected_state_version: expectedStateVersion });
  return { body, options };
}

function changeCommand(sync: Command, name: string, description: string): Command {
  return sync
    .command(name)
    .description(description)
    .argument("<sync>", SYNC_ARGUMENT)
    .addOption(versionOption());
}

/** Changes a sync by `send` and says what state it is in now. */
async function change(
  cli: Cli,
  options: GlobalOptions,
  text: string,
  send: (client: Client, target: { params: { sync: string } }) => Promise<SyncTransition>,
): Promise<void> {
  await withApi(cli, options, "rows", async ({ client }) => {
    const changed = await send(client, { params: { sync: await syncRefOf(client, text) } });
    print(cli.terminal, changed, () => {
      const state = paintState(cli.terminal, changed.state);
      return `Sync ${syncLabel(changed)} is ${state} (version ${changed.state_version}).`;
    });
  });
}

function indexOf(text: string): number {
  const index = /^\d{1,15}$/.test(text) ? Number(text) : -1;
  if (index >= 0) return index;
  throw new PawlError(
    "INPUT_INVALID",
    `Expected the index of a segment, such as 12, got ${JSON.stringify(text)}.`,
    { details: { segment: text } },
  );
}

function addSegmentCommands(sync: Command, cli: Cli): void {
  changeCommand(sync, "retry", "try a segment that was set aside once more")
    .argument("<segment>", "its index, as `pawl sync quarantine` shows it")
    .option("--reason <text>", "why, for the record")
    .action(
      act(async (all: ChangeOptions, text: string, index: string) => {
        const { body, options } = bodyOf(all);
        await withApi(cli, options, "rows", async ({ client }) => {
          const params = { sync: await syncRefOf(client, text), segment_index: indexOf(index) };
          const changed = await client.call("retrySegment", { params, body });
          print(cli.terminal, changed, () => changed.message);
        });
      }),
    );
  changeCommand(sync, "exclude", "let a segment that was set aside stay unfetched, on record")
    .argument("<segment>", "its index, as `pawl sync quarantine` shows it")
    .requiredOption("--reason <text>", "why it may be missing, for the record")
    .action(
      act(async (all: ChangeOptions & { reason: string }, text: string, index: string) => {
        const { reason, expectedStateVersion, ...options } = all;
        const body = { reason, ...given({ expected_state_version: expectedStateVersion }) };
        await withApi(cli, options, "rows", async ({ client }) => {
          const params = { sync: await syncRefOf(client, text), segment_index: indexOf(index) };
          const changed = await client.call("excludeSegment", { params, body });
          print(cli.terminal, changed, () => changed.message);
        });
      }),
    );
}
