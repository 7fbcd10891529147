import type { Command } from "commander";
import type { Client } from "../../client/client.ts";
import type { BackfillTransition } from "../../core/api/backfill-operations.ts";
import { act, type Cli, type GlobalOptions } from "../cli.ts";
import { given } from "../given.ts";
import { integerOption, listOption } from "../option-values.ts";
import { withApi } from "../reach-api.ts";
import { backfillIdOf } from "../short-id.ts";
import { note, paintState, print } from "../terminal.ts";
import { createdText, waitForCreated } from "./backfill-create.ts";

type ChangeOptions = GlobalOptions & { reason?: string; expectedStateVersion?: number };

type RetuneOptions = GlobalOptions & {
  concurrency?: number;
  priority?: number;
  expectedStateVersion?: number;
};

/** Adds the commands that change backfills. */
export function addBackfillChangeCommands(backfill: Command, cli: Cli): void {
  changeCommand(backfill, "pause", "stop planning chunks; active ones finish")
    .option("--reason <text>", "why, for the record")
    .action(
      act(async ({ reason, expectedStateVersion, ...options }: ChangeOptions, id: string) => {
        const body = given({ reason, expected_state_version: expectedStateVersion });
        await change(cli, options, id, (client, target) =>
          client.call("pauseBackfill", { ...target, body }),
        );
      }),
    );
  changeCommand(backfill, "resume", "go on with the first chunk that is not planned")
    .option("--reason <text>", "why, for the record")
    .action(
      act(async ({ reason, expectedStateVersion, ...options }: ChangeOptions, id: string) => {
        const body = given({ reason, expected_state_version: expectedStateVersion });
        await change(cli, options, id, (client, target) =>
          client.call("resumeBackfill", { ...target, body }),
        );
      }),
    );
  changeCommand(backfill, "cancel", "end a backfill; active runs finish")
    .option("--reason <text>", "why, for the record")
    .option("--now", "cancel the active runs too")
    .action(
      act(async (all: ChangeOptions & { now?: boolean }, id: string) => {
        const { reason, expectedStateVersion, now, ...options } = all;
        const body = given({ reason, now, expected_state_version: expectedStateVersion });
        await change(cli, options, id, (client, target) =>
          client.call("cancelBackfill", { ...target, body }),
        );
      }),
    );
  changeCommand(backfill, "retune", "change how many chunks run at once, or the priority")
    .addOption(integerOption("--concurrency <n>", "chunks at once", 1, 1_000))
    .addOption(integerOption("--priority <n>", "higher goes first", -100, 100))
    .action(
      act(async (all: RetuneOptions, id: string) => {
        const { concurrency, priority, expectedStateVersion, ...options } = all;
        const body = given({
          max_concurrent_runs: concurrency,
          priority,
          expected_state_version: expectedStateVersion,
        });
        await change(cli, options, id, (client, target) =>
          client.call("retuneBackfill", { ...target, body }),
        );
      }),
    );
  addRetryCommand(backfill, cli);
}

function changeCommand(backfill: Command, name: string, description: string): Command {
  return backfill
    .command(name)
    .description(description)
    .argument("<backfill>", "the backfill's id, or its short form")
    .addOption(
      integerOption("--expected-state-version <n>", "refuse when it has moved on from this", 1),
    );
}

/** Changes a backfill by `send` and says what state it is in now. */
async function change(
  cli: Cli,
  options: GlobalOptions,
  id: string,
  send: (
    client: Client,
    target: { params: { backfill_id: string } },
  ) => Promise<BackfillTransition>,
): Promise<void> {
  await withApi(cli, options, "rows", async ({ client }) => {
    const backfill_id = await backfillIdOf(client, id);
    const changed = await send(client, { params: { backfill_id } });
    print(cli.terminal, changed, () => {
      const state = paintState(cli.terminal, changed.state);
      return `Backfill ${backfill_id} is ${state} (version ${changed.state_version}).`;
    });
  });
}

const OUTCOMES = ["FAILED", "CANCELLED", "SKIPPED"] as const;

type Outcome = (typeof OUTCOMES)[number];

type RetryOptions = {
  missing?: boolean;
  outcomes?: Outcome[];
  allowOverlap?: boolean;
  requestId?: string;
  wait?: boolean;
};

function addRetryCommand(backfill: Command, cli: Cli): void {
  backfill
    .command("retry-failed")
    .description("create a backfill of exactly the partitions that failed, also while it goes on")
    .argument("<backfill>", "the backfill's id, or its short form")
    .option("--missing", "everything of the target that is not materialized instead")
    .addOption(
      listOption(
        "--outcomes <outcomes>",
        "partitions that ended so: failed, cancelled, skipped (default: failed)",
        OUTCOMES,
      ),
    )
    .option("--allow-overlap", "go ahead although another backfill touches the same partitions")
    .option("--request-id <text>", "a name for the request; the same name never creates a second")
    .option("--wait", "show progress until the new backfill ends, and fail when it failed")
    .action(
      act(async (all: RetryOptions, id: string) => {
        const { missing, outcomes, allowOverlap, requestId, wait, ...options } = all;
        await withApi(cli, options, wait === true ? "work" : "rows", async (api) => {
          const backfill_id = await backfillIdOf(api.client, id);
          const created = await api.client.call("retryBackfill", {
            params: { backfill_id },
            body: given({ missing, outcomes, allow_overlap: allowOverlap }),
            idempotencyKey: requestId,
          });
          if (wait !== true) {
            print(cli.terminal, created, () => createdText(created, api.isEmbedded));
            return;
          }
          note(cli.terminal, createdText(created, false));
          await waitForCreated(cli, api, created);
        });
      }),
    );
}
