import type pg from "pg";
import type { Guard, StreamState } from "../shard.ts";
import { ENTER_FUNCTIONS } from "./enter.ts";
import { sqlState } from "./failures.ts";
import { APPLICATION_NAME, withSession, withTransaction } from "./session.ts";
import { literal } from "./sql-text.ts";

// Many may install at once; the others wait here and find it done. The number is arbitrary, but the
// same for ever.
const LOCK = "select pg_advisory_xact_lock(7291834651)";

const IS_THERE = "select to_regclass('_pawl.about') is not null";
const VERSION = "select coalesce(max(version), 0) from _pawl.about";

/** Makes Pawl's own tables and functions in a shard, or brings them up to date. */
export async function install(pool: pg.Pool): Promise<void> {
  await withTransaction(pool, async (session) => {
    const isCurrent = async (): Promise<boolean> => {
      const [[there] = []] = await session.rows(IS_THERE);
      if (there !== "t") return false;
      const [[version] = []] = await session.rows(VERSION);
      return Number(version) >= INSTALLED_VERSION;
    };
    if (await isCurrent()) return;
    await session.run(["begin", "set local lock_timeout = '30s'", LOCK]);
    if (!(await isCurrent())) await session.run(INSTALL_STATEMENTS);
    await session.run(["commit"]);
  });
}

/** The statement that refuses a step that was overtaken, and keeps the next one out until the end. */
export function guardSql({ plan, token }: Guard): string {
  return `select _pawl.guard(${literal(plan)}, ${Math.trunc(token)})`;
}

/** Lets a plan's step act from now on. */
export async function take(pool: pg.Pool, { plan, token }: Guard): Promise<void> {
  const taking = async (): Promise<void> => {
    await withSession(pool, (session) =>
      session.run([
        "begin",
        "set local lock_timeout = '3s'",
        `select _pawl.take(${literal(plan)}, ${Math.trunc(token)})`,
        "commit",
      ]),
    );
  };
  try {
    await taking();
  } catch (error) {
    if (sqlState(error) !== "55P03") throw error;
    // A worker that froze in the middle of sending rows holds its transaction for as long as its
    // connection lives. Its step was given to us, so its connection may go.
    await withSession(pool, (session) => session.run([endHolders(plan)]));
    await taking();
  }
}

function endHolders(plan: string): string {
  return `
select pg_terminate_backend(a.pid)
from pg_locks l join pg_stat_activity a on a.pid = l.pid
where l.locktype = 'advisory' and l.classid = 729183 and l.objsubid = 2 and l.granted
  and l.database = (select oid from pg_database where datname = current_database())
  and l.objid::bigint = hashtext(${literal(plan)})::bigint & 4294967295
  and a.application_name = ${literal(APPLICATION_NAME)} and a.pid <> pg_backend_pid()`;
}

/** The state of a stream into this shard. */
export async function loadStream(pool: pg.Pool, stream: string): Promise<StreamState | null> {
  const [row] = await withSession(pool, (session) =>
    session.rowsIfInstalled(`select state from _pawl.streams where stream = ${literal(stream)}`),
  );
  return row === undefined ? null : readState(row[0]);
}

/** The streams of a plan into this shard, by name. */
export async function listStreams(
  pool: pg.Pool,
  plan: string,
): Promise<{ stream: string; state: StreamState }[]> {
  const rows = await withSession(pool, (session) =>
    session.rowsIfInstalled(
      `select stream, state from _pawl.streams where plan = ${literal(plan)} order by stream`,
    ),
  );
  return rows.map(([stream, state]) => ({ stream: stream ?? "", state: readState(state) }));
}

/** Forgets a stream, once. */
export async function dropStream(pool: pg.Pool, guard: Guard, stream: string): Promise<void> {
  await withSession(pool, (session) =>
    session.run([
      "begin",
      guardSql(guard),
      `delete from _pawl.streams where stream = ${literal(stream)}`,
      "commit",
    ]),
  );
}

/** What was written by `apply`, which alone writes it. */
function readState(text: string | null | undefined): StreamState {
  return JSON.parse(text ?? "null") as StreamState;
}

/** Raised with every change of what is below, which older drivers must then still get along with. */
export const INSTALLED_VERSION = 1;

const TABLES = [
  "create schema if not exists _pawl",
  "create table if not exists _pawl.about (version integer not null)",
  `create table if not exists _pawl.plans (
    plan text primary key,
    token bigint not null,
    armed_at pg_snapshot,
    needs pg_snapshot
  )`,
  `create table if not exists _pawl.captures (
    plan text not null,
    table_name text not null,
    primary key (plan, table_name)
  )`,
  // `cache 1`: two statements of one transaction must take ids in their order.
  `create table if not exists _pawl.changes (
    id bigint generated always as identity (cache 1) primary key,
    xid xid8 not null default pg_current_xact_id(),
    table_name text not null,
    op text not null,
    tenant text,
    key text[] not null,
    image text,
    ddl text,
    fingerprint text,
    at timestamptz not null default clock_timestamp()
  )`,
  "create index if not exists changes_xid on _pawl.changes (xid)",
  `create table if not exists _pawl.streams (
    stream text collate "C" primary key,
    plan text not null,
    state jsonb not null
  )`,
  `create table if not exists _pawl.fences (
    tenant text collate "C" primary key,
    epoch bigint not null,
    state text not null,
    shard text,
    until timestamptz,
    settled boolean not null default false
  )`,
  // Who changed fences last. A sequence, because it is read past the snapshot of a transaction.
  "create sequence if not exists _pawl.fence_xid minvalue 0 start 0",
];

const FUNCTIONS = [
  // Shared by all acts of a plan's step, and waited for by the next step. Taken before the token is
  // read, by a function that sees what was committed while it waited.
  `create or replace function _pawl.guard(of_plan text, with_token bigint) returns void
  language plpgsql as $$
  declare seen bigint;
  begin
    perform pg_advisory_xact_lock_shared(729183, hashtext(of_plan));
    select token into seen from _pawl.plans where plan = of_plan;
    if seen is distinct from with_token then
      raise exception using errcode = 'PW001',
        message = format('The step with token %s of plan %s was overtaken: the shard has seen token %s.',
          with_token, of_plan, coalesce(seen::text, 'none')),
        detail = json_build_object('plan', of_plan, 'token', with_token, 'seen', seen);
    end if;
  end $$`,
  `create or replace function _pawl.take(of_plan text, with_token bigint) returns void
  language plpgsql as $$
  begin
    perform pg_advisory_xact_lock(729183, hashtext(of_plan));
    insert into _pawl.plans (plan, token) values (of_plan, with_token)
    on conflict (plan) do update set token = excluded.token
    where plans.token <= excluded.token;
    if not found then perform _pawl.guard(of_plan, with_token); end if;
  end $$`,
  `create or replace function _pawl.move_stream(
    of_plan text, named text, before jsonb, after jsonb) returns void
  language plpgsql as $$
  begin
    if before is null then
      insert into _pawl.streams (stream, plan, state) values (named, of_plan, after)
      on conflict do nothing;
    else
      update _pawl.streams set state = after where stream = named and state = before;
    end if;
    if not found then
      raise exception using errcode = 'PW002',
        message = format('The stream %s is not where this step read it. Read it again.', named),
        detail = json_build_object('stream', named);
    end if;
  end $$`,
  `create or replace function _pawl.expect_digest(
    got_rows numeric, got_digest numeric, wanted_rows numeric, wanted_digest text) returns void
  language plpgsql as $$
  begin
    if got_rows <> wanted_rows or got_digest::text <> wanted_digest then
      raise exception using errcode = 'PW006',
        message = format('The changed rows are not those of the source: %s rows with digest %s, and not %s with %s.',
          got_rows, got_digest, wanted_rows, wanted_digest),
        detail = json_build_object('rows', got_rows, 'expected_rows', wanted_rows);
    end if;
  end $$`,
  // The changes between two snapshots, the first ones by id. Few are found by their transactions and
  // sorted; of many, the first ones are found along the ids, without sorting all of them again for
  // every page. The subquery with an offset is what keeps the planner to the index on xid.
  `create or replace function _pawl.changes_between(
    since pg_snapshot, upto pg_snapshot, above bigint, most integer) returns setof _pawl.changes
  language plpgsql stable set enable_seqscan = off as $$
  declare few integer := 4 * most + 1000;
  begin
    if (select count(*) from (
      select from _pawl.changes c
      where c.xid >= pg_snapshot_xmin(since) and c.xid < pg_snapshot_xmax(upto) limit few) s) < few
    then
      return query
        select * from (
          select * from _pawl.changes c
          where c.xid >= pg_snapshot_xmin(since) and c.xid < pg_snapshot_xmax(upto) offset 0) c
        where c.id > above
          and pg_visible_in_snapshot(c.xid, upto) and not pg_visible_in_snapshot(c.xid, since)
        order by c.id limit most;
    else
      return query
        select * from _pawl.changes c
        where c.id > above
          and pg_visible_in_snapshot(c.xid, upto) and not pg_visible_in_snapshot(c.xid, since)
        order by c.id limit most;
    end if;
  end $$`,
];

/** Makes everything that Pawl has in a shard; may be repeated. */
export const INSTALL_STATEMENTS: readonly string[] = [
  ...TABLES,
  ...FUNCTIONS,
  ...ENTER_FUNCTIONS,
  // Applications enter and are captured with no right on Pawl's tables: the functions have it.
  "revoke all on all functions in schema _pawl from public",
  "grant usage on schema _pawl to public",
  "grant execute on function _pawl.enter(text, bigint), _pawl.enter_read(text, bigint) to public",
  "delete from _pawl.about",
  `insert into _pawl.about (version) values (${INSTALLED_VERSION})`,
];
