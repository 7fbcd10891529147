import type { Command } from "commander";
import { PawlError } from "../../kernel/errors.ts";
import type { RunDocument } from "../../work/run/api.ts";
import type { Cli } from "../cli.ts";
import type { Api } from "../base/api.ts";
import { omitUndefined } from "../base/omit-undefined.ts";
import {
  choiceOption,
  instantOption,
  integerOption,
  jsonOption,
  labelsOption,
  PAGE,
  REASON,
  statesOption,
  switchOption,
  textOption,
} from "../base/options.ts";
import { keysOf } from "../base/selector-flags.ts";
import { fullId, shortId } from "../base/short-id.ts";
import { addSubcommands, operation, subcommand, type Subject } from "../base/subcommands.ts";
import { note, paintState } from "../base/terminal.ts";
import { waitWithProgress } from "../base/waiting.ts";
import {
  conflictsText,
  doneTasks,
  namesBehind,
  runsText,
  runText,
  tasksText,
  type TriggerSource,
} from "../text/run.ts";

/** A run as commands name it. */
export const RUN: Subject = {
  noun: "run",
  description: "the run's id, or its short form",
  param: "run_id",
  find: (client, text) => {
    const newest = client.each("listRuns", { query: { limit: 200 } });
    return fullId(text, newest, ({ run_id }) => run_id, "run_".length + 26);
  },
};

const RUNS = {
  start: subcommand({
    description: "run assets once, for some partitions or without any",
    argument: ["<asset...>", "keys of the assets to run"],
    flags: {
      partitions: textOption("--partitions <keys>", "partition keys separated by commas"),
      runConfig: jsonOption("--run-config <json>", "what the tasks see as their config"),
      labels: labelsOption("--label <key=value>", "a label; may be repeated"),
      priority: integerOption("--priority <n>", "higher goes first (default: 0)", -100, 100),
      code_version: textOption("--code-version <text>", "the version of the code that this is for"),
      run_key: textOption(
        "--run-key <text>",
        "a key under which only one request is ever carried out",
      ),
      on_conflict: choiceOption(
        "--on-conflict <what>",
        "when another request has the run key (default: refuse)",
        ["refuse", "existing"],
      ),
      requestId: textOption(
        "--request-id <text>",
        "a name for the request; the same name never makes a second",
      ),
      wait: switchOption("--wait", "show progress until the run ends, and fail when it failed"),
    },
    need: "definitions",
    async run({ cli, api, client, argument: assets, flags }) {
      const { partitions, runConfig, requestId, wait, ...rest } = flags;
      const body = omitUndefined({
        assets,
        partition_keys: partitions === undefined ? undefined : keysOf(partitions),
        config: runConfig?.value,
        ...rest,
      });
      const requested = await client.call("requestRun", { body, idempotencyKey: requestId });
      const { run_id, message } = requested;
      if (wait !== true) return { document: requested, text: () => `${message} ${run_id}` };
      note(cli.terminal, `Run ${run_id}`);
      const { document, text, failure } = await waitForRun(cli, api, run_id);
      return {
        document: { ...requested, state: document.state, result: document },
        text: () => text,
        failure,
      };
    },
  }),
  list: subcommand({
    description: "list runs, newest first",
    flags: {
      status: statesOption("--status <states>", "only these, such as running,failed"),
      backfill_id: textOption("--backfill <id>", "only those of this backfill"),
      since: instantOption("--since <time>", "only those requested since"),
      until: instantOption("--until <time>", "only those requested before"),
      ...PAGE,
    },
    async run({ terminal, client, flags: query }) {
      const page = await client.call("listRuns", { query });
      const sources = page.items.map(({ trigger_source_ref }) => trigger_source_ref);
      const names = terminal.json ? new Map() : await namesBehind(client, sources);
      return { document: page, text: () => runsText(terminal, page, names) };
    },
  }),
  show: subcommand({
    description: "show a run and its tasks",
    about: RUN,
    async run({ terminal, client, ref: run_id }) {
      const params = { run_id };
      const document = await client.call("getRun", { params });
      const { items: tasks } = await client.call("listTasks", { params, query: { limit: 50 } });
      const names = await namesBehind(client, [document.trigger_source_ref]);
      return {
        document: { ...document, tasks },
        text: () => runText(terminal, document, tasks, names),
      };
    },
  }),
  cancel: operation({
    description: "cancel a run",
    about: RUN,
    operation: "cancelRun",
    flags: { reason: REASON },
    text: (terminal, { message, run_id, state }) =>
      `${message} ${run_id} is ${paintState(terminal, state)}.`,
  }),
};

/** Adds the commands about runs. */
export function addRunCommands(program: Command, cli: Cli): void {
  addSubcommands(program.command("run").description("run assets once"), cli, RUNS);
}

/** Adds the command that lists run key conflicts. */
export function addConflictsCommand(program: Command, cli: Cli): void {
  const conflicts = subcommand({
    description: "list requests that used a run key of another request",
    flags: {
      since: instantOption("--since <time>", "only those found since"),
      until: instantOption("--until <time>", "only those found before"),
      ...PAGE,
    },
    async run({ terminal, client, flags: query }) {
      const page = await client.call("listConflicts", { query });
      const sources = page.items.flatMap(({ first, conflicting }): TriggerSource[] => [
        first.trigger_source_ref,
        conflicting.trigger_source_ref,
      ]);
      const names = terminal.json ? new Map() : await namesBehind(client, sources);
      return { document: page, text: () => conflictsText(terminal, page, names) };
    },
  });
  addSubcommands(program, cli, { conflicts });
}

/** How a run ended that was waited for. */
type WaitedRun = {
  document: RunDocument;
  /** The end in a line, for people. */
  text: string;
  /** Why the work counts as failed; null when it succeeded. */
  failure: PawlError | null;
};

/** Shows the progress of a run until it ends. Rejects when the command is interrupted. */
export async function waitForRun(cli: Cli, api: Api, run_id: string): Promise<WaitedRun> {
  const document = await waitWithProgress(cli, api, {
    noun: "tasks",
    look: (client) => client.call("getRun", { params: { run_id } }),
    progressOf: (run) => ({
      total: run.tasks_total,
      done: doneTasks(run),
      failed: run.tasks_failed,
      ratePerSecond: null,
      etaMs: null,
      note: "",
    }),
    isSettled: ({ finished_at }) => finished_at !== null,
    again: null,
  });
  const state = paintState(cli.terminal, document.state);
  return {
    document,
    text: `Run ${document.run_id} ${state}: ${tasksText(document)}.`,
    failure: document.state === "SUCCEEDED" ? null : failureOf(document),
  };
}

function failureOf({ run_id, state, first_error: error }: RunDocument): PawlError {
  const first = error === null ? "" : ` The first error: ${error.message.replace(/\.$/, "")}.`;
  return new PawlError("WORK_FAILED", `Run ${shortId(run_id)} ended as ${state}.${first}`, {
    details: { run_id, state },
  });
}
