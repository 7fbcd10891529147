import { execFileSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { type PostgresServer, startPostgres } from "../test/postgres-server.ts";
import { withClient } from "./shard-table.ts";

const INSTALLED = "/usr/lib/postgresql";

/** A PostgreSQL of the machine, with the tools of the same version. */
export type SystemPostgres = PostgresServer & { readonly bin: string };

/**
 * Starts the newest PostgreSQL that the machine has: `pg_dump` refuses a server that is newer than
 * itself, and the package for tests brings none.
 */
export async function startSystemPostgres(settings: readonly string[]): Promise<SystemPostgres> {
  const versions = existsSync(INSTALLED) ? readdirSync(INSTALLED).map(Number) : [];
  const bin = join(INSTALLED, String(Math.max(0, ...versions)), "bin");
  const tools = ["postgres", "initdb", "pg_dump", "psql"];
  if (!tools.every((tool) => existsSync(join(bin, tool)))) {
    throw new Error("This needs PostgreSQL with its tools: apt-get install postgresql");
  }
  return { ...(await startPostgres(settings, bin)), bin };
}

/** Makes a database and answers where it is. */
export async function makeDatabase(server: PostgresServer, name: string): Promise<string> {
  await withClient(server.url, (client) => client.query(`create database ${name}`));
  const url = new URL(server.url);
  url.pathname = `/${name}`;
  return url.href;
}

/** Copies the rows of a table with the tools of PostgreSQL; answers how many seconds it took. */
export function dumpAndRestore({ bin }: SystemPostgres, from: string, to: string): number {
  const startedMs = performance.now();
  const command = '"$1/pg_dump" --data-only -t events "$2" | "$1/psql" -q -v ON_ERROR_STOP=1 "$3"';
  execFileSync("bash", ["-o", "pipefail", "-c", command, "bash", bin, from, to], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  return (performance.now() - startedMs) / 1_000;
}
