import type { Command } from "commander";
import type { Client } from "../../client/client.ts";
import { PawlError } from "../../kernel/errors.ts";
import { epochMsOf } from "../../kernel/instant.ts";
import type { Json } from "../../kernel/canonical.ts";
import { isDocument } from "../../kernel/metadata-value.ts";
import type { ConflictDocument, RunDocument, TaskDocument } from "../../work/run/api.ts";
import type { Cli } from "../cli.ts";
import { idleText, type Api, fullId, nextSteps, shortId } from "../base/api.ts";
import {
  formatDuration,
  keysOf,
  omitUndefined,
  option,
  PAGE,
  REASON,
  relativeTime,
} from "../base/options.ts";
import {
  addSubcommands,
  operation,
  type Outcome,
  outcomeOf,
  subcommand,
  type CommandSubject,
} from "../base/subcommands.ts";
import {
  counted,
  type Column,
  countsText,
  errorText,
  type Field,
  layoutFields,
  layoutPage,
  layoutTable,
  morePagesText,
  note,
  type Page,
  paintState,
  someKeys,
  type Terminal,
} from "../base/terminal.ts";
import type { AnswerOf } from "../../work/operations.ts";
import { waitWithProgress } from "../base/waiting.ts";
import {
  attemptsText,
  checkText,
  metadataFields,
  notableAttempts,
  progressText,
} from "../text/run.ts";

/** A run as commands name it. */
export const RUN_ARGUMENT: CommandSubject = {
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
    argument: ["<asset...>", "assets to run: keys, +key, key+, label:name=value"],
    flags: {
      partitions: option.text("--partitions <keys>", "partition keys separated by commas"),
      runConfig: option.json("--run-config <json>", "what the tasks see as their config"),
      labels: option.labels("--label <key=value>", "a label; may be repeated"),
      priority: option.integer("--priority <n>", "higher goes first (default: 0)", -100, 100),
      code_version: option.text(
        "--code-version <text>",
        "the version of the code that this is for",
      ),
      run_key: option.text(
        "--run-key <text>",
        "a key under which only one request is ever carried out",
      ),
      on_conflict: option.choice(
        "--on-conflict <what>",
        "when another request has the run key (default: refuse)",
        ["refuse", "existing"],
      ),
      requestId: option.requestId("never makes a second"),
      wait: option.wait("show progress until the run ends, and fail when it failed"),
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
      if (wait !== true) {
        const next = nextSteps(cli.terminal, api, {
          show: `pawl run show ${shortId(run_id)}`,
          logs: `pawl logs ${shortId(run_id)} --follow`,
          page: `runs/${run_id}`,
        });
        const later = idleText(api, "runs begin");
        return { ...outcomeOf(requested, () => `${message} ${run_id}${later}`), ...next };
      }
      note(cli.terminal, `Run ${run_id}`);
      return watchRun(cli, api, run_id, requested);
    },
  }),
  list: subcommand({
    description: "list runs, newest first",
    flags: {
      status: option.states("--status <states>", "only these, such as running,failed"),
      backfill_id: option.text("--backfill <id>", "only those of this backfill"),
      since: option.instant("--since <time>", "only those requested since"),
      until: option.instant("--until <time>", "only those requested before"),
      ...PAGE,
    },
    async run({ terminal, client, flags: query }) {
      const page = await client.call("listRuns", { query });
      const sources = page.items.map(({ trigger_source_ref }) => trigger_source_ref);
      const names = terminal.json ? new Map() : await namesBehind(client, sources);
      return outcomeOf(page, () => runsText(terminal, page, names));
    },
  }),
  show: subcommand({
    description: "show a run with its tasks, attempts and errors",
    about: RUN_ARGUMENT,
    async run({ terminal, client, ref: run_id }) {
      const params = { run_id };
      const document = await client.call("getRun", { params });
      const { items: tasks } = await client.call("listTasks", { params, query: { limit: 50 } });
      const timeline = await client.call("getRunTimeline", { params });
      const attempts = await notableAttempts(client, timeline);
      const names = await namesBehind(client, [document.trigger_source_ref]);
      const made = await metadataOf(client, tasks);
      return outcomeOf(
        { ...document, tasks, attempts, metadata: made },
        () =>
          [runText(terminal, document, tasks, names), ...made.map(metadataText)].join("\n\n") +
          attemptsText(terminal, attempts),
      );
    },
  }),
  cancel: operation("cancelRun", {
    description: "cancel a run",
    about: RUN_ARGUMENT,
    flags: { reason: REASON },
    text: (terminal, { message, run_id, state }) =>
      `${message} ${run_id} is ${paintState(terminal, state)}.`,
  }),
};

/** Tasks of a run whose metadata is shown: each is looked up by itself. */
const METADATA_TASKS_MAX = 10;

/** What tasks said of what they made. */
type TaskMetadata = Pick<TaskDocument, "task_key" | "asset_key" | "partition_keys"> & {
  metadata: Json;
  checks: AnswerOf<"getTask">["checks"];
};

/** What the first tasks that succeeded said of what they made. */
async function metadataOf(client: Client, tasks: readonly TaskDocument[]): Promise<TaskMetadata[]> {
  const made = tasks.filter(({ state }) => state === "SUCCEEDED").slice(0, METADATA_TASKS_MAX);
  const found: TaskMetadata[] = [];
  for (const { run_id, task_key, asset_key, partition_keys } of made) {
    const task = await client.call("getTask", { params: { run_id, task_key } });
    const { metadata, checks } = task;
    if (metadata === null && checks.length === 0) continue;
    found.push({ task_key, asset_key, partition_keys, metadata, checks });
  }
  return found;
}

function metadataText(made: TaskMetadata): string {
  const { task_key, asset_key, partition_keys, metadata, checks } = made;
  const heading = `task ${task_key}: ${asset_key} ${keysText(partition_keys)}`.trimEnd();
  const facts = isDocument(metadata)
    ? layoutFields(metadataFields(metadata))
    : JSON.stringify(metadata);
  const judged = checks.map((check) => {
    const { partition_count: count, partition_keys: keys } = check;
    const many = count > 1 ? ` (${counted(count, "partition")}: ${keysText(keys)})` : "";
    return `check ${checkText(check)}${many}`;
  });
  return [heading, ...(metadata === null ? [] : [facts]), ...judged].join("\n");
}

/** Adds the commands about runs. */
export function addRunCommands(program: Command, cli: Cli): void {
  addSubcommands(program.command("run").description("run assets once"), cli, RUNS);
}

/** Adds the command that lists run key conflicts. */
export function addConflictsCommand(program: Command, cli: Cli): void {
  const conflicts = subcommand({
    description: "list requests that used a run key of another request",
    flags: {
      since: option.instant("--since <time>", "only those found since"),
      until: option.instant("--until <time>", "only those found before"),
      ...PAGE,
    },
    async run({ terminal, client, flags: query }) {
      const page = await client.call("listConflicts", { query });
      const sources = page.items.flatMap(({ first, conflicting }): TriggerSource[] => [
        first.trigger_source_ref,
        conflicting.trigger_source_ref,
      ]);
      const names = terminal.json ? new Map() : await namesBehind(client, sources);
      return outcomeOf(page, () => conflictsText(terminal, page, names));
    },
  });
  addSubcommands(program, cli, { conflicts });
}

/** Shows the progress of a run that was asked for until it ends, and says how it did. */
export async function watchRun(
  cli: Cli,
  api: Api,
  run_id: string,
  asked: object,
): Promise<Outcome> {
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
  const { state } = document;
  return outcomeOf(
    { ...asked, state, result: document },
    () => `Run ${run_id} ${paintState(cli.terminal, state)}: ${tasksText(document)}.`,
    state === "SUCCEEDED" ? null : failureOf(document),
  );
}

function failureOf({ run_id, state, first_error: error }: RunDocument): PawlError {
  const first = error === null ? "" : ` The first error: ${error.message.replace(/\.$/, "")}.`;
  return new PawlError("WORK_FAILED", `Run ${shortId(run_id)} ended as ${state}.${first}`, {
    details: { run_id, state },
  });
}

/** Who or what triggered a run. */
type TriggerSource = RunDocument["trigger_source_ref"];

/** Names of schedules and sensors by their ids, as far as they are known. */
type Names = ReadonlyMap<string, string>;

/** The names of what triggered runs by itself; nothing is asked of the server without any. */
async function namesBehind(client: Client, sources: readonly TriggerSource[]): Promise<Names> {
  const names = new Map<string, string>();
  if (sources.some(({ type }) => type === "schedule")) {
    const query = { status: "ACTIVE,PAUSED,DELETED", limit: 200 };
    const { items } = await client.call("listSchedules", { query });
    for (const { schedule_id, name } of items) names.set(schedule_id, name);
  }
  if (sources.some(({ type }) => type === "sensor")) {
    const query = { status: "ACTIVE,PAUSED,ERROR,DELETED", limit: 200 };
    const { items } = await client.call("listSensors", { query });
    for (const { sensor_id, name } of items) names.set(sensor_id, name);
  }
  return names;
}

/** Who or what triggered a run, in a few words. */
function triggerText(source: TriggerSource, names: Names): string {
  switch (source.type) {
    case "backfill":
      return `backfill ${shortId(source.backfill_id)}:${source.chunk_id.split(":").at(-1)}`;
    case "schedule":
      return `schedule ${names.get(source.schedule_id) ?? shortId(source.schedule_id)}`;
    case "sensor":
      return `sensor ${names.get(source.sensor_id) ?? shortId(source.sensor_id)}`;
    case "sync":
      return `sync ${shortId(source.sync_id)}:${source.segment_index}`;
    case "shards":
      return source.work.work === "split"
        ? `split ${shortId(source.work.split_id)}`
        : `move ${shortId(source.work.move_id)}`;
    case "work":
      return `${source.kind} ${shortId(source.id)}:${source.index}`;
    case "manual":
      return source.user_id;
  }
}

/** The same with the tick or the request that it was. */
function triggerDetail(source: TriggerSource, names: Names): string {
  const text = triggerText(source, names);
  switch (source.type) {
    case "backfill":
      return `backfill ${source.backfill_id}, chunk ${source.chunk_id.split(":").at(-1)}`;
    case "schedule":
      return `${text}, tick ${source.tick_id}`;
    case "sensor":
      return `${text}, evaluation ${source.eval_id}`;
    case "sync":
      return `sync ${source.sync_id}, segment ${source.segment_index}, ${source.purpose}`;
    case "shards":
      return source.work.work === "split"
        ? `split ${source.work.split_id}, step ${source.work.n}, ${source.work.step}`
        : `move ${source.work.move_id}, ${source.work.step} ${source.work.index ?? ""}`.trimEnd();
    case "work":
      return `${source.kind} ${source.id}, part ${source.index}`;
    case "manual":
      return `${text}, request ${source.request_id}`;
  }
}

/** How many tasks of a run were worked through; what was cancelled was not. */
function doneTasks(run: RunDocument): number {
  return run.tasks_succeeded + run.tasks_failed + run.tasks_skipped;
}

/** How many tasks of a run stand where: `3 succeeded, 1 failed`. */
function tasksText(run: RunDocument): string {
  const counts = countsText([
    [run.tasks_waiting, "waiting"],
    [run.tasks_ready, "ready"],
    [run.tasks_running, "running"],
    [run.tasks_retry_wait, "waiting for a retry"],
    [run.tasks_succeeded, "succeeded"],
    [run.tasks_failed, "failed"],
    [run.tasks_cancelled, "cancelled"],
    [run.tasks_skipped, "skipped"],
  ]);
  return counts || "no tasks";
}

/** A page of runs. */
function runsText(terminal: Terminal, page: Page<RunDocument>, names: Names): string {
  return layoutPage(page, "There are no runs.", [
    ["ID", ({ run_id }) => shortId(run_id)],
    ["STATE", ({ state }) => paintState(terminal, state)],
    ["ASSETS", ({ asset_selection }) => asset_selection.join(", ")],
    ["TASKS", (run) => `${doneTasks(run)}/${run.tasks_total}`, "right"],
    ["FAILED", ({ tasks_failed }) => String(tasks_failed), "right"],
    ["TRIGGERED BY", ({ trigger_source_ref }) => triggerText(trigger_source_ref, names)],
    ["REQUESTED", ({ requested_at }) => relativeTime(requested_at, terminal.now())],
    ["TOOK", tookText, "right"],
  ]);
}

/** A run and its first tasks. */
function runText(
  terminal: Terminal,
  run: RunDocument,
  tasks: readonly TaskDocument[],
  names: Names,
): string {
  const fields = layoutFields([
    ["run", run.run_id],
    ["key", run.run_key],
    ["state", paintState(terminal, run.state)],
    ["assets", run.asset_selection.join(", ")],
    ["tasks", `${run.tasks_total}: ${tasksText(run)}`],
    ["triggered by", triggerDetail(run.trigger_source_ref, names)],
    ["requested", relativeTime(run.requested_at, terminal.now())],
    ["took", tookText(run)],
    ["first error", errorText(run.first_error)],
  ]);
  const table = layoutTable(tasks, [
    ["TASK", ({ task_key }) => String(task_key), "right"],
    ["STATE", ({ state }) => paintState(terminal, state)],
    ["ASSET", ({ asset_key }) => asset_key],
    ["PARTITIONS", ({ partition_keys }) => keysText(partition_keys)],
    ["ATTEMPT", ({ attempt }) => String(attempt), "right"],
    ["TOOK", tookText, "right"],
    ...(tasks.some(({ progress }) => progress !== null) ? [PROGRESS] : []),
    [
      "NOTE",
      ({ error, waits_for, lacks_worker }) =>
        waits_for?.message ??
        error?.message ??
        (lacks_worker ? "no worker has asked for its asset" : ""),
    ],
  ]);
  return `${fields}\n\n${table}`;
}

const PROGRESS: Column<TaskDocument> = ["PROGRESS", progressText];

function keysText(keys: readonly string[]): string {
  if (keys.length <= 2) return keys.join(", ");
  return `${keys[0]} … ${keys.at(-1)} (${keys.length})`;
}

function tookText(work: { started_at: string | null; finished_at: string | null }): string {
  const { started_at, finished_at } = work;
  if (started_at === null || finished_at === null) return "-";
  return formatDuration(epochMsOf(finished_at) - epochMsOf(started_at));
}

/** A page of run key conflicts. */
function conflictsText(terminal: Terminal, page: Page<ConflictDocument>, names: Names): string {
  if (page.items.length === 0) return "There are no conflicts.";
  const texts = page.items.map((conflict) => conflictText(conflict, names, terminal.now()));
  return texts.join("\n\n") + morePagesText(page.next_cursor);
}

function conflictText(conflict: ConflictDocument, names: Names, now: number): string {
  const side = ({ trigger_source_ref, occurred_at, pos }: ConflictDocument["first"]): string =>
    `${triggerDetail(trigger_source_ref, names)} (${relativeTime(occurred_at, now)}, pos ${pos})`;
  return layoutFields([
    ["run key", conflict.run_key],
    ["run", conflict.run_id],
    ["made by", side(conflict.first)],
    ["refused to", side(conflict.conflicting)],
    ...conflict.differences.map(
      (field): Field => [
        LABELS[field],
        field === "config"
          ? `${short(conflict.first.config)} → ${short(conflict.conflicting.config)}`
          : keysDifference(conflict.first[field], conflict.conflicting[field]),
      ],
    ),
  ]);
}

const LABELS = {
  asset_selection: "assets",
  partition_selection: "partitions",
  config: "config",
} as const;

/** What only one of two requests names. */
function keysDifference(first: readonly string[] | null, later: readonly string[] | null): string {
  const [one, other] = [new Set(first ?? []), new Set(later ?? [])];
  const onlyFirst = [...one].filter((key) => !other.has(key));
  const onlyLater = [...other].filter((key) => !one.has(key));
  const sides = [
    ...(onlyFirst.length === 0 ? [] : [`only the first: ${someKeys(onlyFirst, KEYS_LISTED_MAX)}`]),
    ...(onlyLater.length === 0 ? [] : [`only the later: ${someKeys(onlyLater, KEYS_LISTED_MAX)}`]),
  ];
  return sides.join("; ") || "the same, in another order";
}

const KEYS_LISTED_MAX = 5;

function short(value: unknown): string {
  const text = JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}
