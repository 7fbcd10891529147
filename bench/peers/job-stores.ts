import Database from "better-sqlite3";
import type { PostgresServer } from "../../test/postgres-server.ts";
import { withClient } from "../shard-table.ts";
import { makeDatabase } from "../system-postgres.ts";
import type { StoreSize } from "./contender.ts";
import { startRedis } from "./redis-server.ts";

/** An empty store for one measurement. */
export type JobStore = {
  readonly url: string;
  size(): Promise<StoreSize>;
  /** Most memory that its server took, where all jobs are in it; else 0. */
  memoryBytes(): number;
  /** Deletes it. */
  close(): Promise<void>;
};

/** All tables but those of PostgreSQL itself, with their indexes and what is stored out of line. */
const TABLES = `
select format('%I.%I', n.nspname, c.relname) as name, pg_total_relation_size(c.oid)::text as bytes
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'r' and n.nspname <> 'information_schema' and n.nspname not like 'pg\\_%'`;

let databases = 0;

/** Makes a database of its own. */
export async function openPostgresJobs(server: PostgresServer): Promise<JobStore> {
  databases += 1;
  const name = `jobs_${databases}`;
  const url = await makeDatabase(server, name);
  // What the one before left in memory is written now and not while this one is measured.
  await withClient(server.url, (client) => client.query("checkpoint"));
  return {
    url,
    size: () => postgresSize(url),
    memoryBytes: () => 0,
    async close() {
      await withClient(server.url, (client) => client.query(`drop database ${name} with (force)`));
    },
  };
}

function postgresSize(url: string): Promise<StoreSize> {
  return withClient(url, async (client) => {
    const size: StoreSize = { rows: 0, bytes: 0 };
    const tables = await client.query<{ name: string; bytes: string }>(TABLES);
    for (const { name, bytes } of tables.rows) {
      const counted = await client.query<{ count: string }>(`select count(*) from ${name}`);
      size.rows += Number(counted.rows[0]?.count);
      size.bytes += Number(bytes);
    }
    return size;
  });
}

/** What an SQLite file holds, with what is still in its write-ahead log. */
export function sqliteSize(path: string): StoreSize {
  const db = new Database(path);
  try {
    const pages = Number(db.pragma("page_count", { simple: true }));
    const pageBytes = Number(db.pragma("page_size", { simple: true }));
    const tables = db
      .prepare("select name from sqlite_master where type = 'table' and sql like 'create table%'")
      .pluck()
      .all();
    const rows = tables.map((name) =>
      Number(
        db
          .prepare(`select count(*) from "${String(name)}"`)
          .pluck()
          .get(),
      ),
    );
    return { rows: rows.reduce((sum, count) => sum + count, 0), bytes: pages * pageBytes };
  } finally {
    db.close();
  }
}

/** Starts a Redis of its own. */
export async function openRedisJobs(): Promise<JobStore> {
  const redis = await startRedis();
  return {
    url: `redis://127.0.0.1:${redis.port}`,
    size: async () => ({ rows: await redis.countKeys(), bytes: redis.appendOnlyBytes() }),
    memoryBytes: () => redis.memoryPeakBytes(),
    close: () => redis.stop(),
  };
}
