import type { PartInput } from "../core/api/operations.ts";
import type { SensorTarget, WatchSpec } from "../core/automation-specs.ts";
import type { Json } from "../core/canonical.ts";
import { PawlError } from "../core/errors.ts";
import { given } from "./given.ts";

/** The flags that define a sensor. */
export type SensorFlags = {
  push?: boolean;
  files?: string;
  pattern?: string;
  recursive?: boolean;
  settle?: number;
  rows?: string;
  watermark?: string;
  key?: string;
  databaseEnv?: string;
  rowLimit?: number;
  materializations?: string;
  /** True for the runs of every asset. */
  runFailures?: string | true;
  asset?: readonly string[];
  partitionKey?: string;
  runKey?: string;
  runConfig?: { value: Json };
  minInterval?: number;
  timeout?: number;
  maxRunRequests?: number;
  enabled?: boolean;
  disabled?: boolean;
  label?: Record<string, string>;
  description?: string;
};

type Body = PartInput<"updateSensor", "body">;

/** A sensor's definition as a caller writes it. */
export type SensorDefinition = Omit<Body, "name" | "expected_state_version">;

/** What there is of a sensor before a change. */
export type CurrentSensor = { watch: WatchSpec | null; target: SensorTarget | null };

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
  return given({
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
  const found = given({
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
            assets: runFailures === true ? [] : runFailures.split(",").map((key) => key.trim()),
          } as const),
  });
  return Object.values(found)[0];
}

function filesOf(flags: SensorFlags, current: WatchSpec | null): Watch | undefined {
  const own = given({
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
  const own = given({
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
  const own = given({
    asset_selection: flags.asset?.flatMap((text) => text.split(",").map((key) => key.trim())),
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

function orNull(text: string | undefined): string | null | undefined {
  return text === "none" ? null : text;
}

function enabledOf({ enabled, disabled }: SensorFlags): boolean | undefined {
  if (enabled !== true) return disabled === true ? false : undefined;
  if (disabled !== true) return true;
  throw invalid("Expected --enabled or --disabled, got both");
}

function invalid(message: string): PawlError {
  return new PawlError("INPUT_INVALID", `${message}.`);
}
