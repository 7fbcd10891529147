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

/** Drops a database of `freshDatabaseUrl` while the tests go on; one still in use goes with the server. */
export function dropDatabase(url: string): void {
  drop(nameOf(url));
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
