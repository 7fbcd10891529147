import { randomBytes } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import pg from "pg";
import type { TestProject } from "vitest/node";
import { type PostgresServer, startPostgres } from "./postgres-server.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Answers with the URL of the PostgreSQL server of this test run, which it starts when first asked. */
    postgresDoorUrl: string;
    /** What the names of all databases of this test run begin with. */
    postgresDatabasePrefix: string;
  }
}

const external = process.env["TEST_DATABASE_URL"];
const prefix = `pawl_test_${randomBytes(4).toString("hex")}_`;
/**
 * Its files may be in memory, so it keeps few of those that only a crash would ask for. Its many databases
 * are gone before they need a vacuum.
 */
const SETTINGS = ["max_wal_size=192MB", "autovacuum=off"];
let started: Promise<PostgresServer> | null = null;

/**
 * Gives the whole test run one PostgreSQL server: the one at `TEST_DATABASE_URL`, else a new one
 * that lives as long as the run. It is started by the first test that wants a database, so a run
 * without such tests does not pay for it.
 */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const door = createServer((_request, response) => {
    serverUrl().then(
      (url) => response.end(url),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
  await new Promise<void>((resolve) => {
    door.listen(0, "127.0.0.1", resolve);
  });
  const { port } = door.address() as AddressInfo;
  project.provide("postgresDoorUrl", `http://127.0.0.1:${port}`);
  project.provide("postgresDatabasePrefix", prefix);

  return async () => {
    door.closeAllConnections();
    door.close();
    if (external !== undefined) await dropDatabases(external);
    // A server that did not start has failed the tests that asked for it.
    const server = await started?.catch(() => null);
    await server?.stop();
  };
}

async function serverUrl(): Promise<string> {
  if (external !== undefined) return external;
  started ??= startPostgres(SETTINGS);
  return (await started).url;
}

async function dropDatabases(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const { rows } = await client.query<{ datname: string }>(
      "select datname from pg_database where starts_with(datname, $1)",
      [prefix],
    );
    for (const { datname } of rows) {
      await client.query(`drop database ${client.escapeIdentifier(datname)} with (force)`);
    }
    const roles = await client.query<{ rolname: string }>(
      "select rolname from pg_roles where starts_with(rolname, $1)",
      [prefix],
    );
    for (const { rolname } of roles.rows) {
      await client.query(`drop role ${client.escapeIdentifier(rolname)}`);
    }
  } finally {
    await client.end();
  }
}
