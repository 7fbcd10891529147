import Database from "better-sqlite3";
import { PawlError } from "../../kernel/errors.ts";
import { parseSchemaChange, requireTable } from "../../work/shard/schema-change.ts";
import type { TablePolicy } from "../../work/shard/spec.ts";
import type { Guard } from "../shard.ts";
import { whileDisarmed } from "./capture.ts";
import type { ShardDatabase } from "./connection.ts";
import { NOW_TEXT, checkGuard } from "./plans.ts";
import { commonFingerprint, sameName, tableDetail } from "./table-detail.ts";

const CAPTURE = `
  insert into _pawl_changes (op, ddl, fingerprint, at) values ('ddl', ?, ?, ${NOW_TEXT})`;

const TABLE_OF_INDEX =
  "select tbl_name from sqlite_schema where type = 'index' and name = ? collate nocase";

/** Runs one statement that changes the schema, and captures it. */
export function runDdl(
  db: ShardDatabase,
  guard: Guard,
  sql: string,
  tables: readonly TablePolicy[],
): void {
  checkGuard(db, guard);
  changeShardSchema(db, sql, tables);
  const details = tables.map((policy) => tableDetail(db, policy));
  db.run(CAPTURE, sql, commonFingerprint(details));
}

/** Runs a statement that changes one of the tables, or an index of one, and nothing else. */
export function changeShardSchema(
  db: ShardDatabase,
  sql: string,
  tables: readonly TablePolicy[],
): void {
  const change = parseSchemaChange(sql);
  const { what, schema, name } = change;
  if (schema !== null && !sameName(schema.text, "main")) {
    throw refused(sql, `${schema.text} is another database`);
  }
  const index = what === "drop index" ? db.value(TABLE_OF_INDEX, name.text) : null;
  requireTable({ ...change, schema: null }, tables, null, index === null ? null : String(index));
  try {
    // Rows that it changed would not be captured: the triggers are off meanwhile.
    whileDisarmed(db, () => db.db.prepare(sql).run());
  } catch (error) {
    const isAbout = error instanceof Database.SqliteError || error instanceof RangeError;
    throw isAbout ? refused(sql, error.message, error) : error;
  }
}

function refused(sql: string, reason: string, cause?: unknown): PawlError {
  return new PawlError("INPUT_INVALID", `The statement "${sql}" was not run: ${reason}.`, {
    details: { sql },
    cause,
  });
}
