import { mkdirSync } from "node:fs";
import Database from "better-sqlite3";
// In a project of your own: from "pawl", which in a clone of Pawl is not installed.
import { createRouter, type Router } from "../../src/index.ts";
import type { Ledger, Sums } from "./ledger.ts";
import { ACCOUNTS, DATA, ENTRIES, fileOf, serverUrl, type ShardName, TENANTS } from "./places.ts";

const TABLES = `
  create table accounts (
    tenant text not null,
    account integer not null,
    n integer not null,
    primary key (tenant, account)
  ) strict, without rowid;

  create table entries (
    tenant text not null,
    account integer not null,
    number integer not null,
    note text not null,
    primary key (tenant, account, number),
    foreign key (tenant, account) references accounts
  ) strict, without rowid;
`;

const ADD_ACCOUNT = "insert into accounts values (:tenant, :account, :n)";
const COUNT = `
  update accounts set n = n + 1 where tenant = :tenant and account = :account returning n
`;
const ADD_ENTRY = "insert into entries values (:tenant, :account, :number, :note)";
const SUMS = `
  select tenant, sum(n) as counted,
    (select count(*) from entries where entries.tenant = accounts.tenant) as entries
  from accounts
  group by tenant
`;

type Connections = Record<ShardName, Database.Database>;

/** The application with its shards in two SQLite files. */
export function openSqliteLedger(): Ledger {
  mkdirSync(DATA, { recursive: true });
  const connections = { east: open("east"), west: open("west") };
  let router: Router<Connections> | null = null;
  const routed = (): Router<Connections> =>
    (router ??= createRouter({ url: serverUrl(), shards: connections }));
  return {
    async prepare() {
      for (const db of Object.values(connections)) db.exec(TABLES);
      connections.east.transaction(fill)(connections.east);
    },
    addEntry: (tenant, account) =>
      routed().write(tenant, (db) => {
        const { n } = db.prepare(COUNT).get({ tenant, account }) as { n: number };
        db.prepare(ADD_ENTRY).run({ tenant, account, number: n, note: `entry ${n}` });
      }),
    routeOf: (tenant) => routed().routeOf(tenant),
    async sumsOn(shard) {
      const rows = connections[shard].prepare(SUMS).all() as ({ tenant: string } & Sums)[];
      return new Map(rows.map(({ tenant, ...sums }) => [tenant, sums]));
    },
    async close() {
      await router?.close();
      for (const db of Object.values(connections)) db.close();
    },
  };
}

function open(shard: ShardName): Database.Database {
  const db = new Database(fileOf(shard), { timeout: 10_000 });
  db.pragma("journal_mode = wal");
  db.pragma("synchronous = normal");
  db.pragma("foreign_keys = on");
  return db;
}

function fill(db: Database.Database): void {
  const addAccount = db.prepare(ADD_ACCOUNT);
  const addEntry = db.prepare(ADD_ENTRY);
  for (const tenant of TENANTS) {
    for (let account = 1; account <= ACCOUNTS; account++) {
      addAccount.run({ tenant, account, n: ENTRIES });
      for (let number = 1; number <= ENTRIES; number++) {
        addEntry.run({ tenant, account, number, note: `entry ${number}` });
      }
    }
  }
}
