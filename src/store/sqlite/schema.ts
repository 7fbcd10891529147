import type { Instant } from "../../kernel/instant.ts";
import { kindTables, pendingSteps, schemaSteps } from "../schema-steps.ts";
import { quotedName } from "../statements.ts";
import type { Connection } from "./connection.ts";

const MAKE_RECORD = `
create table if not exists schema_steps (
  step integer primary key,
  name text not null,
  applied_at text not null
) strict`;

const IS_RECORDED = "select 1 from sqlite_schema where name = 'schema_steps'";
const NEWEST = "select coalesce(max(step), 0) from schema_steps";
const RECORD = "insert into schema_steps (step, name, applied_at) values (?, ?, ?)";

const TABLES = {
  table: quotedName,
  types: { text: "text", int: "integer", json: "text" },
  integer: "integer",
  end: " strict, without rowid",
};

/**
 * Brings the schema up to date. All pending steps are one transaction, so a kill at any statement
 * leaves the schema as it was; the write lock keeps a second process out meanwhile.
 */
export function applySchemaSteps(connection: Connection, path: string, now: Instant): void {
  applyPendingSteps(connection, path, now);
  for (const sql of kindTables(TABLES)) connection.execute(sql);
}

function applyPendingSteps(connection: Connection, path: string, now: Instant): void {
  const steps = schemaSteps("sqlite");
  // A look without the lock: an up-to-date file opens while another process writes.
  if (pendingSteps(steps, newestStep(connection), path).length === 0) return;
  connection.begin();
  try {
    connection.execute(MAKE_RECORD);
    for (const { step, name, sql } of pendingSteps(steps, newestStep(connection), path)) {
      connection.run(RECORD, [step, name, now]);
      connection.execute(sql);
    }
    connection.commit();
  } finally {
    connection.rollback();
  }
}

function newestStep(connection: Connection): number {
  if (connection.row(IS_RECORDED) === null) return 0;
  return Number(connection.row(NEWEST)?.[0]);
}
