/**
 * `node scripts/fuzz-api.ts --requests 41000 --seed 7`: sends requests that the seed makes up from the
 * table of operations, some as large as they may be, to a server of its own. `--postgres` has that
 * use PostgreSQL instead of SQLite. Prints the statuses, the slowest answer and the memory before
 * and after; ends with 1 on a 5xx, a broken contract, or an answer later than `--slowest-ms`. With
 * `--minutes 5` it goes on with the next seed until that time is over. The last line says how many
 * requests there were.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { createClient } from "../src/client/client.ts";
import { Engine } from "../src/engine/engine.ts";
import { machineEnvironment } from "../src/engine/config.ts";
import { createApp } from "../src/server/http/app.ts";
import { startServer } from "../src/server/start-server.ts";
import { openPostgresStore } from "../src/store/postgres/store.ts";
import { openSqliteStore } from "../src/store/sqlite/store.ts";
import { startPostgres } from "../test/postgres-server.ts";
import { fuzzApi } from "../test/end-to-end/fuzz-api.ts";

const { values } = parseArgs({
  options: {
    requests: { type: "string", default: "2000" },
    seed: { type: "string", default: String(Date.now() % 2 ** 31) },
    parallel: { type: "string", default: "1" },
    minutes: { type: "string", default: "0" },
    postgres: { type: "boolean", default: false },
    "slowest-ms": { type: "string", default: "Infinity" },
  },
});

const ASSETS = [
  { kind: "asset", asset_key: "report", partitions: null },
  {
    kind: "asset",
    asset_key: "sales/orders",
    partitions: { type: "daily", start: "2025-01-01", end: "2025-01-11" },
  },
  { kind: "asset", asset_key: "tenants", partitions: { type: "dynamic", name: "tenants" } },
] as const;

const folder = mkdtempSync(join(tmpdir(), "pawl-fuzz-"));
const postgres = values.postgres ? await startPostgres() : null;
const store =
  postgres === null
    ? await openSqliteStore({ path: join(folder, "pawl.db"), clock: Date.now })
    : await openPostgresStore({ url: postgres.url, unsafe: true });
const engine = await Engine.open({
  store,
  tenantId: "default",
  workspaceId: "default",
  environment: machineEnvironment(() => undefined),
});
engine.start();
const logged: string[] = [];
const app = createApp({
  engines: [engine],
  store,
  auth: { required: false },
  log: { error: (fields) => logged.push(String((fields as { err?: unknown }).err)) },
  version: "0.0.0",
});
const server = await startServer({ app, host: "127.0.0.1", port: 0 });

/** What is alive, once what is not has been swept where that can be asked for. */
function memory(): string {
  globalThis.gc?.();
  const { heapUsed, rss } = process.memoryUsage();
  return `${Math.round(heapUsed / 1e6)} MB of heap, ${Math.round(rss / 1e6)} MB in all`;
}

try {
  await createClient({ url: server.url }).call("publishDefinitions", {
    body: { specs: [...ASSETS] },
  });
  const endsAt = performance.now() + Number(values.minutes) * 60_000;
  let sent = 0;
  let seed = Number(values.seed);
  do {
    sent += await fuzz(seed);
    seed += 1;
  } while (performance.now() < endsAt && process.exitCode !== 1);
  console.log(`${sent} requests, ${process.exitCode === 1 ? 1 : 0} broken`);
} finally {
  await server.stop(2_000);
  await engine.stop();
  await store.close();
  await postgres?.stop();
  rmSync(folder, { recursive: true, force: true });
}

/** Sends what one seed makes up; answers how many requests that were. */
async function fuzz(seed: number): Promise<number> {
  const before = memory();
  const startedMs = performance.now();
  const { requests, statuses, slowest, faults } = await fuzzApi({
    url: server.url,
    seed,
    requests: Number(values.requests),
    parallel: Number(values.parallel),
    said: (count) => console.log(`  ${count} requests: ${memory()}`),
  });
  const seconds = ((performance.now() - startedMs) / 1_000).toFixed(0);
  console.log(`seed ${seed}: ${requests} requests in ${seconds} s on ${store.description}`);
  console.log(`statuses: ${JSON.stringify(statuses)}`);
  console.log(`slowest: ${slowest.ms.toFixed(0)} ms, ${slowest.what.slice(0, 400)}`);
  console.log(`memory: ${before} before, ${memory()} after; ${engine.status().pos} events`);
  for (const fault of [...faults, ...logged.slice(0, 20)]) console.error(fault);
  const isLate = slowest.ms > Number(values["slowest-ms"]);
  if (faults.length + logged.length > 0 || isLate) {
    const flags = values.postgres ? " --postgres" : "";
    const again = `node scripts/fuzz-api.ts --seed ${seed} --requests ${values.requests}${flags}`;
    console.log(`seed ${seed}: broken; again: ${again}`);
    process.exitCode = 1;
  }
  return requests;
}
