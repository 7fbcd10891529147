import type { Connection } from "./connection.ts";

/*
 * Pawl's own tables in a user's database. Whatever triggers of the application's statements touch
 * is written so that old versions of SQLite, which other programs bring along, understand it.
 */
const TABLES = [
  // One row. `applying` is never committed as 1, so only the transaction that set it sees it.
  `create table if not exists _pawl_session (
     one integer primary key check (one = 1),
     applying integer not null default 0,
     tenant text,
     epoch integer
   )`,
  `create table if not exists _pawl_plans (
     plan text primary key,
     token integer not null,
     armed_at integer,
     released integer,
     tables text not null default '[]'
   )`,
  `create table if not exists _pawl_layouts (
     layout integer primary key,
     table_name text not null,
     columns text not null,
     key text not null
   )`,
  // Value columns c0, c1, … are added as tables need them. They have no type, so that a value stays
  // in the class that it has in the table.
  `create table if not exists _pawl_changes (
     id integer primary key autoincrement,
     table_name text,
     op text not null,
     layout integer,
     tenant,
     ddl text,
     fingerprint text,
     at text not null
   )`,
  // Rows that a REPLACE under way may take away, which fires no trigger.
  "create table if not exists _pawl_victims (table_name text, cause text, tenant)",
  `create index if not exists _pawl_victims_cause on _pawl_victims (table_name, cause)`,
  `create table if not exists _pawl_streams (
     stream text primary key,
     plan text not null,
     state text not null
   )`,
  `create table if not exists _pawl_fences (
     tenant text primary key,
     epoch integer not null,
     state text not null,
     shard text,
     until real,
     plan text not null
   )`,
  "insert into _pawl_session (one) select 1 where not exists (select 1 from _pawl_session)",
];

/** Makes Pawl's tables. */
export function install(db: Connection): void {
  for (const sql of TABLES) db.db.exec(sql);
}

/** Whether Pawl's tables are there, the last of them too. */
export function isInstalled(db: Connection): boolean {
  const sql = "select 1 from sqlite_schema where type = 'table' and name = '_pawl_fences'";
  return db.get(sql) !== undefined;
}

/** The present time in ms, on the shard's clock; precise to a tenth of one in every version. */
export const NOW_MS = "((julianday('now') - 2440587.5) * 86400000.0)";

/** The present time as a text. */
export const NOW_TEXT = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')";

/** Lets this transaction write past capture and fences while a function runs. */
export function whileApplying<T>(db: Connection, act: () => T): T {
  db.run("update _pawl_session set applying = 1");
  const result = act();
  db.run("update _pawl_session set applying = 0");
  return result;
}
