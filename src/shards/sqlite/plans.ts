import { PawlError } from "../../kernel/errors.ts";
import type { Guard, StreamState } from "../shard.ts";
import type { ShardDatabase } from "./connection.ts";
import { z } from "zod";
import { ShardKey } from "../../work/shard/step-protocol.ts";

const TOKEN = "select token from _pawl_plans where plan = ?";
const TAKE = `
  insert into _pawl_plans (plan, token) values (?, ?)
  on conflict (plan) do update set token = excluded.token`;

/** Lets a step of a plan act from now on; refuses one that comes too late. */
export function take(db: ShardDatabase, { plan, token }: Guard): void {
  const seen = seenToken(db, plan);
  if (seen !== null && seen > token) throw stale({ plan, token }, seen);
  db.run(TAKE, plan, BigInt(token));
}

/** Refuses whoever does not hold the plan now, in the transaction of what it protects. */
export function checkGuard(db: ShardDatabase, guard: Guard): void {
  const seen = seenToken(db, guard.plan);
  if (seen !== guard.token) throw stale(guard, seen);
}

/** The token that a plan was taken with; null when it was not. */
function seenToken(db: ShardDatabase, plan: string): number | null {
  const row = db.get(TOKEN, plan);
  return row === undefined ? null : Number(row[0]);
}

function stale({ plan, token }: Guard, seen: number | null): PawlError {
  const other = seen === null ? "the plan was not taken here" : `step ${seen} has acted since`;
  return new PawlError(
    "COORDINATOR_STALE",
    `Step ${token} of the plan ${plan} comes too late: ${other}.`,
    { details: { plan, token, seen } },
  );
}

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
export function install(db: ShardDatabase): void {
  for (const sql of TABLES) db.db.exec(sql);
}

/** Whether Pawl's tables are there, the last of them too. */
export function isInstalled(db: ShardDatabase): boolean {
  const sql = "select 1 from sqlite_schema where type = 'table' and name = '_pawl_fences'";
  return db.get(sql) !== undefined;
}

/** The present time in ms, on the shard's clock; precise to a tenth of one in every version. */
export const NOW_MS = "((julianday('now') - 2440587.5) * 86400000.0)";

/** The present time as a text. */
export const NOW_TEXT = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')";

/** Lets this transaction write past capture and fences while a function runs. */
export function whileApplying<T>(db: ShardDatabase, act: () => T): T {
  db.run("update _pawl_session set applying = 1");
  const result = act();
  db.run("update _pawl_session set applying = 0");
  return result;
}

const LOAD = "select state from _pawl_streams where stream = ?";
const LIST = "select stream, state from _pawl_streams where plan = ? order by stream";
const SAVE = `
  insert into _pawl_streams (stream, plan, state) values (?, ?, ?)
  on conflict (stream) do update set plan = excluded.plan, state = excluded.state`;

/** The state of a stream in JSON. Its fields are in a fixed order, so that equal states are equal texts. */
export const StreamStateJson = z.object({
  position: z.string().nullable(),
  reaching: z.object({ to: z.string(), after_id: z.string() }).nullable(),
  cursor: z.object({ table: z.int(), key: ShardKey.nullable() }),
  phase: z.enum(["copy", "tail"]),
  rows: z.array(z.int()),
  fingerprint: z.string(),
  verified: z
    .object({
      table: z.int(),
      below: ShardKey.nullable(),
      from: z.string(),
      ranges: z.int(),
      rows: z.int(),
    })
    .nullable(),
});

/** The state of a stream into this shard. */
export function loadStream(db: ShardDatabase, stream: string): StreamState | null {
  if (!isInstalled(db)) return null;
  const text = db.value(LOAD, stream);
  return text === null ? null : StreamStateJson.parse(JSON.parse(String(text)));
}

/** The streams of a plan, by name. */
export function listStreams(
  db: ShardDatabase,
  plan: string,
): { stream: string; state: StreamState }[] {
  if (!isInstalled(db)) return [];
  return db.all(LIST, plan).map(([stream, text]) => ({
    stream: String(stream),
    state: StreamStateJson.parse(JSON.parse(String(text))),
  }));
}

/** Keeps the state of a stream. */
export function saveStream(
  db: ShardDatabase,
  plan: string,
  stream: string,
  state: StreamState,
): void {
  db.run(SAVE, stream, plan, stateText(state));
}

/** Drops a stream of the guard's plan. */
export function dropStream(db: ShardDatabase, guard: Guard, stream: string): void {
  checkGuard(db, guard);
  db.run("delete from _pawl_streams where stream = ? and plan = ?", stream, guard.plan);
}

/** Whether two states are the same. */
export function sameState(one: StreamState | null, other: StreamState | null): boolean {
  if (one === null || other === null) return one === other;
  return stateText(one) === stateText(other);
}

function stateText(state: StreamState): string {
  return JSON.stringify(StreamStateJson.parse(state));
}
