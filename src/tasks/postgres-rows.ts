import pg from "pg";
import type { Json } from "../core/canonical.ts";
import { PawlError } from "../core/errors.ts";
import {
  GROUP,
  itemOf,
  jsonOf,
  KEY,
  type PlacedRow,
  type RowDialect,
  type RowSource,
  rowStatement,
  WATERMARK,
} from "./row-source.ts";

const CONNECT_MS_MAX = 10_000;
const { builtins } = pg.types;

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
    const client = new pg.Client({
      connectionString: url,
      connectionTimeoutMillis: CONNECT_MS_MAX,
      application_name: "pawl",
      types: exactTypes(),
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
    place: { watermark: jsonOf(row[WATERMARK]), key: jsonOf(row[KEY]) },
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
function exactTypes(): pg.CustomTypesConfig {
  const types = new pg.TypeOverrides();
  types.setTypeParser(builtins.INT8, (text) => BigInt(text));
  types.setTypeParser(builtins.DATE, (text) => text);
  types.setTypeParser(builtins.INTERVAL, (text) => text);
  types.setTypeParser(builtins.TIMESTAMP, (text) => text.replace(" ", "T"));
  types.setTypeParser(builtins.TIMESTAMPTZ, (text) => text.replace(" ", "T").replace(/\+00$/, "Z"));
  return types;
}
