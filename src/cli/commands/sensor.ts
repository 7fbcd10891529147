import type { Command } from "commander";
import { PawlError } from "../../kernel/errors.ts";
import type { SensorTarget, WatchSpec } from "../../work/definition/spec.ts";
import type { PartInput } from "../../work/operations.ts";
import { type SensorTransition, UpdateSensorBody } from "../../work/sensor/api.ts";
import type { Cli } from "../cli.ts";
import { idleText } from "../base/api.ts";
import {
  type Flag,
  type FlagValues,
  omitUndefined,
  option,
  PAGE,
  REASON,
  VERSION,
} from "../base/options.ts";
import { optionMissing } from "../base/project.ts";
import {
  addSubcommands,
  changedDefinition,
  changedText,
  enabledOf,
  messageText,
  namedSubject,
  operation,
  orNull,
  outcomeOf,
  partsOf,
  subcommand,
} from "../base/subcommands.ts";
import type { Terminal } from "../base/terminal.ts";
import { evalsText, evaluatedText, messagesText, sensorsText, sensorText } from "../text/sensor.ts";

const SENSOR = namedSubject("sensor", "sensor_id", (client) =>
  client.each("listSensors", { query: { limit: 200, status: "ACTIVE,PAUSED,ERROR,DELETED" } }),
);

const DEFINITION = {
  push: option.switch("--push", "take messages instead of polling"),
  files: option.text("--files <folder>", "watch for files on the worker's machine"),
  pattern: option.text("--pattern <pattern>", "of files: which, such as '*.csv'"),
  recursive: option.switch("--recursive", "of files: in folders below, too"),
  noRecursive: option.switch("--no-recursive", "of files: not in folders below"),
  settle: option.duration("--settle <duration>", "of files: unchanged for so long"),
  rows: option.text("--rows <table>", "watch for rows of a SQL table"),
  watermark: option.text("--watermark <column>", "of rows: the column that only grows"),
  key: option.text("--key <column>", "of rows: tells those of one watermark apart"),
  databaseEnv: option.text(
    "--database-env <name>",
    "of rows: the worker's variable with the database's address",
  ),
  rowLimit: option.integer("--row-limit <n>", "of rows: how many at once", 1, 10_000),
  materializations: option.text(
    "--materializations <asset>",
    "watch for partitions of an asset that were made",
  ),
  runFailures: option.textOrSwitch(
    "--run-failures [assets]",
    "watch for runs that fail, of some assets or of any",
  ),
  asset: option.repeated("--asset <key>", "an asset to run; may be repeated"),
  partitionKey: option.text(
    "--partition-key <text>",
    "which partition, such as '{stem}' or '{payload.day}'",
  ),
  runKey: option.text(
    "--run-key <text>",
    "what makes two runs the same, such as '{path}'; none for nothing",
  ),
  runConfig: option.json("--run-config <json>", "what the tasks see as their config"),
  minInterval: option.duration("--min-interval <duration>", "between two polls (default: 30s)"),
  timeout: option.duration("--timeout <duration>", "for one poll (default: 1m)"),
  maxRunRequests: option.integer("--max-run-requests <n>", "runs at once (default: 100)", 1, 1_000),
  disabled: option.switch("--disabled", "do not let it act"),
  label: option.labels("--label <key=value>", "a label; may be repeated, and replaces all"),
  description: option.text("--description <text>", "what it is for"),
};

type SensorFlags = FlagValues<typeof DEFINITION> & { enabled?: boolean };

type SensorDefinition = Omit<PartInput<"updateSensor", "body">, "name" | "expected_state_version">;

/** What there is of a sensor before a change. */
type CurrentSensor = { watch: WatchSpec | null; target: SensorTarget | null };

const NOTHING: CurrentSensor = { watch: null, target: null };

/** What the flags say of a sensor's definition; what no flag names is left out, or stays. */
export function sensorOfFlags(
  flags: SensorFlags,
  current: CurrentSensor = NOTHING,
): Partial<SensorDefinition> {
  const watch = watchOf(flags, current.watch);
  if (flags.push === true && watch !== undefined) {
    throw invalid("--push: expected no watch with it, as messages are pushed to the sensor");
  }
  return omitUndefined({
    mode: flags.push === true ? ("push" as const) : watch === undefined ? undefined : "poll",
    watch: flags.push === true ? null : watch,
    target: targetOf(flags, current.target),
    min_interval_ms: flags.minInterval,
    timeout_ms: flags.timeout,
    max_run_requests: flags.maxRunRequests,
    enabled: enabledOf(flags),
    labels: flags.label,
    description: flags.description,
  }) as Partial<SensorDefinition>;
}

type Watch = NonNullable<SensorDefinition["watch"]>;

function watchOf(flags: SensorFlags, current: WatchSpec | null): Watch | undefined {
  const { files, rows, materializations, runFailures } = flags;
  const ways = Object.entries({
    "--files": files,
    "--rows": rows,
    "--materializations": materializations,
    "--run-failures": runFailures,
  }).flatMap(([name, value]) => (value === undefined ? [] : [name]));
  if (ways.length > 1) {
    throw invalid(`What to watch: expected one way, got ${ways.join(" together with ")}`);
  }
  const found = omitUndefined({
    files: filesOf(flags, current),
    rows: rowsOf(flags, current),
    materializations:
      materializations === undefined
        ? undefined
        : ({ type: "materializations", asset_key: materializations } as const),
    runFailures:
      runFailures === undefined
        ? undefined
        : ({
            type: "run_failures",
            assets: runFailures === true ? [] : partsOf([runFailures]),
          } as const),
  });
  return Object.values(found)[0];
}

function filesOf(flags: SensorFlags, current: WatchSpec | null): Watch | undefined {
  const own = omitUndefined({
    folder: flags.files,
    pattern: flags.pattern,
    recursive: flags.recursive,
    settle_ms: flags.settle,
  });
  const [first] = Object.keys(own);
  if (first === undefined) return undefined;
  const before = current?.type === "files" ? current : null;
  const folder = flags.files ?? before?.folder;
  if (folder === undefined) throw invalid(`--${flagOf(first)}: expected only with --files`);
  return { ...before, ...own, type: "files", folder };
}

function rowsOf(flags: SensorFlags, current: WatchSpec | null): Watch | undefined {
  const own = omitUndefined({
    table: flags.rows,
    watermark: flags.watermark,
    key: flags.key,
    database_env: flags.databaseEnv,
    limit: flags.rowLimit,
  });
  const [first] = Object.keys(own);
  if (first === undefined) return undefined;
  const before = current?.type === "rows" ? current : null;
  const table = flags.rows ?? before?.table;
  if (table === undefined) throw invalid(`--${flagOf(first)}: expected only with --rows`);
  const watermark = flags.watermark ?? before?.watermark;
  if (watermark === undefined) {
    throw invalid("--watermark: expected the column that only grows, got nothing");
  }
  return { ...before, ...own, type: "rows", table, watermark };
}

const FLAGS: Readonly<Record<string, string>> = {
  settle_ms: "settle",
  database_env: "database-env",
  limit: "row-limit",
};

function flagOf(field: string): string {
  return FLAGS[field] ?? field;
}

function targetOf(
  flags: SensorFlags,
  current: SensorTarget | null,
): SensorDefinition["target"] | undefined {
  const own = omitUndefined({
    asset_selection: flags.asset === undefined ? undefined : partsOf(flags.asset),
    partition_key: orNull(flags.partitionKey),
    run_key: orNull(flags.runKey),
    config: flags.runConfig?.value,
  });
  if (Object.keys(own).length === 0) return undefined;
  const asset_selection = own.asset_selection ?? current?.asset_selection;
  if (asset_selection === undefined) {
    throw invalid("--asset: expected at least one asset to run, got nothing");
  }
  return { ...current, ...own, asset_selection };
}

function invalid(message: string): PawlError {
  return new PawlError("INPUT_INVALID", `${message}.`);
}

const CHANGE = { reason: REASON, expected_state_version: VERSION };

/** What a change did, and the version that a sensor has by it. */
function changeText(_terminal: Terminal, { message, state_version }: SensorTransition): string {
  return `${message.replace(/\.$/, "")} (version ${state_version}).`;
}

/** What most changes have in common. */
const CHANGED = { about: SENSOR, flags: CHANGE, text: changeText };

/** The options of a list of what happened to a sensor. */
function timed(status: Flag<string>) {
  return {
    status,
    since: option.instant("--since <time>", "only since"),
    until: option.instant("--until <time>", "only before"),
    ...PAGE,
  };
}

const SENSORS = {
  create: subcommand({
    description: "create a sensor that needs no code",
    argument: ["<name>", "what to call it"],
    flags: {
      ...DEFINITION,
      requestId: option.requestId("never creates a second"),
    },
    need: "definitions",
    prepare({ argument: name, flags }) {
      const { mode, target, ...rest } = sensorOfFlags(flags);
      if (mode === undefined) {
        throw invalid(
          "Expected what to wait for: --push, --files, --rows, --materializations or --run-failures",
        );
      }
      if (target === undefined) throw optionMissing("--asset", "at least one asset to run");
      return { name, mode, target, ...rest };
    },
    async run({ api, client, argument: name, prepared: body, flags: { requestId } }) {
      const created = await client.call("createSensor", { body, idempotencyKey: requestId });
      const secret =
        body.mode === "push"
          ? `\n\`pawl sensor secret ${name}\` makes the secret that its messages are signed with.`
          : "";
      const idle = idleText(api, "it acts");
      return outcomeOf(
        created,
        () => `Created sensor ${name} (${created.sensor_id}).${secret}${idle}`,
      );
    },
  }),
  update: subcommand({
    description: "change a sensor; what no option names stays as it is, also its cursor",
    about: SENSOR,
    flags: {
      ...DEFINITION,
      enabled: option.switch("--enabled", "let it act again"),
      expected_state_version: VERSION,
    },
    need: "definitions",
    async run({ client, ref: sensor_id, flags }) {
      const params = { sensor_id };
      const current = await client.call("getSensor", { params });
      const body = changedDefinition<SensorDefinition>({
        current,
        body: UpdateSensorBody,
        changes: sensorOfFlags(flags, current),
        example: "--min-interval",
        expectedStateVersion: flags.expected_state_version,
      });
      const changed = await client.call("updateSensor", { params, body });
      return outcomeOf(changed, () => changedText("Sensor", changed));
    },
  }),
  delete: operation("deleteSensor", {
    description: "delete a sensor; what it did stays on record",
    about: SENSOR,
    flags: { expected_state_version: VERSION },
    text: messageText,
  }),
  list: operation("listSensors", {
    description: "list sensors by name",
    flags: {
      status: option.states("--status <states>", "only these, such as error or deleted"),
      mode: option.text("--mode <mode>", "only push, or only poll"),
      ...PAGE,
    },
    fields: ({ flags: { mode, ...query } }) =>
      mode === undefined ? query : { ...query, mode: mode as "push" | "poll" },
    text: sensorsText,
  }),
  show: subcommand({
    description: "show a sensor, how it is doing, and its last evaluations",
    about: SENSOR,
    async run({ terminal, client, ref: sensor_id }) {
      const params = { sensor_id };
      const document = await client.call("getSensor", { params });
      const { items: evals } = await client.call("listEvals", { params, query: { limit: 10 } });
      return outcomeOf({ ...document, evals }, () => sensorText(terminal, document, evals));
    },
  }),
  evals: operation("listEvals", {
    description: "list the evaluations of a sensor that something came of, newest first",
    about: SENSOR,
    flags: timed(
      option.smallStates("--status <states>", "only triggered, error, skipped_stale_cursor"),
    ),
    text: evalsText,
  }),
  messages: operation("listMessages", {
    description: "list the messages of a push sensor, newest first",
    about: SENSOR,
    flags: timed(option.states("--status <states>", "only pending, evaluated, failed")),
    text: messagesText,
  }),
  pause: operation("pauseSensor", {
    ...CHANGED,
    description: "stop a sensor; messages that come are kept for it",
  }),
  resume: operation("resumeSensor", {
    ...CHANGED,
    description: "let a sensor act again, from the cursor and the messages it had",
  }),
  "reset-cursor": operation("resetCursor", {
    description: "let a sensor poll from the start again, or from an earlier cursor",
    about: SENSOR,
    flags: {
      ...CHANGE,
      to: option.text(
        "--to <cursor>",
        "a cursor as `pawl sensor evals` shows it (default: the start)",
      ),
    },
    fields: ({ flags: { to, ...body } }) => ({ ...body, cursor: to ?? null }),
    text: changeText,
  }),
  evaluate: subcommand({
    description: "evaluate a sensor now, also while it is paused",
    about: SENSOR,
    flags: {
      dry_run: option.switch("--dry-run", "only say what would come of it"),
      payload: option.json("--payload <json>", "of a push sensor: the sample that it sees"),
      attributes: option.labels("--attribute <key=value>", "of the sample; may be repeated"),
      message_id: option.text(
        "--message-id <id>",
        "instead of a sample: a message whose evaluation failed",
      ),
      requestId: option.requestId("is evaluated once"),
      timeout_ms: option.duration("--timeout <duration>", "how long to wait for it (default: 30s)"),
    },
    need: "work",
    async run({ terminal, client, ref: sensor_id, subject, flags }) {
      const { payload, requestId: idempotencyKey, ...rest } = flags;
      const params = { sensor_id };
      const body = omitUndefined({ payload: payload?.value, ...rest });
      const made = await client.call("evaluateSensor", { params, body, idempotencyKey });
      if (made.status !== "error") {
        return outcomeOf(made, () => evaluatedText(terminal, made));
      }
      const details = { sensor: subject };
      const failure = new PawlError("WORK_FAILED", made.message, { details });
      return outcomeOf(made, null, failure);
    },
  }),
  secret: operation("createSensorSecret", {
    description: "make a new secret for the messages of a push sensor; it is shown this once",
    about: SENSOR,
    flags: {
      overlap_seconds: option.seconds(
        "--overlap <duration>",
        "how long the one before stays good (default: 24h)",
      ),
    },
    text: (_terminal, { secret }) => secret,
    note: ({ push_path }, { isEmbedded, client }) =>
      "Keep it now: it is not shown again. Messages go to POST " +
      `${isEmbedded ? "" : client.url}${push_path}`,
  }),
};

/** Adds the commands about sensors. */
export function addSensorCommands(sensor: Command, cli: Cli): void {
  addSubcommands(sensor, cli, SENSORS);
}
