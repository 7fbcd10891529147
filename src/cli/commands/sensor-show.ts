import type { Command } from "commander";
import type {
  SensorDocument,
  SensorEvalDocument,
  SensorMessageDocument,
} from "../../work/sensor/api.ts";
import { act, type Cli, type GlobalOptions } from "../cli.ts";
import {
  formatDuration,
  relativeTime,
  instantOption,
  integerOption,
  statesOption,
} from "../base/options.ts";
import { given } from "../base/omit-undefined.ts";
import { morePagesText, type PageOptions, withApi } from "../base/api.ts";
import {
  cursorText,
  evalNote,
  runsText,
  sourceText,
  targetText,
  watchText,
  workerText,
} from "../text/sensor.ts";
import {
  sensorRefOf,
  shortId,
  layoutFields,
  layoutTable,
  paintState,
  print,
  type Terminal,
} from "../base/terminal.ts";

const ARGUMENT = ["<sensor>", "the sensor's name, its id, or the short form of that"] as const;

/** Adds the commands that look at sensors. */
export function addSensorShowCommands(sensor: Command, cli: Cli): void {
  addList(sensor, cli);
  sensor
    .command("show")
    .description("show a sensor, how it is doing, and its last evaluations")
    .argument(...ARGUMENT)
    .action(
      act(async (options: object, name: string) => {
        await withApi(cli, options, "rows", async ({ client }) => {
          const params = { sensor_id: await sensorRefOf(client, name) };
          const document = await client.call("getSensor", { params });
          const query = { limit: 10 };
          const { items: evals } = await client.call("listEvals", { params, query });
          print(cli.terminal, { ...document, evals }, () =>
            showText(cli.terminal, document, evals),
          );
        });
      }),
    );
  addEvals(sensor, cli);
  addMessages(sensor, cli);
}

type ListOptions = PageOptions & { status?: string; mode?: string };

function addList(sensor: Command, cli: Cli): void {
  sensor
    .command("list")
    .description("list sensors by name")
    .addOption(statesOption("--status <states>", "only these, such as error or deleted"))
    .option("--mode <mode>", "only push, or only poll")
    .addOption(integerOption("--limit <n>", "how many (default: 50)", 1, 200))
    .option("--cursor <text>", "where the page before ended")
    .action(
      act(async ({ status, mode, limit, cursor, ...options }: ListOptions) => {
        const query = given({ status, mode: mode as "push" | "poll" | undefined, limit, cursor });
        await withApi(cli, options, "rows", async ({ client }) => {
          const page = await client.call("listSensors", { query });
          print(cli.terminal, page, () => listText(cli.terminal, page));
        });
      }),
    );
}

type TimedOptions = PageOptions & { status?: string; since?: string; until?: string };

function addTimedOptions(command: Command, cli: Cli, statuses: string): Command {
  return command
    .argument(...ARGUMENT)
    .addOption(statesOption("--status <states>", `only ${statuses}`))
    .addOption(instantOption("--since <time>", "only since", cli.terminal.now))
    .addOption(instantOption("--until <time>", "only before", cli.terminal.now))
    .addOption(integerOption("--limit <n>", "how many (default: 50)", 1, 200))
    .option("--cursor <text>", "where the page before ended");
}

function addEvals(sensor: Command, cli: Cli): void {
  addTimedOptions(sensor.command("evals"), cli, "triggered, error, skipped_stale_cursor")
    .description("list the evaluations of a sensor that something came of, newest first")
    .action(
      act(async (all: TimedOptions & GlobalOptions, name: string) => {
        const { status, since, until, limit, cursor, ...options } = all;
        const query = given({ status: status?.toLowerCase(), since, until, limit, cursor });
        await withApi(cli, options, "rows", async ({ client }) => {
          const params = { sensor_id: await sensorRefOf(client, name) };
          const page = await client.call("listEvals", { params, query });
          print(cli.terminal, page, () => {
            if (page.items.length === 0) return "There are no such evaluations.";
            return evalsText(cli.terminal, page.items) + morePagesText(page.next_cursor);
          });
        });
      }),
    );
}

function addMessages(sensor: Command, cli: Cli): void {
  addTimedOptions(sensor.command("messages"), cli, "pending, evaluated, failed")
    .description("list the messages of a push sensor, newest first")
    .action(
      act(async (all: TimedOptions & GlobalOptions, name: string) => {
        const { status, since, until, limit, cursor, ...options } = all;
        const query = given({ status, since, until, limit, cursor });
        await withApi(cli, options, "rows", async ({ client }) => {
          const params = { sensor_id: await sensorRefOf(client, name) };
          const page = await client.call("listMessages", { params, query });
          print(cli.terminal, page, () => {
            if (page.items.length === 0) return "There are no such messages.";
            return messagesText(cli.terminal, page.items) + morePagesText(page.next_cursor);
          });
        });
      }),
    );
}

function listText(
  terminal: Terminal,
  page: { items: readonly SensorDocument[]; next_cursor: string | null },
): string {
  const more = morePagesText(page.next_cursor);
  if (page.items.length === 0)
    return `There are no such sensors; \`pawl sensor create\` makes one.${more}`;
  const now = terminal.now();
  const table = layoutTable(
    [
      { heading: "NAME" },
      { heading: "STATE" },
      { heading: "WAITS FOR" },
      { heading: "ASKS FOR" },
      { heading: "LOOKED" },
      { heading: "LAST" },
      { heading: "RUNS", align: "right" },
      { heading: "LAG", align: "right" },
      { heading: "ID" },
    ],
    page.items.map((sensor) => [
      sensor.name,
      paintState(terminal, sensor.state),
      watchText(sensor),
      targetText(sensor),
      relativeTime(sensor.last_looked_at ?? sensor.last_message_at, now),
      relativeTime(sensor.last_evaluation_at, now),
      String(sensor.runs_requested),
      sensor.lag_seconds === 0 ? "-" : formatDuration(sensor.lag_seconds * 1_000),
      shortId(sensor.sensor_id),
    ]),
  );
  return table + more;
}

function showText(
  terminal: Terminal,
  sensor: SensorDocument,
  evals: readonly SensorEvalDocument[],
): string {
  const now = terminal.now();
  const isPush = sensor.mode === "push";
  const { error, labels } = sensor;
  const fields: [string, string | null][] = [
    ["sensor", sensor.name],
    ["id", sensor.sensor_id],
    ["state", `${paintState(terminal, sensor.state)} (version ${sensor.state_version})`],
    ["reason", sensor.reason],
    ["error", error === null ? null : `${error.class}: ${error.message}`],
    ["description", sensor.description ?? null],
    ["waits for", watchText(sensor)],
    ["asks for", targetText(sensor)],
    ["run key", sensor.target?.run_key ?? null],
    ["every", isPush ? null : formatDuration(sensor.min_interval_ms)],
    ["cursor", isPush ? null : (sensor.cursor ?? "the start")],
    ["secret", isPush ? (sensor.has_secret ? "there is one" : "none") : null],
    ["messages", isPush ? messageCounts(sensor) : null],
    ["worker", workerText(sensor)],
    ["looked", isPush ? null : looksText(sensor, now)],
    ["next", sensor.next_due_at === null ? null : relativeTime(sensor.next_due_at, now)],
    ["lag", sensor.lag_seconds === 0 ? null : formatDuration(sensor.lag_seconds * 1_000)],
    ["evaluations", `${sensor.evaluations}, which asked for ${runCount(sensor.runs_requested)}`],
    [
      "labels",
      Object.entries(labels)
        .map(([key, value]) => `${key}=${value}`)
        .join(", ") || null,
    ],
    ["defined by", sensor.origin === "code" ? "code" : "the API"],
    ["created", relativeTime(sensor.created_at, now)],
  ];
  const told = fields.flatMap(([name, text]): [string, string][] =>
    text === null ? [] : [[name, text]],
  );
  const table = evals.length === 0 ? "" : `\n\n${evalsText(terminal, evals)}`;
  return layoutFields(told) + table;
}

function runCount(count: number): string {
  return count === 1 ? "1 run" : `${count} runs`;
}

function messageCounts({ messages_received, messages_pending }: SensorDocument): string {
  return `${messages_received} received, ${messages_pending} pending`;
}

function looksText({ last_looked_at, looks }: SensorDocument, now: number): string {
  if (last_looked_at === null) return "never";
  const vain = looks === 0 ? "" : `, ${looks} times without anything new`;
  return relativeTime(last_looked_at, now) + vain;
}

function evalsText(terminal: Terminal, evals: readonly SensorEvalDocument[]): string {
  return layoutTable(
    [
      { heading: "EVALUATED" },
      { heading: "STATUS" },
      { heading: "BY" },
      { heading: "CURSOR" },
      { heading: "RUNS" },
      { heading: "NOTE" },
    ],
    evals.map((evaluation) => [
      relativeTime(evaluation.evaluated_at, terminal.now()),
      paintState(terminal, evaluation.status),
      sourceText(evaluation),
      evaluation.trigger_source.type === "push"
        ? "-"
        : `${cursorText(evaluation.cursor_before)} → ${cursorText(evaluation.cursor_after)}`,
      runsText(evaluation.run_requests),
      evalNote(evaluation),
    ]),
  );
}

function messagesText(terminal: Terminal, messages: readonly SensorMessageDocument[]): string {
  return layoutTable(
    [
      { heading: "MESSAGE" },
      { heading: "STATE" },
      { heading: "SOURCE" },
      { heading: "TYPE" },
      { heading: "RECEIVED" },
      { heading: "PAYLOAD" },
    ],
    messages.map((message) => [
      message.message_id,
      paintState(terminal, message.state),
      message.source,
      message.message_type ?? "-",
      relativeTime(message.received_at, terminal.now()),
      payloadText(message),
    ]),
  );
}

function payloadText({ payload, payload_length }: SensorMessageDocument): string {
  if (payload_length === null) return "-";
  const text = payload === null && payload_length > 4 ? `${payload_length} characters` : "";
  if (text !== "") return text;
  const shown = JSON.stringify(payload);
  return shown.length <= 60 ? shown : `${shown.slice(0, 59)}…`;
}
