import { randomBytes } from "node:crypto";
import pg from "pg";
import { afterAll, inject } from "vitest";

/** The server of this test run, with connections on which databases are made and dropped. */
type Server = { readonly url: string; readonly pool: pg.Pool };

let server: Promise<Server> | null = null;
const inUse = new Set<string>();
const dropped: Promise<unknown>[] = [];

// A database has hundreds of files, and to delete those of all tests at once takes minutes.
afterAll(async () => {
  for (const name of inUse) drop(name);
  await Promise.all(dropped.splice(0));
});

/**
 * Makes a database on the PostgreSQL server of this test run and gives its URL: an empty one, or one
 * like another that nobody is connected to.
 */
export async function freshDatabaseUrl(likeUrl: string | null = null): Promise<string> {
  server ??= findServer();
  const { url: serverUrl, pool } = await server;
  const name = `${inject("postgresDatabasePrefix")}${randomBytes(6).toString("hex")}`;
  const template = likeUrl === null ? "template1" : nameOf(likeUrl);
  const [fresh, like] = [name, template].map(pg.escapeIdentifier);
  await pool.query(`create database ${fresh} template ${like}`);
  inUse.add(name);
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return url.href;
}

/** Runs SQL on a database as its superuser, behind the back of whatever has it open. */
export async function sqlOn(url: string, text: string): Promise<unknown[][]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<unknown[]>({ text, rowMode: "array" })).rows;
  } finally {
    await client.end();
  }
}

/** Drops a database of `freshDatabaseUrl` while the tests go on; one still in use goes with the server. */
export function dropDatabase(url: string): void {
  drop(nameOf(url));
}

/** The schema `public` belongs to whom it did. Of what is in no schema tests make nothing; that is checked. */
const EMPTY = `
set client_min_messages = error;
set lock_timeout = '2s';
do $$
declare
  owner regrole := (select nspowner from pg_namespace where nspname = 'public');
  named text;
begin
  for named in
    select nspname from pg_namespace where nspname !~ '^pg_' and nspname <> 'information_schema'
  loop
    execute format('drop schema %I cascade', named);
  end loop;
  execute format('create schema public authorization %s', owner);
  grant usage on schema public to public;
  if exists (select from pg_extension where extname <> 'plpgsql')
    or exists (select from pg_event_trigger) or exists (select from pg_publication)
    or exists (select from pg_default_acl) or exists (select from pg_foreign_server)
    or exists (select from pg_cast where oid >= 16384)
    or exists (select from pg_largeobject_metadata)
    or exists (select from pg_db_role_setting where setdatabase =
      (select oid from pg_database where datname = current_database()))
  then raise exception 'the database is not empty'; end if;
end $$`;

/**
 * Empties the database of a client that owns all that is in it. Fails when a transaction of somebody else
 * is in the way.
 */
export async function emptyDatabase(client: pg.ClientBase): Promise<void> {
  await client.query("rollback");
  await client.query(EMPTY);
}

function drop(name: string): void {
  if (!inUse.delete(name) || server === null) return;
  const sql = `drop database ${pg.escapeIdentifier(name)}`;
  dropped.push(server.then(({ pool }) => pool.query(sql)).catch(() => undefined));
}

function nameOf(url: string): string {
  return new URL(url).pathname.slice(1);
}

async function findServer(): Promise<Server> {
  const answer = await fetch(inject("postgresDoorUrl"));
  const url = await answer.text();
  if (!answer.ok) throw new Error(`There is no PostgreSQL to test with: ${url}`);
  const pool = new pg.Pool({ connectionString: url, max: 4, allowExitOnIdle: true });
  // The end of the server is the end of the run.
  pool.on("error", () => undefined);
  return { url, pool };
}
