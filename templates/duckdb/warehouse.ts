import { mkdir, rename } from "node:fs/promises";
import { dirname, join } from "node:path";
import { DuckDBInstance, type Json } from "@duckdb/node-api";

const data = process.env["DATA_DIR"] ?? join(import.meta.dirname, "data");

/** One DuckDB for each process; it keeps nothing, as all tables are Parquet files. */
const duckdb = DuckDBInstance.create(":memory:");

/** The file of a day, or with `*` the files of all days. */
export function fileOf(table: string, day: string): string {
  return join(data, table, `${day}.parquet`);
}

/** Runs a query and answers its rows. */
export async function rowsOf(query: string): Promise<Record<string, Json>[]> {
  const connection = await (await duckdb).connect();
  try {
    return (await connection.runAndReadAll(query)).getRowObjectsJson();
  } finally {
    connection.closeSync();
  }
}

/** Writes what a query answers as the day's Parquet file, and answers the number of rows. */
export async function writeDay(table: string, day: string, query: string): Promise<number> {
  const file = fileOf(table, day);
  await mkdir(dirname(file), { recursive: true });
  // Whoever reads the file sees the old one or the new one, also when this process is killed.
  const unfinished = `${file}.${process.pid}.unfinished`;
  const [written] = await rowsOf(`copy (${query}) to ${quoted(unfinished)} (format parquet)`);
  await rename(unfinished, file);
  return Number(written?.["Count"]);
}

/** A text as SQL has it. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
