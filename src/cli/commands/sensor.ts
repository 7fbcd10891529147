import type { Command } from "commander";
import type { Client } from "../../client/client.ts";
import {
  type EvaluatedSensor,
  type SensorTransition,
  UpdateSensorBody,
} from "../../work/sensor/api.ts";
import type { Json } from "../../kernel/canonical.ts";
import { PawlError } from "../../kernel/errors.ts";
import { act, type Cli, type GlobalOptions } from "../cli.ts";
import { given } from "../base/omit-undefined.ts";
import {
  durationOption,
  jsonOption,
  labelsOption,
  integerOption,
  repeatedOption,
} from "../base/options.ts";
import { withApi } from "../base/api.ts";
import {
  cursorText,
  evalNote,
  runsText,
  type SensorDefinition,
  type SensorFlags,
  sensorOfFlags,
} from "../text/sensor.ts";
import {
  sensorRefOf,
  layoutTable,
  note,
  paintState,
  print,
  type Terminal,
} from "../base/terminal.ts";
import { versionOption } from "./schedule.ts";
import { changedDefinition, changedText, optionMissing } from "../base/project.ts";

const ARGUMENT = ["<sensor>", "the sensor's name, its id, or the short form of that"] as const;

/** Adds the commands that stop, start, move and evaluate sensors. */
export function addSensorChangeCommands(sensor: Command, cli: Cli): void {
  changeCommand(sensor.command("pause"), cli, (client, input) =>
    client.call("pauseSensor", input),
  ).description("stop a sensor; messages that come are kept for it");
  changeCommand(sensor.command("resume"), cli, (client, input) =>
    client.call("resumeSensor", input),
  ).description("let a sensor act again, from the cursor and the messages it had");
  changeCommand(sensor.command("reset-cursor"), cli, (client, { params, body }, to) =>
    client.call("resetCursor", { params, body: { ...body, cursor: to ?? null } }),
  )
    .description("let a sensor look from the start again, or from where it once was")
    .option("--to <cursor>", "a cursor as `pawl sensor evals` shows it (default: the start)");
  addEvaluate(sensor, cli);
  addSecret(sensor, cli);
}

type ChangeOptions = GlobalOptions & {
  reason?: string;
  expectedStateVersion?: number;
  to?: string;
};

type Change = {
  params: { sensor_id: string };
  body: { reason?: string; expected_state_version?: number };
};

function changeCommand(
  command: Command,
  cli: Cli,
  send: (client: Client, input: Change, to: string | undefined) => Promise<SensorTransition>,
): Command {
  return command
    .argument(...ARGUMENT)
    .option("--reason <text>", "why, for the record")
    .addOption(versionOption())
    .action(
      act(async ({ reason, expectedStateVersion, to, ...options }: ChangeOptions, text: string) => {
        await withApi(cli, options, "rows", async ({ client }) => {
          const params = { sensor_id: await sensorRefOf(client, text) };
          const body = given({ reason, expected_state_version: expectedStateVersion });
          const changed = await send(client, { params, body }, to);
          print(cli.terminal, changed, () => {
            const { message, state_version } = changed;
            return `${message.replace(/\.$/, "")} (version ${state_version}).`;
          });
        });
      }),
    );
}

type EvaluateOptions = GlobalOptions & {
  payload?: { value: Json };
  attribute?: Record<string, string>;
  messageId?: string;
  dryRun?: boolean;
  requestId?: string;
  timeout?: number;
};

function addEvaluate(sensor: Command, cli: Cli): void {
  sensor
    .command("evaluate")
    .description("evaluate a sensor now, also while it is paused")
    .argument(...ARGUMENT)
    .option("--dry-run", "only say what would come of it")
    .addOption(jsonOption("--payload <json>", "of a push sensor: the sample that it sees"))
    .addOption(labelsOption("--attribute <key=value>", "of the sample; may be repeated"))
    .option("--message-id <id>", "instead of a sample: a message whose evaluation failed")
    .option("--request-id <text>", "a name for the request; the same name is evaluated once")
    .addOption(durationOption("--timeout <duration>", "how long to wait for it (default: 30s)"))
    .action(act((options: EvaluateOptions, name: string) => evaluate(cli, options, name)));
}

async function evaluate(cli: Cli, options: EvaluateOptions, name: string): Promise<void> {
  const body = given({
    payload: options.payload?.value,
    attributes: options.attribute,
    message_id: options.messageId,
    dry_run: options.dryRun,
    timeout_ms: options.timeout,
  });
  await withApi(cli, options, "work", async ({ client }) => {
    const params = { sensor_id: await sensorRefOf(client, name) };
    const { requestId: idempotencyKey } = options;
    const made = await client.call("evaluateSensor", { params, body, idempotencyKey });
    const isFailed = made.status === "error";
    if (!isFailed || cli.terminal.json) {
      print(cli.terminal, made, () => evaluatedText(cli.terminal, made));
    }
    if (isFailed) {
      throw new PawlError("WORK_FAILED", made.message, { details: { sensor: name } });
    }
  });
}

function evaluatedText(terminal: Terminal, made: EvaluatedSensor): string {
  const { cursor_before, cursor_after, run_requests, message } = made;
  const moved =
    cursor_before === cursor_after
      ? ""
      : `\ncursor  ${cursorText(cursor_before)} → ${cursorText(cursor_after)}`;
  if (run_requests.length === 0) return message + moved;
  const table = layoutTable(
    [
      { heading: "ASSETS" },
      { heading: "PARTITIONS" },
      { heading: "OUTCOME" },
      { heading: "RUN" },
      { heading: "NOTE" },
    ],
    run_requests.map((request) => [
      request.asset_selection.join(", "),
      partitionsText(request.partition_selection),
      paintState(terminal, request.outcome),
      made.dry_run ? "-" : runsText([request]),
      evalNote({ error: null, run_requests: [request] }),
    ]),
  );
  return `${message}${moved}\n\n${table}`;
}

function partitionsText(keys: readonly string[] | null): string {
  if (keys === null) return "-";
  return keys.length <= 2 ? keys.join(", ") : `${keys[0]}, … (${keys.length})`;
}

type SecretOptions = GlobalOptions & { overlap?: number };

function addSecret(sensor: Command, cli: Cli): void {
  sensor
    .command("secret")
    .description("make a new secret for the messages of a push sensor; it is shown this once")
    .argument(...ARGUMENT)
    .addOption(
      durationOption("--overlap <duration>", "how long the one before stays good (default: 24h)"),
    )
    .action(
      act(async ({ overlap, ...options }: SecretOptions, text: string) => {
        await withApi(cli, options, "rows", async ({ client, isEmbedded }) => {
          const params = { sensor_id: await sensorRefOf(client, text) };
          const seconds = overlap === undefined ? undefined : Math.ceil(overlap / 1_000);
          const body = given({ overlap_seconds: seconds });
          const made = await client.call("createSensorSecret", { params, body });
          print(cli.terminal, made, () => made.secret);
          const url = `${isEmbedded ? "" : client.url}${made.push_path}`;
          note(cli.terminal, `Keep it now: it is not shown again. Messages go to POST ${url}`);
        });
      }),
    );
}

type CreateOptions = GlobalOptions & SensorFlags & { requestId?: string };
type UpdateOptions = GlobalOptions & SensorFlags & { expectedStateVersion?: number };

/** Adds the commands that make, change and delete sensors. */
export function addSensorDefineCommands(sensor: Command, cli: Cli): void {
  addDefinitionOptions(sensor.command("create"))
    .description("create a sensor that needs no code")
    .argument("<name>", "what to call it")
    .option("--request-id <text>", "a name for the request; the same name never creates a second")
    .action(act((options: CreateOptions, name: string) => create(cli, options, name)));
  addDefinitionOptions(sensor.command("update"))
    .description("change a sensor; what no option names stays as it is, also its cursor")
    .argument("<sensor>", "the sensor's name, its id, or the short form of that")
    .option("--enabled", "let it act again")
    .addOption(versionOption())
    .action(act((options: UpdateOptions, name: string) => update(cli, options, name)));
  sensor
    .command("delete")
    .description("delete a sensor; what it did stays on record")
    .argument("<sensor>", "the sensor's name, its id, or the short form of that")
    .addOption(versionOption())
    .action(
      act(async ({ expectedStateVersion, ...options }: UpdateOptions, name: string) => {
        await withApi(cli, options, "rows", async ({ client }) => {
          const deleted = await client.call("deleteSensor", {
            params: { sensor_id: await sensorRefOf(client, name) },
            query: given({ expected_state_version: expectedStateVersion }),
          });
          print(cli.terminal, deleted, () => deleted.message);
        });
      }),
    );
}

function addDefinitionOptions(command: Command): Command {
  return command
    .option("--push", "take messages instead of looking")
    .option("--files <folder>", "watch for files on the worker's machine")
    .option("--pattern <pattern>", "of files: which, such as '*.csv'")
    .option("--recursive", "of files: in folders below, too")
    .option("--no-recursive", "of files: not in folders below")
    .addOption(durationOption("--settle <duration>", "of files: unchanged for so long"))
    .option("--rows <table>", "watch for rows of a SQL table")
    .option("--watermark <column>", "of rows: the column that only grows")
    .option("--key <column>", "of rows: tells those of one watermark apart")
    .option("--database-env <name>", "of rows: the worker's variable with the database's address")
    .addOption(integerOption("--row-limit <n>", "of rows: how many at once", 1, 10_000))
    .option("--materializations <asset>", "watch for partitions of an asset that were made")
    .option("--run-failures [assets]", "watch for runs that fail, of some assets or of any")
    .addOption(repeatedOption("--asset <key>", "an asset to run; may be repeated"))
    .option("--partition-key <text>", "which partition, such as '{stem}' or '{payload.day}'")
    .option("--run-key <text>", "what makes two runs the same, such as '{path}'; none for nothing")
    .addOption(jsonOption("--run-config <json>", "what the tasks see as their config"))
    .addOption(durationOption("--min-interval <duration>", "between two looks (default: 30s)"))
    .addOption(durationOption("--timeout <duration>", "for one look (default: 1m)"))
    .addOption(integerOption("--max-run-requests <n>", "runs at once (default: 100)", 1, 1_000))
    .option("--disabled", "do not let it act")
    .addOption(labelsOption("--label <key=value>", "a label; may be repeated, and replaces all"))
    .option("--description <text>", "what it is for");
}

async function create(cli: Cli, options: CreateOptions, name: string): Promise<void> {
  const { mode, target, ...rest } = sensorOfFlags(options);
  if (mode === undefined) {
    throw new PawlError(
      "INPUT_INVALID",
      "Expected what to wait for: --push, --files, --rows, --materializations or --run-failures.",
    );
  }
  if (target === undefined) throw optionMissing("--asset", "at least one asset to run");
  await withApi(cli, options, "definitions", async ({ client, isEmbedded }) => {
    const created = await client.call("createSensor", {
      body: { name, mode, target, ...rest },
      idempotencyKey: options.requestId,
    });
    print(cli.terminal, created, () => {
      const secret =
        mode === "push"
          ? `\n\`pawl sensor secret ${name}\` makes the secret that its messages are signed with.`
          : "";
      const idle = isEmbedded
        ? "\nNo server is running; it acts while one does, see `pawl start`."
        : "";
      return `Created sensor ${name} (${created.sensor_id}).${secret}${idle}`;
    });
  });
}

async function update(cli: Cli, options: UpdateOptions, name: string): Promise<void> {
  await withApi(cli, options, "definitions", async ({ client }) => {
    const params = { sensor_id: await sensorRefOf(client, name) };
    const current = await client.call("getSensor", { params });
    const { expectedStateVersion } = options;
    const body = changedDefinition<SensorDefinition>({
      current,
      body: UpdateSensorBody,
      changes: sensorOfFlags(options, current),
      example: "--min-interval",
      expectedStateVersion,
    });
    const changed = await client.call("updateSensor", { params, body });
    print(cli.terminal, changed, () => changedText("Sensor", changed));
  });
}
