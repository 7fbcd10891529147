import type { Json } from "../../../kernel/canonical.ts";
import type { RowItem } from "../../../define/sensor.ts";
import type pg from "pg";
import { databaseAddress } from "../../../kernel/database-address.ts";
import { PawlError } from "../../../kernel/errors.ts";
import type { WatchSpec } from "../../../work/definition/spec.ts";
import type { Watcher } from "./open-watcher.ts";

/** Where in the order of watermark and key a row stands, as exactly as its database knows it. */
export type RowPlace = { watermark: Json; key: Json };

/** A row, its place, and which of the different watermarks of the answer it has, counted from 1. */
export type PlacedRow = { item: RowItem; place: RowPlace; group: number };

/** What is asked for: rows beyond a place, in order. */
export type RowQuery = {
  table: string;
  watermark: string;
  key: string | null;
  after: RowPlace | null;
  limit: number;
};

/** A database that can be asked for rows beyond a place. */
export type RowSource = (query: RowQuery, signal: AbortSignal) => Promise<PlacedRow[]>;

/** Names that no table has, for what is asked beside its columns. */
export const WATERMARK = "pawl:watermark";
export const KEY = "pawl:key";
export const GROUP = "pawl:group";

/** How a statement of one database differs from another's. */
export type RowDialect = {
  parameter(number: number): string;
  /** The expression that keeps a column's value exactly. */
  exact(column: string): string;
};

/**
 * The statement for a query, and which parts of its place are its parameters; the limit is the last.
 * Groups are counted by the database, because only it knows which watermarks are equal.
 */
export function rowStatement(query: RowQuery, dialect: RowDialect): { sql: string; after: Json[] } {
  const { table, watermark, key, after: place } = query;
  const mark = quoted(watermark);
  const order = key === null ? [mark] : [mark, quoted(key)];
  const hasKey = key !== null && place !== null && place.key !== null;
  const after = place === null ? [] : hasKey ? [place.watermark, place.key] : [place.watermark];
  const compared = order.slice(0, after.length).join(", ");
  const parameters = after.map((_, at) => dialect.parameter(at + 1)).join(", ");
  const beyond = place === null ? "" : `\n  and (${compared}) > (${parameters})`;
  const sql = `select rows.*,
  ${dialect.exact(`rows.${mark}`)} as ${quoted(WATERMARK)},
  ${key === null ? "null" : dialect.exact(`rows.${quoted(key)}`)} as ${quoted(KEY)},
  dense_rank() over (order by rows.${mark}) as ${quoted(GROUP)}
from (
  select *
  from ${quotedTable(table)}
  where ${mark} is not null${beyond}
  order by ${order.join(", ")}
  limit ${dialect.parameter(after.length + 1)}
) as rows
order by ${order.map((column) => `rows.${column}`).join(", ")}`;
  return { sql, after };
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** A table's name, perhaps with its schema before a dot. */
function quotedTable(name: string): string {
  return name.split(".").map(quoted).join(".");
}

/** A value of a row as JSON holds it: exact as a text where it would not be as a number. */
export function jsonOfCell(value: unknown): Json {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "bigint":
      return isSafe(value) ? Number(value) : String(value);
    case "number":
      return Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value))
        ? value
        : String(value);
    case "object":
      break;
    default:
      return null;
  }
  if (value === null) return null;
  if (value instanceof Date) return value.toISOString();
  if (value instanceof Uint8Array) return Buffer.from(value).toString("base64");
  if (Array.isArray(value)) return value.map(jsonOfCell);
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, jsonOfCell(each)]));
}

function isSafe(value: bigint): boolean {
  return value <= BigInt(Number.MAX_SAFE_INTEGER) && value >= BigInt(Number.MIN_SAFE_INTEGER);
}

/** The columns of a row as an item, without what was asked beside them. */
export function itemOf(row: Readonly<Record<string, unknown>>): RowItem {
  const columns = Object.entries(row).filter(([name]) => !name.startsWith("pawl:"));
  return Object.fromEntries(columns.map(([name, value]) => [name, jsonOfCell(value)]));
}

const CONNECT_MS_MAX = 10_000;

/** As text PostgreSQL keeps every value exactly, microseconds too, and reads it back by its type. */
const POSTGRES: RowDialect = {
  parameter: (number) => `$${number}`,
  exact: (column) => `${column}::text`,
};

/** Texts of times must mean the same in every session. For the transaction only: poolers share it. */
const BEGIN = `begin transaction read only;
set local timezone = 'UTC';
set local datestyle = 'ISO';
set local intervalstyle = 'iso_8601'`;

/** Rows of a PostgreSQL database, which is only read. */
export function postgresRows(url: string): RowSource {
  return async (query, signal) => {
    signal.throwIfAborted();
    const { default: library } = await import("pg");
    const client = new library.Client({
      connectionString: url,
      connectionTimeoutMillis: CONNECT_MS_MAX,
      application_name: "pawl",
      types: exactTypes(library),
    });
    // A connection that is lost fails the query at hand; there is nobody else to tell.
    client.on("error", () => undefined);
    const end = (): void => void client.end().catch(() => undefined);
    signal.addEventListener("abort", end, { once: true });
    try {
      await client.connect();
      await client.query(BEGIN);
      const { sql, after } = rowStatement(query, POSTGRES);
      const { rows } = await client.query<Record<string, unknown>>(sql, [
        ...after.map(textOf),
        query.limit,
      ]);
      return rows.map(placed);
    } finally {
      signal.removeEventListener("abort", end);
      end();
    }
  };
}

function placed(row: Record<string, unknown>): PlacedRow {
  return {
    item: itemOf(row),
    place: { watermark: jsonOfCell(row[WATERMARK]), key: jsonOfCell(row[KEY]) },
    group: Number(row[GROUP]),
  };
}

function textOf(place: Json): string {
  if (typeof place === "string") return place;
  throw new PawlError(
    "INPUT_INVALID",
    "The sensor's cursor is not one of a PostgreSQL table; reset it to start anew.",
  );
}

/** Types that the library would turn into something less exact, or into local time. */
function exactTypes(library: typeof pg): pg.CustomTypesConfig {
  const { builtins } = library.types;
  const types = new library.TypeOverrides();
  types.setTypeParser(builtins.INT8, (text) => BigInt(text));
  types.setTypeParser(builtins.DATE, (text) => text);
  types.setTypeParser(builtins.INTERVAL, (text) => text);
  types.setTypeParser(builtins.TIMESTAMP, (text) => text.replace(" ", "T"));
  types.setTypeParser(builtins.TIMESTAMPTZ, (text) => text.replace(" ", "T").replace(/\+00$/, "Z"));
  return types;
}

/** How long to wait for a writer; readers of a database in WAL mode never do. */
const BUSY_MS = 1_000;

const SQLITE: RowDialect = { parameter: () => "?", exact: (column) => column };

/** Rows of an SQLite file, which is only read. */
export function sqliteRows(path: string): RowSource {
  return async (query) => {
    const { default: Database } = await import("better-sqlite3");
    const db = new Database(path, { readonly: true, fileMustExist: true, timeout: BUSY_MS });
    try {
      const { sql, after } = rowStatement(query, SQLITE);
      const rows = db
        .prepare(sql)
        .safeIntegers(true)
        .all(...after.map(valueOf), query.limit) as Record<string, unknown>[];
      return rows.map(
        (row): PlacedRow => ({
          item: itemOf(row),
          place: { watermark: placeOfValue(row[WATERMARK]), key: placeOfValue(row[KEY]) },
          group: Number(row[GROUP]),
        }),
      );
    } finally {
      db.close();
    }
  };
}

/** A value as the cursor keeps it: SQLite compares by type first, so that is kept too. */
function placeOfValue(value: unknown): Json {
  if (typeof value === "bigint") return { integer: String(value) };
  if (value instanceof Uint8Array) return { base64: Buffer.from(value).toString("base64") };
  if (typeof value === "number") return value;
  return typeof value === "string" ? value : null;
}

function valueOf(place: Json): unknown {
  if (typeof place === "string" || typeof place === "number") return place;
  if (typeof place === "object" && place !== null) {
    const { integer, base64 } = place as Record<string, unknown>;
    if (typeof integer === "string" && /^-?\d{1,19}$/.test(integer)) return BigInt(integer);
    if (typeof base64 === "string") return Buffer.from(base64, "base64");
  }
  throw new PawlError(
    "INPUT_INVALID",
    "The sensor's cursor is not one of an SQLite table; reset it to start anew.",
  );
}

type RowsSpec = Extract<WatchSpec, { type: "rows" }>;

/** Looks for rows beyond a watermark. The address of the database is in no message it gives. */
export function watchRows(spec: RowsSpec, address: string, limit: number): Watcher {
  const source = rowSource(address);
  const { table, watermark, key } = spec;
  return {
    async look(cursor, signal) {
      const after = placeOf(cursor);
      // One row more than wanted shows whether the last group of equal watermarks is complete.
      const query = { table, watermark, key, after, limit: key === null ? limit + 1 : limit };
      const rows = await source(query, signal).catch((error: unknown) => {
        signal.throwIfAborted();
        throw unreadable(spec, error);
      });
      const taken = key === null ? wholeGroups(spec, rows, limit) : withKeys(spec, rows);
      const last = taken.at(-1);
      return {
        items: taken.map(({ item }) => item),
        cursor: last === undefined ? cursor : JSON.stringify(last.place),
      };
    },
  };
}

function rowSource(address: string): RowSource {
  const database = databaseAddress(address, { subject: "The database that is watched" });
  return database.type === "postgres" ? postgresRows(database.url) : sqliteRows(database.file);
}

/** The rows that fit but for a group that does not fit whole: its rest would never be found. */
function wholeGroups(
  { table, watermark }: RowsSpec,
  rows: readonly PlacedRow[],
  limit: number,
): readonly PlacedRow[] {
  if (rows.length <= limit) return rows;
  const cutGroup = rows.at(-1)?.group;
  const whole = rows.filter(({ group }) => group !== cutGroup);
  if (whole.length > 0) return whole;
  throw new PawlError(
    "SELECTION_TOO_LARGE",
    `More than ${limit} rows of ${table} have the same ${watermark}; name a unique column as key, ` +
      "so that they can be told apart.",
    { details: { table, watermark, limit } },
  );
}

function withKeys({ table, key }: RowsSpec, rows: readonly PlacedRow[]): readonly PlacedRow[] {
  if (rows.every(({ place }) => place.key !== null)) return rows;
  throw new PawlError(
    "INPUT_INVALID",
    `A row of ${table} has no ${key}, so it cannot be told apart from others; name a column as key ` +
      "that is never null.",
  );
}

function placeOf(cursor: string | null): RowPlace | null {
  if (cursor === null) return null;
  try {
    const { watermark, key = null } = JSON.parse(cursor) as { watermark?: Json; key?: Json };
    if (watermark !== undefined && watermark !== null) return { watermark, key };
  } catch {
    // Told of below.
  }
  throw new PawlError(
    "INPUT_INVALID",
    "The sensor's cursor is not one that this watch has written; reset it to start anew.",
  );
}

/** Kept as the cause, which says whether another try may help. */
function unreadable({ table }: RowsSpec, error: unknown): unknown {
  if (error instanceof PawlError) return error;
  const message = error instanceof Error ? error.message : String(error);
  const cause = error instanceof Error && "code" in error ? error : undefined;
  const fault = new Error(`The rows of ${table} cannot be read: ${message.replace(/\.$/, "")}.`);
  return Object.assign(fault, cause === undefined ? {} : { code: cause.code });
}
