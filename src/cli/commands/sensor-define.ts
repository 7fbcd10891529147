import type { Command } from "commander";
import { UpdateSensorBody } from "../../core/api/sensor-operations.ts";
import { PawlError } from "../../core/errors.ts";
import { changedDefinition, changedText, optionMissing } from "../changed-definition.ts";
import { act, type Cli, type GlobalOptions } from "../cli.ts";
import { given } from "../given.ts";
import {
  durationOption,
  integerOption,
  jsonOption,
  labelsOption,
  repeatedOption,
} from "../option-values.ts";
import { withApi } from "../reach-api.ts";
import { type SensorDefinition, type SensorFlags, sensorOfFlags } from "../sensor-flags.ts";
import { sensorRefOf } from "../short-id.ts";
import { print } from "../terminal.ts";
import { versionOption } from "./schedule-define.ts";

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
