import type {
  EvaluatedSensor,
  SensorDocument,
  SensorEvalDocument,
  SensorRunRequestDocument,
} from "../../work/sensor/api.ts";
import { shortId } from "../base/terminal.ts";
import type { PartInput } from "../../work/operations.ts";
import type { SensorTarget, WatchSpec } from "../../work/definition/automation.ts";
import type { Json } from "../../kernel/canonical.ts";
import { PawlError } from "../../kernel/errors.ts";
import { given } from "../base/omit-undefined.ts";

/** What a sensor waits for, in a few words. */
export function watchText({ mode, watch }: SensorDocument): string {
  if (mode === "push") return "messages";
  switch (watch?.type) {
    case undefined:
      return "its function";
    case "files":
      return `files ${watch.folder}/${watch.recursive ? "**/" : ""}${watch.pattern}`;
    case "objects":
      return `objects ${watch.prefix}${watch.pattern}`;
    case "rows":
      return `rows of ${watch.table} by ${watch.watermark}`;
    case "materializations":
      return `materializations of ${watch.asset_key}`;
    case "run_failures":
      return watch.assets.length === 0
        ? "failures of runs"
        : `failures of runs of ${watch.assets.join(", ")}`;
  }
}

/** What a sensor asks for, in a few words. */
export function targetText({ target }: SensorDocument): string {
  if (target === null) return "what its function decides";
  const { asset_selection, partition_key } = target;
  const assets = asset_selection.join(", ");
  return partition_key === null ? assets : `${assets} @ ${partition_key}`;
}

/** Who evaluates a sensor, and whether there is one; null when the server does it itself. */
export function workerText({ needs_function, has_worker }: SensorDocument): string | null {
  if (has_worker) return needs_function ? "one with its function asks for work" : null;
  return needs_function
    ? "none with its function has asked for work lately"
    : "none has asked for work lately";
}

/** What made a sensor be evaluated. */
export function sourceText({ trigger_source: source }: SensorEvalDocument): string {
  switch (source.type) {
    case "push":
      return `message ${source.message_id}`;
    case "poll":
      return "look";
    case "manual":
      return `request ${source.request_id}`;
  }
}

/** A cursor that may be long, shortened for a table. */
export function cursorText(cursor: string | null): string {
  if (cursor === null) return "the start";
  return cursor.length <= 24 ? cursor : `${cursor.slice(0, 23)}…`;
}

type Runs = readonly SensorRunRequestDocument[];

/** What became of runs that were asked for: `run_abcdefgh SUCCEEDED`, `2 created, 1 existing`. */
export function runsText(requests: Runs): string {
  const [first, second] = requests;
  if (first === undefined) return "-";
  if (second === undefined) {
    if (first.run_id === null || first.outcome === "refused") return first.outcome;
    const state = first.run_state === null ? first.outcome : first.run_state;
    return `${shortId(first.run_id)} ${state}`;
  }
  const counts = new Map<string, number>();
  for (const { outcome } of requests) counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
  return [...counts].map(([outcome, count]) => `${count} ${outcome}`).join(", ");
}

/** Why an evaluation failed, or why the first of its runs was refused. */
export function evalNote({
  error,
  run_requests,
}: Pick<EvaluatedSensor, "error" | "run_requests">): string {
  const why = error ?? run_requests.find((request) => request.error !== null)?.error ?? null;
  return why === null ? "" : `${why.class}: ${why.message}`;
}

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
