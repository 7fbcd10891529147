import { join } from "node:path";
import Database from "better-sqlite3";

/** A project with three shards in files of its folder, and a move of one tenant. */
export const SHARD_CONFIG = `import { byTenant, definePawl, move, shards, sqliteShard } from "pawl";
  const files = shards({
    shards: { a: sqliteShard("a.db"), b: sqliteShard("b.db"), c: sqliteShard("c.db") },
    tables: { users: "tenant", orders: "tenant" },
    allowDdl: true,
    retry: { delayMs: 50, maxDelayMs: 50 },
  });
  const spread = move("spread", {
    from: byTenant({}, "a"),
    to: byTenant({ mover: "b" }, "a"),
    strategy: { type: "cardinality", rows: 20 },
    segmentAttempts: 1,
  });
  export default definePawl({ shards: files, moves: [spread] });`;

const TABLES = [
  "create table users (id integer primary key, tenant text not null, name text)",
  "create table orders (id integer primary key, tenant text not null, total integer)",
];

/** Makes the files of the shards, with fifty rows a table for each tenant on the first. */
export function makeShards(folder: string, tenants: readonly string[]): void {
  for (const shard of ["a", "b", "c"]) {
    within(folder, shard, (db) => {
      for (const table of TABLES) db.exec(table);
      if (shard !== "a") return;
      for (const [at, tenant] of tenants.entries()) {
        for (let n = 1; n <= 50; n++) {
          const id = at * 1_000 + n;
          db.prepare("insert into users values (?, ?, ?)").run(id, tenant, `name ${n}`);
          db.prepare("insert into orders values (?, ?, ?)").run(id, tenant, n);
        }
      }
    });
  }
}

/** Runs a statement on a shard, past any router. */
export function run(folder: string, shard: string, statement: string): void {
  within(folder, shard, (db) => db.exec(statement));
}

/** How many rows a tenant has on each shard, in both tables together. */
export function rowsOf(folder: string, tenant: string): Record<string, number> {
  return Object.fromEntries(
    ["a", "b", "c"].map((shard) => [shard, within(folder, shard, (db) => countOf(db, tenant))]),
  );
}

function countOf(db: Database.Database, tenant: string): number {
  const query = "select count(*) from ";
  return ["users", "orders"]
    .map((table) => db.prepare(`${query}${table} where tenant = ?`).pluck().get(tenant) as number)
    .reduce((sum, count) => sum + count, 0);
}

function within<Result>(
  folder: string,
  shard: string,
  body: (db: Database.Database) => Result,
): Result {
  const db = new Database(join(folder, `${shard}.db`), { timeout: 5_000 });
  try {
    return body(db);
  } finally {
    db.close();
  }
}
