import Database from "better-sqlite3";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import pg from "pg";
import { openPostgresShard } from "../src/shards/postgres/open-postgres-shard.ts";
import { openSqliteShard } from "../src/shards/sqlite/open-sqlite-shard.ts";
import type { Shard } from "../src/shards/shard.ts";
import { startPostgres } from "../test/postgres-server.ts";
import { type Bench, type Benchmark, type Figure, told } from "./benchmark.ts";
import { fillPostgresTable, fillSqliteTable } from "./shard-table.ts";

const ROWS = 100_000;
const WRITES = 20_000;
const ROUNDS = 3;
const GUARD = { plan: "capture", token: 1 };

/** What writes cost while their table is captured, beside what they cost otherwise. */
export const capture: Benchmark = {
  name: "capture",
  about: "what a table costs its writers while its writes are captured",
  run: async (bench) => [...(await postgresCapture()), ...(await sqliteCapture(bench))],
};

/** Writes a second of one client, the best of some rounds. */
type Rate = () => Promise<number>;

async function compare(engine: string, shard: Shard, rate: Rate): Promise<Figure[]> {
  const best = async (): Promise<number> => {
    const rates: number[] = [];
    for (let round = 0; round < ROUNDS; round++) rates.push(await rate());
    return Math.max(...rates);
  };
  const plain = await best();
  await shard.install();
  await shard.take(GUARD);
  const tables = await shard.describe([{ table: "events", shard_by: "tenant_id" }]);
  await shard.armCapture(GUARD, tables);
  const captured = await best();
  await shard.close();
  const setting = "one client, an update a transaction";
  return [
    told(`writes to ${engine}`, setting, plain, "writes/s"),
    told(`writes to ${engine}, captured`, setting, captured, "writes/s"),
    told(`what capture adds on ${engine}`, setting, 1e6 / captured - 1e6 / plain, "µs/write"),
  ];
}

async function postgresCapture(): Promise<Figure[]> {
  const server = await startPostgres(["synchronous_commit=off"]);
  try {
    await fillPostgresTable(server.url, ROWS);
    const client = new pg.Client({ connectionString: server.url });
    await client.connect();
    const shard = await openPostgresShard({ connectionString: server.url });
    const query = { name: "write", text: "update events set kind = kind + 1 where id = $1" };
    const figures = await compare("PostgreSQL", shard, async () => {
      const startedMs = performance.now();
      for (let n = 0; n < WRITES; n++) {
        await client.query({ ...query, values: [1 + ((n * 7919) % ROWS)] });
      }
      return (WRITES * 1_000) / (performance.now() - startedMs);
    });
    await client.end();
    return figures;
  } finally {
    await server.stop();
  }
}

async function sqliteCapture(bench: Bench): Promise<Figure[]> {
  const file = join(bench.folder, "captured.db");
  fillSqliteTable(file, ROWS);
  const db = new Database(file);
  db.pragma("synchronous = normal");
  const shard = await openSqliteShard({ file });
  const figures = await compare("SQLite", shard, async () => {
    const write = db.prepare("update events set kind = kind + 1 where id = ?");
    const startedMs = performance.now();
    for (let n = 0; n < WRITES; n++) write.run(1 + ((n * 7919) % ROWS));
    return (WRITES * 1_000) / (performance.now() - startedMs);
  });
  db.close();
  return figures;
}
