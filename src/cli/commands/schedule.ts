import { type Command, Option } from "commander";
import type { Client } from "../../client/client.ts";
import { UpdateScheduleBody, type ScheduleTransition } from "../../work/schedule/api.ts";
import { STALE_LIMIT_MAX } from "../../work/definition/automation.ts";
import { StaleReason } from "../../kernel/keyspace/selector.ts";
import { changedDefinition, changedText, optionMissing } from "../base/project.ts";
import { act, type Cli, type GlobalOptions } from "../cli.ts";
import {
  relativeTime,
  durationOption,
  integerOption,
  jsonOption,
  labelsOption,
  listOption,
  repeatedOption,
} from "../base/options.ts";
import { given } from "../base/omit-undefined.ts";
import { withApi } from "../base/api.ts";
import { type Definition, definitionOfFlags, type ScheduleFlags } from "../text/schedule.ts";
import { scheduleRefOf, print, note, paintState } from "../base/terminal.ts";
import { PawlError } from "../../kernel/errors.ts";
import { waitForBackfills } from "../wait/backfills.ts";
import { waitForRun } from "../wait/run.ts";

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

type ChangeOptions = GlobalOptions & { reason?: string; expectedStateVersion?: number };
type TriggerOptions = GlobalOptions & { requestId?: string; wait?: boolean };

/** Adds the commands that stop, start and trigger schedules. */
export function addScheduleChangeCommands(schedule: Command, cli: Cli): void {
  changeCommand(schedule, "pause", "stop a schedule; what it asked for goes on", cli, (client) => {
    return (input) => client.call("pauseSchedule", input);
  });
  changeCommand(schedule, "resume", "let a schedule act again", cli, (client) => {
    return (input) => client.call("resumeSchedule", input);
  });
  schedule
    .command("trigger")
    .description("tick a schedule now, also while it is paused")
    .argument("<schedule>", "the schedule's name, its id, or the short form of that")
    .option("--request-id <text>", "a name for the request; the same name never ticks twice")
    .option("--wait", "show progress until what it asked for ends, and fail when it failed")
    .action(act((options: TriggerOptions, name: string) => trigger(cli, options, name)));
}

type Send = (input: {
  params: { schedule_id: string };
  body: { reason?: string; expected_state_version?: number };
}) => Promise<ScheduleTransition>;

function changeCommand(
  schedule: Command,
  name: string,
  description: string,
  cli: Cli,
  sendBy: (client: Client) => Send,
): void {
  schedule
    .command(name)
    .description(description)
    .argument("<schedule>", "the schedule's name, its id, or the short form of that")
    .option("--reason <text>", "why, for the record")
    .addOption(versionOption())
    .action(
      act(async ({ reason, expectedStateVersion, ...options }: ChangeOptions, text: string) => {
        await withApi(cli, options, "rows", async ({ client }) => {
          const params = { schedule_id: await scheduleRefOf(client, text) };
          const body = given({ reason, expected_state_version: expectedStateVersion });
          const changed = await sendBy(client)({ params, body });
          print(cli.terminal, changed, () => {
            const state = paintState(cli.terminal, changed.state);
            return `Schedule ${changed.name} is ${state} (version ${changed.state_version}).`;
          });
        });
      }),
    );
}

async function trigger(cli: Cli, options: TriggerOptions, name: string): Promise<void> {
  const need = options.wait === true ? "work" : "definitions";
  await withApi(cli, options, need, async (api) => {
    const { client } = api;
    const triggered = await client.call("triggerSchedule", {
      params: { schedule_id: await scheduleRefOf(client, name) },
      idempotencyKey: options.requestId,
    });
    const { run_id, backfill_id } = triggered;
    const asked = run_id === null ? `backfill ${backfill_id}` : `run ${run_id}`;
    if (options.wait !== true) {
      print(cli.terminal, triggered, () => `Schedule ${name} asked for ${asked}.`);
      return;
    }
    note(cli.terminal, `Schedule ${name} asked for ${asked}.`);
    if (run_id === null) {
      const ids = await withFollowers(client, backfill_id ?? "");
      const waited = await waitForBackfills(cli, api, ids);
      print(cli.terminal, { ...triggered, results: waited.documents }, () => waited.text);
      if (waited.failure !== null) throw new PawlError("WORK_FAILED", waited.failure);
      return;
    }
    const { document, text, failure } = await waitForRun(cli, api, run_id);
    print(cli.terminal, { ...triggered, state: document.state, result: document }, () => text);
    if (failure !== null) throw failure;
  });
}

/** A backfill and those that follow it: what crosses definitions is several of them. */
async function withFollowers(client: Client, backfillId: string): Promise<string[]> {
  const ids = [backfillId];
  for (const backfill_id of ids) {
    const { followers } = await client.call("getBackfill", { params: { backfill_id } });
    ids.push(...followers);
  }
  return ids;
}
