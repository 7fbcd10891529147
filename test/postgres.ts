import { randomBytes } from "node:crypto";
import pg from "pg";
import { inject } from "vitest";

/** Makes an empty database on the PostgreSQL server of this test run and gives its URL. */
export async function freshDatabaseUrl(): Promise<string> {
  const answer = await fetch(inject("postgresDoorUrl"));
  const serverUrl = await answer.text();
  if (!answer.ok) throw new Error(`There is no PostgreSQL to test with: ${serverUrl}`);

  const name = `${inject("postgresDatabasePrefix")}${randomBytes(6).toString("hex")}`;
  const client = new pg.Client({ connectionString: serverUrl });
  await client.connect();
  try {
    await client.query(`create database ${client.escapeIdentifier(name)}`);
  } finally {
    await client.end();
  }
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return url.href;
}
