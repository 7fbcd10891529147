import type { Command } from "commander";
import { optionMissing } from "../changed-definition.ts";
import { act, type Cli, type GlobalOptions } from "../cli.ts";
import { given } from "../given.ts";
import { durationOption } from "../option-values.ts";
import { withApi } from "../reach-api.ts";
import { shortId } from "../short-id.ts";
import { splitLines, tenantsText } from "../split-text.ts";
import { note, print } from "../terminal.ts";
import { failureOfSplit, waitForSplit } from "../wait-for-split.ts";

type PlanOptions = GlobalOptions & {
  from?: string;
  to?: string;
  description?: string;
  autoCutover?: boolean;
  lagLimit?: number;
  fenceWait?: number;
  fenceHold?: number;
  grace?: number;
  requestId?: string;
  wait?: boolean;
};

/** Adds the command that plans a split. */
export function addSplitPlanCommand(split: Command, cli: Cli): void {
  split
    .command("plan")
    .description("plan to move tenants from one shard to another while they are used")
    .argument("<tenants...>", "whose rows go")
    .option("--from <shard>", "the shard that they are on now")
    .option("--to <shard>", "the shard that they go to")
    .option("--description <text>", "what it is for")
    .option("--auto-cutover", "cut over by itself once it is caught up and verified")
    .addOption(durationOption("--lag-limit <duration>", "what counts as caught up (default: 1s)"))
    .addOption(
      durationOption(
        "--fence-wait <duration>",
        "how long a cutover waits for writes (default: 1s)",
      ),
    )
    .addOption(
      durationOption("--fence-hold <duration>", "how long it holds writes at most (default: 5s)"),
    )
    .addOption(
      durationOption("--grace <duration>", "how long rows stay on the source (default: 1d)"),
    )
    .option("--request-id <text>", "a name for the request; the same name never plans a second")
    .option("--wait", "wait until both shards are compared, and fail when they do not fit")
    .action(act((options: PlanOptions, tenants: string[]) => plan(cli, options, tenants)));
}

async function plan(cli: Cli, all: PlanOptions, tenants: string[]): Promise<void> {
  const { from, to, description, autoCutover, requestId, wait, ...rest } = all;
  const { lagLimit, fenceWait, fenceHold, grace, ...options } = rest;
  if (from === undefined) throw optionMissing("--from", "the shard that the tenants are on");
  if (to === undefined) throw optionMissing("--to", "the shard that they go to");
  const body = {
    source: from,
    target: to,
    tenants,
    ...given({
      description,
      auto_cutover: autoCutover,
      lag_limit_ms: lagLimit,
      fence_wait_ms: fenceWait,
      fence_hold_ms: fenceHold,
      grace_ms: grace,
    }),
  };
  await withApi(cli, options, wait === true ? "work" : "definitions", async (api) => {
    const planned = await api.client.call("planSplit", { body, idempotencyKey: requestId });
    const { split_id } = planned;
    const said =
      `Planned split ${split_id}: ${tenantsText(tenants)} from ${from} to ${to}. Nothing is ` +
      "changed yet; both shards are compared first.";
    if (wait !== true) {
      const idle = api.isEmbedded
        ? "\nNo server is running; they are compared while one does, see `pawl start`."
        : "";
      const next = `\nThen: pawl split start-dual-write ${shortId(split_id)}`;
      print(cli.terminal, planned, () => said + idle + next);
      return;
    }
    note(cli.terminal, said);
    const fits: Parameters<typeof waitForSplit>[3] = ({ checks }) =>
      checks?.every(({ ok }) => ok) === true;
    const document = await waitForSplit(cli, api, split_id, fits);
    print(cli.terminal, document, () => splitLines(cli.terminal, document).join("\n"));
    const failure = failureOfSplit(document, fits);
    if (failure !== null) throw failure;
  });
}
