import Database from "better-sqlite3";
import type { Json } from "../core/canonical.ts";
import { PawlError } from "../core/errors.ts";
import {
  GROUP,
  itemOf,
  KEY,
  type PlacedRow,
  type RowDialect,
  type RowSource,
  rowStatement,
  WATERMARK,
} from "./row-source.ts";

/** How long to wait for a writer; readers of a database in WAL mode never do. */
const BUSY_MS = 1_000;

const SQLITE: RowDialect = { parameter: () => "?", exact: (column) => column };

/** Rows of an SQLite file, which is only read. */
export function sqliteRows(path: string): RowSource {
  return async (query) => {
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
          place: { watermark: placeOf(row[WATERMARK]), key: placeOf(row[KEY]) },
          group: Number(row[GROUP]),
        }),
      );
    } finally {
      db.close();
    }
  };
}

/** A value as the cursor keeps it: SQLite compares by type first, so that is kept too. */
function placeOf(value: unknown): Json {
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
