import type { Command } from "commander";
import type { Client } from "../../client/client.ts";
import type { ScheduleTransition } from "../../core/api/schedule-operations.ts";
import { PawlError } from "../../core/errors.ts";
import { act, type Cli, type GlobalOptions } from "../cli.ts";
import { given } from "../given.ts";
import { withApi } from "../reach-api.ts";
import { scheduleRefOf } from "../short-id.ts";
import { note, paintState, print } from "../terminal.ts";
import { waitForBackfills } from "../wait-for-backfills.ts";
import { waitForRun } from "../wait-for-run.ts";
import { versionOption } from "./schedule-define.ts";

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
