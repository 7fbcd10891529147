import Database from "better-sqlite3";
import { PawlError } from "../../core/errors.ts";
import type { TablePolicy } from "../../core/shard-spec.ts";
import type { Guard } from "../shard.ts";
import { whileDisarmed } from "./capture.ts";
import type { Connection } from "./connection.ts";
import { NOW_TEXT } from "./install.ts";
import { checkGuard } from "./plans.ts";
import { commonFingerprint, tableDetail } from "./table-detail.ts";

const CAPTURE = `
  insert into _pawl_changes (op, ddl, fingerprint, at) values ('ddl', ?, ?, ${NOW_TEXT})`;

/** Runs one statement that changes the schema, and captures it. */
export function runDdl(
  db: Connection,
  guard: Guard,
  sql: string,
  tables: readonly TablePolicy[],
): void {
  checkGuard(db, guard);
  // Rows that it changed would not be captured: the triggers are off meanwhile.
  if (!/^\s*(?:alter|create|drop)\b/i.test(sql)) {
    throw refused(sql, "it must begin with ALTER, CREATE or DROP");
  }
  try {
    whileDisarmed(db, () => db.db.prepare(sql).run());
  } catch (error) {
    const isAbout = error instanceof Database.SqliteError || error instanceof RangeError;
    throw isAbout ? refused(sql, error.message, error) : error;
  }
  const details = tables.map((policy) => tableDetail(db, policy));
  db.run(CAPTURE, sql, commonFingerprint(details));
}

function refused(sql: string, reason: string, cause?: unknown): PawlError {
  return new PawlError("INPUT_INVALID", `The statement "${sql}" was not run: ${reason}.`, {
    details: { sql },
    cause,
  });
}
