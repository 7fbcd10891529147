import { type Command, Option } from "commander";
import type { Client } from "../../client/client.ts";
import { UpdateScheduleBody } from "../../core/api/schedule-operations.ts";
import { STALE_LIMIT_MAX } from "../../core/automation-specs.ts";
import { StaleReason } from "../../core/partitions/stale-reason.ts";
import { changedDefinition, changedText, optionMissing } from "../changed-definition.ts";
import { act, type Cli, type GlobalOptions } from "../cli.ts";
import { relativeTime } from "../duration.ts";
import { given } from "../given.ts";
import {
  durationOption,
  integerOption,
  jsonOption,
  labelsOption,
  listOption,
  repeatedOption,
} from "../option-values.ts";
import { withApi } from "../reach-api.ts";
import { type Definition, definitionOfFlags, type ScheduleFlags } from "../schedule-flags.ts";
import { scheduleRefOf } from "../short-id.ts";
import { print } from "../terminal.ts";

type CreateOptions = GlobalOptions & ScheduleFlags & { requestId?: string };
type UpdateOptions = GlobalOptions & ScheduleFlags & { expectedStateVersion?: number };

/** Adds the commands that make, change and delete schedules. */
export function addScheduleDefineCommands(schedule: Command, cli: Cli): void {
  addDefinitionOptions(schedule.command("create"))
    .description("create a schedule")
    .argument("<name>", "what to call it")
    .option("--request-id <text>", "a name for the request; the same name never creates a second")
    .action(act((options: CreateOptions, name: string) => create(cli, options, name)));
  addDefinitionOptions(schedule.command("update"))
    .description("change a schedule; what no option names stays as it is")
    .argument("<schedule>", "the schedule's name, its id, or the short form of that")
    .option("--enabled", "let it act again")
    .addOption(versionOption())
    .action(act((options: UpdateOptions, name: string) => update(cli, options, name)));
  schedule
    .command("delete")
    .description("delete a schedule; what it did stays on record")
    .argument("<schedule>", "the schedule's name, its id, or the short form of that")
    .addOption(versionOption())
    .action(
      act(async ({ expectedStateVersion, ...options }: UpdateOptions, name: string) => {
        await withApi(cli, options, "rows", async ({ client }) => {
          const deleted = await client.call("deleteSchedule", {
            params: { schedule_id: await scheduleRefOf(client, name) },
            query: given({ expected_state_version: expectedStateVersion }),
          });
          print(cli.terminal, deleted, () => deleted.message);
        });
      }),
    );
}

/** The option by which a change is refused when somebody else was faster. */
export function versionOption(): Option {
  return integerOption("--expected-state-version <n>", "refuse when it has moved on from this", 1);
}

function addDefinitionOptions(command: Command): Command {
  return command
    .option(
      "--cron <expression>",
      'when, such as "0 3 * * *" or @hourly; with six fields to the second',
    )
    .option("--timezone <zone>", "the time zone of the cron expression (default: UTC)")
    .addOption(repeatedOption("--asset <key>", "an asset to run; may be repeated"))
    .option(
      "--partition <which>",
      "by the tick's time: current, previous, or so many before, such as -7",
    )
    .option("--partitions <keys>", "always these partition keys, separated by commas")
    .addOption(
      new Option("--selection <what>", "everything of them, or what is stale at the time").choices([
        "whole",
        "all",
        "stale",
      ]),
    )
    .addOption(
      listOption("--reason <reasons>", "only what is stale for these", StaleReason.options),
    )
    .addOption(
      integerOption("--limit <n>", "of what is stale, how many at once", 1, STALE_LIMIT_MAX),
    )
    .addOption(
      new Option("--overlap <policy>", "while the last run is going (default: allow)").choices([
        "allow",
        "skip",
        "buffer_one",
      ]),
    )
    .addOption(
      integerOption(
        "--catchup-window-minutes <n>",
        "how old a missed time may be (default: 1440)",
        0,
        5_256_000,
      ),
    )
    .addOption(
      integerOption(
        "--max-catchup-ticks <n>",
        "how many missed times are caught up (default: 3)",
        0,
        100,
      ),
    )
    .option("--catch-up-on-resume", "catch up what a pause missed, too")
    .option("--no-catch-up-on-resume", "skip what a pause missed")
    .addOption(durationOption("--jitter <duration>", "put all its times off by a part of this"))
    .option("--starts-at <time>", "no times before this; none for no bound")
    .option("--ends-at <time>", "no times from this on; none for no bound")
    .option("--disabled", "do not let it act")
    .addOption(jsonOption("--run-config <json>", "what the tasks see as their config"))
    .addOption(labelsOption("--label <key=value>", "a label; may be repeated, and replaces all"))
    .addOption(integerOption("--priority <n>", "higher goes first (default: 0)", -100, 100))
    .option("--description <text>", "what it is for");
}

async function create(cli: Cli, options: CreateOptions, name: string): Promise<void> {
  const { cron, asset_selection, ...rest } = definitionOfFlags(options);
  if (cron === undefined) throw optionMissing("--cron", 'when it ticks, such as "0 3 * * *"');
  if (asset_selection === undefined) throw optionMissing("--asset", "at least one asset to run");
  const body = { name, cron, asset_selection, ...rest };
  await withApi(cli, options, "definitions", async ({ client, isEmbedded }) => {
    const created = await client.call("createSchedule", {
      body,
      idempotencyKey: options.requestId,
    });
    const next = await nextText(cli, client, created.schedule_id);
    print(cli.terminal, created, () => {
      const idle = isEmbedded
        ? "\nNo server is running; it ticks while one does, see `pawl start`."
        : "";
      return `Created schedule ${name} (${created.schedule_id}). ${next}${idle}`;
    });
  });
}

async function update(cli: Cli, options: UpdateOptions, name: string): Promise<void> {
  await withApi(cli, options, "definitions", async ({ client }) => {
    const params = { schedule_id: await scheduleRefOf(client, name) };
    const current = await client.call("getSchedule", { params });
    const { expectedStateVersion } = options;
    const body = changedDefinition<Definition>({
      current,
      body: UpdateScheduleBody,
      changes: definitionOfFlags(options),
      example: "--cron",
      expectedStateVersion,
    });
    const changed = await client.call("updateSchedule", { params, body });
    const next = await nextText(cli, client, changed.schedule_id);
    print(cli.terminal, changed, () => `${changedText("Schedule", changed)} ${next}`);
  });
}

/** When a schedule ticks next, as a sentence. */
async function nextText(cli: Cli, client: Client, schedule_id: string): Promise<string> {
  const params = { schedule_id };
  const { state } = await client.call("getSchedule", { params });
  if (state !== "ACTIVE") return `It is ${state}: \`pawl schedule resume\` lets it act.`;
  const { items, timezone } = await client.call("listNextTimes", { params, query: { count: 1 } });
  const [next] = items;
  if (next === undefined) return "It has no time to come.";
  const at = next.local_time.replace("T", " ");
  return `Next: ${at} ${timezone} (${relativeTime(next.due_at, cli.terminal.now())}).`;
}
