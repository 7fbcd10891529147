import { randomBytes } from "node:crypto";
import pg from "pg";
import { afterAll, inject } from "vitest";

/** The server of this test run, and connections on which databases are made and dropped. */
type Server = { readonly url: string; readonly making: pg.Client; readonly dropping: pg.Client };

let server: Promise<Server> | null = null;
const inUse = new Set<string>();
const dropped: Promise<unknown>[] = [];

// A database has hundreds of files, and to delete those of all tests at once takes minutes.
afterAll(async () => {
  for (const name of inUse) dropDatabase(name);
  await Promise.all(dropped.splice(0));
});

/** Makes an empty database on the PostgreSQL server of this test run and gives its URL. */
export async function freshDatabaseUrl(): Promise<string> {
  server ??= connect();
  const { url: serverUrl, making } = await server;
  const name = `${inject("postgresDatabasePrefix")}${randomBytes(6).toString("hex")}`;
  await making.query(`create database ${making.escapeIdentifier(name)}`);
  inUse.add(name);
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return url.href;
}

/** Drops a database of `freshDatabaseUrl` while the tests go on; one still in use goes with the server. */
export function dropDatabase(name: string): void {
  if (!inUse.delete(name) || server === null) return;
  const query = server.then(({ dropping }) =>
    dropping.query(`drop database ${dropping.escapeIdentifier(name)}`),
  );
  dropped.push(query.catch(() => undefined));
}

async function connect(): Promise<Server> {
  const answer = await fetch(inject("postgresDoorUrl"));
  const url = await answer.text();
  if (!answer.ok) throw new Error(`There is no PostgreSQL to test with: ${url}`);
  const making = new pg.Client({ connectionString: url });
  const dropping = new pg.Client({ connectionString: url });
  for (const client of [making, dropping]) {
    // The end of the server is the end of the run.
    client.on("error", () => undefined);
    await client.connect();
  }
  return { url, making, dropping };
}
