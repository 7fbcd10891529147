import type { Json } from "../core/canonical.ts";
import type { RowItem } from "../define/watches.ts";

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
export function jsonOf(value: unknown): Json {
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
  if (Array.isArray(value)) return value.map(jsonOf);
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, jsonOf(each)]));
}

function isSafe(value: bigint): boolean {
  return value <= BigInt(Number.MAX_SAFE_INTEGER) && value >= BigInt(Number.MIN_SAFE_INTEGER);
}

/** The columns of a row as an item, without what was asked beside them. */
export function itemOf(row: Readonly<Record<string, unknown>>): RowItem {
  const columns = Object.entries(row).filter(([name]) => !name.startsWith("pawl:"));
  return Object.fromEntries(columns.map(([name, value]) => [name, jsonOf(value)]));
}
