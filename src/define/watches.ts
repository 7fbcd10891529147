import { WatchSpec } from "../work/definition/automation.ts";
import type { Json } from "../kernel/canonical.ts";
import { PawlError } from "../kernel/errors.ts";
import { type AssetReference, assetKeysOf } from "./asset.ts";
import { parseDefinition, refuseUnknownOptions, withoutUndefined } from "./parse-definition.ts";
import type { AbortSignalLike } from "./automation-context.ts";

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
  run_id: string;
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
  signal: AbortSignalLike;
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
  return watch<FileItem>("newFiles()", {
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
  return watch<ObjectItem>(
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
  return watch<Row>("newRows()", spec, { database: database ?? null, limit: limit ?? null });
}

/** Partitions of an asset, each time one is materialized. */
export function materializationsOf(asset: AssetReference): Watch<MaterializationItem> {
  const [asset_key] = assetKeysOf(asset);
  return watch("materializationsOf()", { type: "materializations", asset_key });
}

/** Runs that fail, of some assets or of any. */
export function runFailures(
  options: { assets?: AssetReference | readonly AssetReference[] } = {},
): Watch<RunFailureItem> {
  refuseUnknownOptions("runFailures()", options, ["assets"]);
  return watch("runFailures()", {
    type: "run_failures",
    assets: options.assets === undefined ? undefined : assetKeysOf(options.assets),
  });
}

function watch<Item>(
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
