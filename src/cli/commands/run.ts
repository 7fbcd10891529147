import { type Command, Option } from "commander";
import type { RunDocument, TaskDocument } from "../../work/run/api.ts";
import type { Json } from "../../kernel/canonical.ts";
import { epochMsOf } from "../../kernel/instant.ts";
import { act, type Cli, type GlobalOptions } from "../cli.ts";
import {
  formatDuration,
  relativeTime,
  instantOption,
  integerOption,
  jsonOption,
  labelsOption,
  statesOption,
} from "../base/options.ts";
import { given } from "../base/omit-undefined.ts";
import { morePagesText, type PageOptions, type Api, withApi } from "../base/api.ts";
import { keysOf } from "../base/selector-flags.ts";
import {
  runIdOf,
  shortId,
  layoutFields,
  layoutTable,
  note,
  paintState,
  print,
  type Terminal,
} from "../base/terminal.ts";
import { type Names, namesBehind, triggerDetail, triggerText } from "../text/trigger.ts";
import { doneTasks, tasksText, waitForRun } from "../wait/run.ts";

/** Adds the commands about runs. */
export function addRunCommands(program: Command, cli: Cli): void {
  const run = program.command("run").description("run assets once");
  addStart(run, cli);
  addList(run, cli);
  run
    .command("show")
    .description("show a run and its tasks")
    .argument("<run>", "the run's id, or its short form")
    .action(
      act(async (options: object, id: string) => {
        await withApi(cli, options, "rows", async ({ client }) => {
          const params = { run_id: await runIdOf(client, id) };
          const document = await client.call("getRun", { params });
          const { items } = await client.call("listTasks", { params, query: { limit: 50 } });
          const names = await namesBehind(client, [document.trigger_source_ref]);
          print(cli.terminal, { ...document, tasks: items }, () => {
            return showText(cli.terminal, document, items, names);
          });
        });
      }),
    );
  run
    .command("cancel")
    .description("cancel a run")
    .argument("<run>", "the run's id, or its short form")
    .option("--reason <text>", "why, for the record")
    .action(
      act(async ({ reason, ...options }: { reason?: string }, id: string) => {
        await withApi(cli, options, "rows", async ({ client }) => {
          const params = { run_id: await runIdOf(client, id) };
          const changed = await client.call("cancelRun", { params, body: given({ reason }) });
          print(cli.terminal, changed, () => {
            return `${changed.message} ${changed.run_id} is ${paintState(cli.terminal, changed.state)}.`;
          });
        });
      }),
    );
}

type StartOptions = {
  partitions?: string;
  runConfig?: { value: Json };
  label?: Record<string, string>;
  priority?: number;
  codeVersion?: string;
  runKey?: string;
  onConflict?: "refuse" | "existing";
  requestId?: string;
  wait?: boolean;
};

function addStart(run: Command, cli: Cli): void {
  run
    .command("start")
    .description("run assets once, for some partitions or without any")
    .argument("<asset...>", "keys of the assets to run")
    .option("--partitions <keys>", "partition keys separated by commas")
    .addOption(jsonOption("--run-config <json>", "what the tasks see as their config"))
    .addOption(labelsOption("--label <key=value>", "a label; may be repeated"))
    .addOption(integerOption("--priority <n>", "higher goes first (default: 0)", -100, 100))
    .option("--code-version <text>", "the version of the code that this is for")
    .option("--run-key <text>", "a key under which only one request is ever carried out")
    .addOption(
      new Option(
        "--on-conflict <what>",
        "when another request has the run key (default: refuse)",
      ).choices(["refuse", "existing"]),
    )
    .option("--request-id <text>", "a name for the request; the same name never makes a second")
    .option("--wait", "show progress until the run ends, and fail when it failed")
    .action(
      act(async (options: StartOptions & GlobalOptions, assets: string[]) => {
        const need = options.wait === true ? "work" : "definitions";
        await withApi(cli, options, need, (api) => start(cli, api, options, assets));
      }),
    );
}

async function start(
  cli: Cli,
  api: Api,
  options: StartOptions & GlobalOptions,
  assets: readonly string[],
): Promise<void> {
  const { terminal } = cli;
  const body = given({
    assets: [...assets],
    partition_keys: options.partitions === undefined ? undefined : keysOf(options.partitions),
    config: options.runConfig?.value,
    labels: options.label,
    priority: options.priority,
    code_version: options.codeVersion,
    run_key: options.runKey,
    on_conflict: options.onConflict,
  });
  const requested = await api.client.call("requestRun", {
    body,
    idempotencyKey: options.requestId,
  });
  if (options.wait !== true) {
    print(terminal, requested, () => `${requested.message} ${requested.run_id}`);
    return;
  }
  note(terminal, `Run ${requested.run_id}`);
  const { document, text, failure } = await waitForRun(cli, api, requested.run_id);
  print(terminal, { ...requested, state: document.state, result: document }, () => text);
  if (failure !== null) throw failure;
}

type ListOptions = PageOptions & {
  status?: string;
  backfill?: string;
  since?: string;
  until?: string;
};

function addList(run: Command, cli: Cli): void {
  run
    .command("list")
    .description("list runs, newest first")
    .addOption(statesOption("--status <states>", "only these, such as running,failed"))
    .option("--backfill <id>", "only those of this backfill")
    .addOption(instantOption("--since <time>", "only those requested since", cli.terminal.now))
    .addOption(instantOption("--until <time>", "only those requested before", cli.terminal.now))
    .addOption(integerOption("--limit <n>", "how many (default: 50)", 1, 200))
    .option("--cursor <text>", "where the page before ended")
    .action(
      act(async ({ status, backfill, since, until, limit, cursor, ...options }: ListOptions) => {
        const query = given({ status, backfill_id: backfill, since, until, limit, cursor });
        await withApi(cli, options, "rows", async ({ client }) => {
          const page = await client.call("listRuns", { query });
          const sources = page.items.map(({ trigger_source_ref }) => trigger_source_ref);
          const names = cli.terminal.json ? new Map() : await namesBehind(client, sources);
          print(cli.terminal, page, () => listText(cli.terminal, page, names));
        });
      }),
    );
}

function listText(
  terminal: Terminal,
  page: { items: readonly RunDocument[]; next_cursor: string | null },
  names: Names,
): string {
  if (page.items.length === 0) return "There are no runs.";
  const table = layoutTable(
    [
      { heading: "ID" },
      { heading: "STATE" },
      { heading: "ASSETS" },
      { heading: "TASKS", align: "right" },
      { heading: "FAILED", align: "right" },
      { heading: "ASKED FOR BY" },
      { heading: "REQUESTED" },
      { heading: "TOOK", align: "right" },
    ],
    page.items.map((run) => [
      shortId(run.run_id),
      paintState(terminal, run.state),
      run.asset_selection.join(", "),
      `${doneTasks(run)}/${run.tasks_total}`,
      String(run.tasks_failed),
      triggerText(run.trigger_source_ref, names),
      relativeTime(run.requested_at, terminal.now()),
      tookText(run.started_at, run.finished_at),
    ]),
  );
  return table + morePagesText(page.next_cursor);
}

function showText(
  terminal: Terminal,
  run: RunDocument,
  tasks: readonly TaskDocument[],
  names: Names,
): string {
  const { first_error: error } = run;
  const fields: [string, string][] = [
    ["run", run.run_id],
    ["key", run.run_key],
    ["state", paintState(terminal, run.state)],
    ["assets", run.asset_selection.join(", ")],
    ["tasks", `${run.tasks_total}: ${tasksText(run)}`],
    ["asked for by", triggerDetail(run.trigger_source_ref, names)],
    ["requested", relativeTime(run.requested_at, terminal.now())],
    ["took", tookText(run.started_at, run.finished_at)],
    ...(error === null
      ? []
      : [["first error", `${error.class}: ${error.message}`] as [string, string]]),
  ];
  const table = layoutTable(
    [
      { heading: "TASK", align: "right" },
      { heading: "STATE" },
      { heading: "ASSET" },
      { heading: "PARTITIONS" },
      { heading: "ATTEMPT", align: "right" },
      { heading: "TOOK", align: "right" },
      { heading: "NOTE" },
    ],
    tasks.map((task) => [
      String(task.task_key),
      paintState(terminal, task.state),
      task.asset_key,
      keysText(task.partition_keys),
      String(task.attempt),
      tookText(task.started_at, task.finished_at),
      task.error?.message ?? (task.lacks_worker ? "no worker has asked for its asset" : ""),
    ]),
  );
  return `${layoutFields(fields)}\n\n${table}`;
}

function keysText(keys: readonly string[]): string {
  if (keys.length <= 2) return keys.join(", ");
  return `${keys[0]} … ${keys.at(-1)} (${keys.length})`;
}

function tookText(startedAt: string | null, finishedAt: string | null): string {
  if (startedAt === null || finishedAt === null) return "-";
  return formatDuration(epochMsOf(finishedAt) - epochMsOf(startedAt));
}
