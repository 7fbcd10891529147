import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import pg from "pg";
// A real project has databases already; this one borrows what Pawl's own tests run on.
import { startPostgres } from "../../test/postgres-server.ts";
import { DATA, POSTGRES_FILE, SHARDS } from "./places.ts";

/*
 * node postgres.ts: starts a PostgreSQL with an empty database for each shard and keeps it until
 * Ctrl-C. While it runs, the shards of this folder are there.
 */

const server = await startPostgres();
const client = new pg.Client({ connectionString: server.url });
await client.connect();
const urls: Record<string, string> = {};
for (const shard of SHARDS) {
  await client.query(`create database ${client.escapeIdentifier(shard)}`);
  urls[shard] = new URL(`/${shard}`, server.url).href;
}
await client.end();
mkdirSync(DATA, { recursive: true });
writeFileSync(POSTGRES_FILE, `${JSON.stringify(urls, null, 2)}\n`);
console.log(`PostgreSQL has the databases ${SHARDS.join(" and ")}, until Ctrl-C.`);

// Without this nothing would keep the process, and with it the server, from ending.
const awake = setInterval(() => undefined, 60_000);
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => {
    clearInterval(awake);
    rmSync(POSTGRES_FILE, { force: true });
    void server.stop();
  });
}
