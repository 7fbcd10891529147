import type { Json } from "../kernel/canonical.ts";
import { PawlError } from "../kernel/errors.ts";
import { SensorSpec, WatchSpec } from "../work/definition/spec.ts";
import { type AssetReference, assetKeysOf } from "./asset.ts";
import type { Evaluate } from "./automation-context.ts";
import { parseDefinition, refuseUnknownOptions, withoutUndefined } from "./parse-definition.ts";

/**
 * The run that each item or message asks for. Texts may name fields of it in braces: `{stem}`,
 * `{payload.region}`.
 */
export type SensorTargetOptions = {
  assets: AssetReference | readonly AssetReference[];
  partition?: string;
  /** Two items with the same run key are one run. */
  runKey?: string;
  config?: Json;
};

/** Everything that can be said about a sensor. */
export type SensorOptions<Item = never> = {
  /** Decides what to ask for; or leave that to `target`. */
  evaluate?: Evaluate<Item>;
  target?: SensorTargetOptions;
  /** What to look at, where Pawl does the looking. */
  watch?: Watch<Item>;
  /** Whether messages are pushed to it instead of it being called every so often. */
  push?: boolean;
  /** How long after one evaluation the next may come; 30 s unless told. */
  minIntervalMs?: number;
  timeoutMs?: number;
  /** Most runs that one evaluation may ask for, and most items that a look finds; 100 unless told. */
  maxRunRequests?: number;
  enabled?: boolean;
  description?: string;
  labels?: Readonly<Record<string, string>>;
};

/** What only workers have of a sensor: functions, and addresses that are nobody else's business. */
export type SensorCode = {
  readonly evaluate: Evaluate<Json> | null;
  readonly list: ListObjects | null;
  readonly database: string | null;
};

/** A sensor as defined. */
export type Sensor = {
  readonly name: string;
  readonly spec: SensorSpec;
  readonly code: SensorCode;
};

const OPTIONS = [
  "evaluate",
  "target",
  "watch",
  "push",
  "minIntervalMs",
  "timeoutMs",
  "maxRunRequests",
  "enabled",
  "description",
  "labels",
];

const TARGET_OPTIONS = ["assets", "partition", "runKey", "config"];

const MAX_RUN_REQUESTS = 100;

/** Defines a sensor: something that asks for runs when the world has changed. */
export function sensor<Item = never>(name: string, options: SensorOptions<Item>): Sensor {
  const subject = `The sensor ${JSON.stringify(name)}`;
  refuseUnknownOptions(subject, options, OPTIONS);
  const fault = faultOf(options);
  if (fault !== null) {
    throw new PawlError("DEFINITION_INVALID", `${subject} ${fault}`, { details: { sensor: name } });
  }
  const { watch } = options;
  const spec = parseDefinition(subject, SensorSpec, specOf(subject, name, options));
  return Object.freeze({
    name,
    spec: Object.freeze(spec),
    code: Object.freeze({
      // The items of a watch are what its type says they are.
      evaluate: (options.evaluate as Evaluate<Json> | undefined) ?? null,
      list: watch?.list ?? null,
      database: watch?.database ?? null,
    }),
  });
}

function faultOf<Item>({ evaluate, target, watch, push }: SensorOptions<Item>): string | null {
  if (evaluate !== undefined && typeof evaluate !== "function") {
    return `needs a function evaluate, not ${JSON.stringify(evaluate)}.`;
  }
  if (evaluate === undefined && target === undefined) {
    return "needs a function evaluate, or a target that says which run to ask for.";
  }
  if (evaluate !== undefined && target !== undefined) {
    return "has both evaluate and target; the function decides, or the target does.";
  }
  if (push === true && watch !== undefined) {
    return "is pushed to, so it cannot watch anything; leave out push or watch.";
  }
  if (target !== undefined && push !== true && watch === undefined) {
    return "has a target but nothing to look at; give it a watch such as newFiles(), or push: true.";
  }
  if (watch !== undefined && (typeof watch !== "object" || !("spec" in watch))) {
    return "has a watch that is none; make one with newFiles(), newRows() and the like.";
  }
  return null;
}

function specOf<Item>(
  subject: string,
  name: string,
  options: SensorOptions<Item>,
): Record<string, unknown> {
  const { watch, target } = options;
  if (target !== undefined) {
    refuseUnknownOptions(`${subject}, in target,`, target, TARGET_OPTIONS);
  }
  return withoutUndefined({
    kind: "sensor",
    name,
    description: options.description,
    labels: options.labels,
    enabled: options.enabled,
    mode: options.push === true ? "push" : "poll",
    watch: watch === undefined ? undefined : watchOf(watch, options.maxRunRequests),
    target:
      target === undefined
        ? undefined
        : withoutUndefined({
            asset_selection: assetKeysOf(target.assets),
            partition_key: target.partition,
            run_key: target.runKey,
            config: target.config,
          }),
    min_interval_ms: options.minIntervalMs,
    timeout_ms: options.timeoutMs,
    max_run_requests: options.maxRunRequests,
  });
}

/** As many rows as may each ask for a run, unless the watch says how many. */
function watchOf({ spec, limit }: Watch, maxRunRequests = MAX_RUN_REQUESTS): Watch["spec"] {
  return spec.type === "rows" && limit === null ? { ...spec, limit: maxRunRequests } : spec;
}

/** A file that is new or has changed. */
export type FileItem = {
  /** With its extension: `orders.csv`. */
  name: string;
  /** Without it: `orders`. */
  stem: string;
  /** With the dot, `.csv`; empty when there is none. */
  extension: string;
  /** The whole path. */
  path: string;
  /** The path of its folder within the watched one; empty when it lies right in that. */
  folder: string;
  size: number;
  modified_at: string;
};

/** An object that is new or has changed. */
export type ObjectItem = {
  key: string;
  /** The part of the key after the last slash. */
  name: string;
  stem: string;
  extension: string;
  size: number;
  modified_at: string;
  etag: string | null;
};

/** A row beyond the watermark, by column. */
export type RowItem = Record<string, Json>;

/** A partition that was materialized; its key is null for an asset without partitions. */
export type MaterializationItem = {
  asset_key: string;
  partition_key: string | null;
  /** Null where it was reported, and no run made it. */
  run_id: string | null;
  pos: number;
  at: string;
  code_version: string | null;
  metadata: Json;
};

/** A run that failed. */
export type RunFailureItem = {
  run_id: string;
  run_key: string;
  asset_selection: readonly string[];
  partition_keys: readonly string[] | null;
  backfill_id: string | null;
  error: { class: string; message: string } | null;
  pos: number;
  at: string;
};

/** An object as a store lists it. */
export type ListedObject = {
  key: string;
  size: number;
  modifiedAt: Date | string | number;
  etag?: string | null;
};

/**
 * Lists the objects of a store whose keys start with the prefix: all of them as an async iterable,
 * or page by page, each with the keys after `after`, until a page brings nothing new.
 */
export type ListObjects = (options: {
  prefix: string;
  after: string | null;
  signal: AbortSignal;
}) => AsyncIterable<ListedObject> | Promise<readonly ListedObject[]> | readonly ListedObject[];

/** Something to look at, and what only the project's code knows about it. */
export type Watch<Item = unknown> = {
  readonly spec: WatchSpec;
  readonly list: ListObjects | null;
  readonly database: string | null;
  /** How many items a look finds at most; null when the sensor decides. */
  readonly limit: number | null;
  /** Never there: only says what the items are. */
  readonly item?: Item;
};

/**
 * Files in a folder on the worker's machine, as they come or change; at first, all there are. A
 * name with a dot in front is passed over, and so is whatever changed less than `settleMs` ago, for
 * it may still be written to. A file that is moved in is found however old it is. A relative folder
 * starts at the project's own; every worker must see the same files.
 *
 * `pattern` knows `*` and `?`, and is held against the name, or against the path within the folder
 * when it has a slash. The cursor remembers every file that is there, which bounds a folder to
 * about 9,000 files that match.
 */
export function newFiles(options: {
  folder: string;
  pattern?: string;
  recursive?: boolean;
  settleMs?: number;
}): Watch<FileItem> {
  refuseUnknownOptions("newFiles()", options, ["folder", "pattern", "recursive", "settleMs"]);
  checkPattern("newFiles()", options.pattern);
  return newWatch<FileItem>("newFiles()", {
    type: "files",
    folder: options.folder,
    pattern: options.pattern,
    recursive: options.recursive ?? options.pattern?.includes("/"),
    settle_ms: options.settleMs,
  });
}

/**
 * Objects in a store such as S3 or GCS that `list` knows how to list, as they come or change; at
 * first, all there are. `pattern` is held against the last part of the key, or against the key after
 * the prefix when it has a slash. The bound is that of `newFiles`.
 */
export function newObjects(options: {
  list: ListObjects;
  prefix?: string;
  pattern?: string;
}): Watch<ObjectItem> {
  refuseUnknownOptions("newObjects()", options, ["list", "prefix", "pattern"]);
  if (typeof options.list !== "function") {
    throw invalid("newObjects() needs a function list that lists the objects of a store.");
  }
  checkPattern("newObjects()", options.pattern);
  const { prefix, pattern } = options;
  return newWatch<ObjectItem>(
    "newObjects()",
    { type: "objects", prefix, pattern },
    { list: options.list },
  );
}

/**
 * Rows of a SQL table beyond a watermark: a column that only grows, such as an id or the time of the
 * last change. `database` is the path of an SQLite file or a postgres:// URL and never leaves the
 * worker; `databaseEnv` names an environment variable of the worker that holds it.
 *
 * Without `key` the rows of one watermark are found together, and rows that get the same watermark
 * later are not found: name a unique column as `key` wherever watermarks can be equal. A transaction
 * that commits after another one with a higher watermark is passed over too, as it is by every
 * reader of a watermark. Where writers overlap, watch a view that holds back what is too new, such
 * as `where changed_at < now() - interval '1 minute'`.
 */
export function newRows<Row extends RowItem = RowItem>(options: {
  table: string;
  watermark: string;
  key?: string;
  database?: string;
  databaseEnv?: string;
  limit?: number;
}): Watch<Row> {
  const known = ["table", "watermark", "key", "database", "databaseEnv", "limit"];
  refuseUnknownOptions("newRows()", options, known);
  const { database, databaseEnv, limit } = options;
  if ((database === undefined) === (databaseEnv === undefined)) {
    throw invalid(
      "newRows() needs either database, the path of an SQLite file or a postgres:// URL, or " +
        "databaseEnv, the environment variable of the worker that holds it.",
    );
  }
  const spec = {
    type: "rows",
    database_env: databaseEnv,
    table: options.table,
    watermark: options.watermark,
    key: options.key,
    limit,
  };
  return newWatch<Row>("newRows()", spec, { database: database ?? null, limit: limit ?? null });
}

/** Partitions of an asset, each time one is materialized. */
export function materializationsOf(asset: AssetReference): Watch<MaterializationItem> {
  const [asset_key] = assetKeysOf(asset);
  return newWatch("materializationsOf()", { type: "materializations", asset_key });
}

/** Runs that fail, of some assets or of any. */
export function runFailures(
  options: { assets?: AssetReference | readonly AssetReference[] } = {},
): Watch<RunFailureItem> {
  refuseUnknownOptions("runFailures()", options, ["assets"]);
  return newWatch("runFailures()", {
    type: "run_failures",
    assets: options.assets === undefined ? undefined : assetKeysOf(options.assets),
  });
}

function newWatch<Item>(
  subject: string,
  spec: Record<string, unknown>,
  code: Partial<Pick<Watch, "list" | "database" | "limit">> = {},
): Watch<Item> {
  const parsed = parseDefinition(subject, WatchSpec, withoutUndefined(spec));
  return Object.freeze({
    spec: Object.freeze(parsed),
    list: null,
    database: null,
    limit: null,
    ...code,
  });
}

function checkPattern(subject: string, pattern: string | undefined): void {
  if (typeof pattern !== "string") return;
  if (/[{[]/.test(pattern)) {
    throw invalid(
      `${subject} has the pattern ${JSON.stringify(pattern)}; patterns know * and ? only, so make ` +
        "one watch for each alternative.",
    );
  }
  if (pattern.split("/").includes("..")) {
    throw invalid(
      `${subject} has the pattern ${JSON.stringify(pattern)}; it must stay within the folder, so ` +
        'it cannot have a part that is "..".',
    );
  }
}

function invalid(message: string): PawlError {
  return new PawlError("DEFINITION_INVALID", message);
}
