import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { nodeHash } from "../../src/engine/config.ts";
import type { Shard } from "../../src/shards/shard.ts";
import { openSqliteShard } from "../../src/shards/sqlite/open-sqlite-shard.ts";
import type { Topology } from "../../src/work/shard/spec.ts";

/** The tables of all shards, in the order in which they are copied. */
export const TABLES = [
  { table: "customers", shard_by: "tenant" },
  { table: "orders", shard_by: "tenant" },
];

const DDL = `
  create table customers (id integer primary key, tenant text not null, name text);
  create table orders (
    customer integer not null references customers (id),
    line text not null,
    tenant text not null,
    amount real,
    primary key (customer, line)
  ) without rowid;`;

/** In memory where there is such a place: it is the copy that is looked at, not the disk. */
const FOLDER = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();

/** Where a value belongs. */
export function shardOf(topology: Topology, value: string): string {
  switch (topology.by) {
    case "tenant":
      return topology.tenants[value] ?? topology.default;
    case "hash": {
      const number = Number.parseInt(nodeHash.sha256(value).slice(0, 8), 16);
      return topology.buckets[number % topology.buckets.length] ?? "";
    }
    case "range":
      return topology.ranges.find(({ below }) => below === null || value < below)?.shard ?? "";
  }
}

/** Some SQLite files with the same tables, and where every row of them should be. */
export class ShardFiles {
  readonly #folder: string;
  readonly #databases = new Map<string, Database.Database>();
  readonly shards = new Map<string, Shard>();

  private constructor(folder: string) {
    this.#folder = folder;
  }

  static async create(names: readonly string[]): Promise<ShardFiles> {
    const files = new ShardFiles(mkdtempSync(join(FOLDER, "pawl-moves-")));
    for (const name of names) {
      const file = join(files.#folder, `${name}.db`);
      const database = new Database(file);
      database.pragma("journal_mode = wal");
      database.exec(DDL);
      files.#databases.set(name, database);
      files.shards.set(name, await openSqliteShard({ file }));
    }
    return files;
  }

  database(name: string): Database.Database {
    const database = this.#databases.get(name);
    if (database === undefined) throw new Error(`There is no shard ${name}.`);
    return database;
  }

  /** Puts rows where a topology says that they belong. */
  put(topology: Topology, tenants: readonly string[]): void {
    for (const [index, tenant] of tenants.entries()) {
      const database = this.database(shardOf(topology, tenant));
      database.prepare("insert into customers values (?, ?, ?)").run(index, tenant, `c${index}`);
      const order = database.prepare("insert into orders values (?, ?, ?, ?)");
      for (let line = 0; line < index % 3; line++) order.run(index, `l${line}`, tenant, index / 3);
    }
  }

  /** All rows with the shard that they are on, sorted. */
  rows(): string[] {
    const found: string[] = [];
    for (const [name, database] of this.#databases) {
      for (const { table } of TABLES) {
        const rows = database.prepare(`select * from ${table}`).all() as { tenant: string }[];
        found.push(...rows.map((row) => `${name} ${table} ${row.tenant} ${JSON.stringify(row)}`));
      }
    }
    return found.toSorted();
  }

  /** Rows as `rows` tells them, with their shard by a topology. */
  placed(rows: readonly string[], topology: Topology): string[] {
    return rows
      .map((row) => {
        const [, table, tenant = "", ...rest] = row.split(" ");
        return [shardOf(topology, tenant), table, tenant, ...rest].join(" ");
      })
      .toSorted();
  }

  async close(): Promise<void> {
    for (const shard of this.shards.values()) await shard.close();
    for (const database of this.#databases.values()) database.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
