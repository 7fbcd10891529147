import type { Command } from "commander";
import type { Client } from "../../client/client.ts";
import type { EvaluatedSensor } from "../../core/api/sensor-documents.ts";
import type { SensorTransition } from "../../core/api/sensor-operations.ts";
import type { Json } from "../../core/canonical.ts";
import { PawlError } from "../../core/errors.ts";
import { act, type Cli, type GlobalOptions } from "../cli.ts";
import { given } from "../given.ts";
import { durationOption, jsonOption, labelsOption } from "../option-values.ts";
import { withApi } from "../reach-api.ts";
import { cursorText, evalNote, runsText } from "../sensor-text.ts";
import { sensorRefOf } from "../short-id.ts";
import { layoutTable } from "../table.ts";
import { note, paintState, print, type Terminal } from "../terminal.ts";
import { versionOption } from "./schedule-define.ts";

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
