import Database from "better-sqlite3";
import { z } from "zod";
import { PawlError } from "../../kernel/errors.ts";
import { parseSchemaChange, requireTable } from "../../work/shard/schema-change.ts";
import { TablePolicy } from "../../work/shard/spec.ts";
import { type Guard, type Position, positionGivenUp, type TableShape } from "../shard.ts";
import {
  createTriggers,
  dropTriggers,
  keyPositions,
  refuseUncaptured,
} from "./capture-triggers.ts";
import type { ShardDatabase } from "./connection.ts";
import { quoted, type SqliteValue } from "./literals.ts";
import { checkGuard, isInstalled, NOW_TEXT } from "./plans.ts";
import { keyColumns, tenantText } from "./scope-sql.ts";
import { commonFingerprint, sameName, type TableDetail, tableDetail } from "./table-detail.ts";

/** Changes that a transaction deletes at most, so that writers wait for some milliseconds. */
const PRUNE_ROWS = 5_000n;
const LAG_MAX = 100_000n;

const POSITION = "select seq from sqlite_sequence where name = '_pawl_changes'";
const MARK = `insert into _pawl_changes (op, at) values ('marker', ${NOW_TEXT})`;
const ARMED_AT = "select armed_at from _pawl_plans where plan = ?";
const RELEASED = "select released from _pawl_plans where plan = ? and armed_at is not null";
const ARM = "update _pawl_plans set armed_at = ?, released = ?, tables = ? where plan = ?";
const ARMED_TABLES = "select tables from _pawl_plans where armed_at is not null order by plan";
const NEEDED_FROM = "select min(released) from _pawl_plans where armed_at is not null";
const PRUNE = `
  delete from _pawl_changes where id <= (
    select max(id) from (select id from _pawl_changes where id <= ? order by id limit ?))`;

/** The application's triggers on a table, which fire for copied rows too. */
export const USER_TRIGGERS = `
  select name from sqlite_schema
  where type = 'trigger' and tbl_name = ? collate nocase and substr(name, 1, 6) <> '_pawl_'
  order by name`;

const Policies = z.array(TablePolicy);

/** The last id that the log has given out, also when it is pruned. */
export function position(db: ShardDatabase): Position {
  return isInstalled(db) ? String(db.value(POSITION) ?? 0n) : "0";
}

/** Captures changes of tables for a plan from now on, and says since when. */
export function armCapture(
  db: ShardDatabase,
  guard: Guard,
  tables: readonly TableShape[],
): Position {
  checkGuard(db, guard);
  // Made anew, they would hide from whoever needs them that something is missing.
  refuseUncaptured(db, armedTables(db));
  const first = db.value(ARMED_AT, guard.plan);
  const policies = byName([
    ...namedTables(db.all("select tables from _pawl_plans where plan = ?", guard.plan)),
    ...tables.map(({ table, shard_by }) => ({ table, shard_by })),
  ]);
  db.run("update _pawl_plans set tables = ? where plan = ?", JSON.stringify(policies), guard.plan);
  for (const policy of policies) arm(db, tableDetail(db, policy));
  if (first !== null) return String(first);
  // What the log gives out from here on is captured; a marker proves that it can be written. It
  // need not stay: the sequence of the ids does.
  db.run(MARK);
  const armedAt = BigInt(position(db));
  db.run("delete from _pawl_changes where id = ? and op = 'marker'", armedAt);
  db.run(ARM, armedAt, armedAt, JSON.stringify(policies), guard.plan);
  return String(armedAt);
}

/**
 * Captures changes of one row of a table: says why that fails, null when it does not. For a
 * transaction that is rolled back; triggers of the user are taken away first, as their effects, and
 * functions that only the application has, are none of ours.
 */
export function tryCapture(db: ShardDatabase, policy: TablePolicy): string | null {
  const detail = tableDetail(db, { table: policy.table, shard_by: policy.shard_by });
  const { sql, shape } = detail;
  const column = quoted(shape.shard_by);
  const columns = shape.columns.map(({ name }) => quoted(name)).join(", ");
  const place = `where (${keyColumns(detail)}) = (select ${keyColumns(detail)} from ${sql} limit 1)`;
  try {
    for (const [name] of db.all(USER_TRIGGERS, shape.table)) {
      db.db.exec(`drop trigger ${quoted(String(name))}`);
    }
    const before = BigInt(position(db));
    arm(db, detail);
    // A fence makes the triggers compare tenants, and nothing keeps this write from its own.
    db.run(`insert or replace into _pawl_fences (tenant, epoch, state, plan)
      select ${tenantText(column)}, 0, 'open', '' from ${sql} ${place}
      and ${tenantText(column)} is not null`);
    db.run(
      "update _pawl_session set epoch = 0, tenant = (select tenant from _pawl_fences where plan = '')",
    );
    const rows = db.run(`update ${sql} set ${column} = ${column} ${place}`);
    db.db.exec(`create temp table _pawl_tried as select ${columns} from ${sql} ${place}`);
    db.run(`delete from ${sql} ${place}`);
    db.run(`insert into ${sql} (${columns}) select ${columns} from temp._pawl_tried`);
    const logged = Number(db.value("select count(*) from _pawl_changes where id > ?", before));
    // More where a REPLACE from before has left notes of rows that it took away.
    return logged >= 3 * rows ? null : `of ${3 * rows} changes ${logged} were found`;
  } catch (error) {
    if (error instanceof Database.SqliteError && error.code === "SQLITE_ERROR")
      return error.message;
    throw error;
  }
}

/** Takes away what no plan needs once this one needs nothing. */
export function disarmCapture(db: ShardDatabase, guard: Guard): void {
  checkGuard(db, guard);
  const before = armedTables(db);
  db.run(ARM, null, null, "[]", guard.plan);
  const still = new Set(armedTables(db).map(({ table }) => table.toLowerCase()));
  for (const { table } of before) {
    if (!still.has(table.toLowerCase())) dropTriggers(db, table);
  }
}

/** Notes what a plan has no use for any more. */
export function release(db: ShardDatabase, guard: Guard, upTo: Position): void {
  checkGuard(db, guard);
  const released = db.value(RELEASED, guard.plan);
  if (typeof released === "bigint" && released > BigInt(upTo)) {
    throw positionGivenUp(upTo, String(released));
  }
  db.run(
    "update _pawl_plans set released = ? where plan = ? and armed_at is not null",
    BigInt(upTo),
    guard.plan,
  );
  // Statements that noted them have ended: this is a transaction of its own.
  db.run("delete from _pawl_victims");
}

/** Deletes some of the changes that nobody needs; answers how many, and whether there may be more. */
export function prune(db: ShardDatabase): { deleted: number; more: boolean } {
  const needed = db.value(NEEDED_FROM) ?? BigInt(position(db));
  const deleted = db.run(PRUNE, needed, PRUNE_ROWS);
  return { deleted, more: BigInt(deleted) === PRUNE_ROWS };
}

/** How many changes lie behind a position, and since when. */
export function lag(
  db: ShardDatabase,
  from: Position,
): { events: number; oldest_at: string | null } {
  if (!isInstalled(db)) return { events: 0, oldest_at: null };
  const behind = "from _pawl_changes where id > ?";
  const events = db.value(
    `select count(*) from (select 1 ${behind} limit ?)`,
    BigInt(from),
    LAG_MAX,
  );
  const oldest = db.value(`select at ${behind} order by id limit 1`, BigInt(from));
  return { events: Number(events), oldest_at: oldest === null ? null : String(oldest) };
}

/** Takes the triggers off all tables while their schema changes, and puts fitting ones back. */
export function whileDisarmed(db: ShardDatabase, act: () => void): void {
  const tables = armedTables(db);
  refuseUncaptured(db, tables);
  for (const { table } of tables) dropTriggers(db, table);
  act();
  for (const policy of tables) arm(db, tableDetail(db, policy));
}

function armedTables(db: ShardDatabase): TablePolicy[] {
  return byName(namedTables(db.all(ARMED_TABLES)));
}

function namedTables(rows: readonly (readonly SqliteValue[])[]): TablePolicy[] {
  return rows.flatMap(([tables]) => Policies.parse(JSON.parse(String(tables))));
}

/** Each table once, as it was named last. */
function byName(policies: readonly TablePolicy[]): TablePolicy[] {
  return [...new Map(policies.map((policy) => [policy.table.toLowerCase(), policy])).values()];
}

function arm(db: ShardDatabase, detail: TableDetail): void {
  for (const log of ["_pawl_changes", "_pawl_victims"]) {
    const present = db.all("select name from pragma_table_info(?)", log);
    const width = present.filter(([name]) => /^c\d+$/.test(String(name))).length;
    for (let index = width; index < detail.shape.columns.length; index += 1) {
      db.db.exec(`alter table ${log} add column c${index}`);
    }
  }
  createTriggers(db, detail, layoutOf(db, detail));
}

/** The number under which it is known which value column stands for what. */
function layoutOf(db: ShardDatabase, detail: TableDetail): number {
  const table = detail.shape.table.toLowerCase();
  const columns = JSON.stringify(detail.shape.columns.map(({ name }) => name));
  const key = JSON.stringify(keyPositions(detail));
  const known = db.value(
    "select layout from _pawl_layouts where table_name = ? and columns = ? and key = ?",
    table,
    columns,
    key,
  );
  if (known !== null) return Number(known);
  const insert =
    "insert into _pawl_layouts (table_name, columns, key) values (?, ?, ?) returning layout";
  return Number(db.value(insert, table, columns, key));
}

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
