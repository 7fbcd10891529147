import pg from "pg";
// In a project of your own: from "pawl", which in a clone of Pawl is not installed.
import { createRouter, type Router } from "../../src/index.ts";
import type { Ledger, Sums } from "./ledger.ts";
import { ACCOUNTS, ENTRIES, serverUrl, type ShardName, TENANTS } from "./places.ts";

const TABLES = `
  create table accounts (
    tenant text not null,
    account integer not null,
    n bigint not null,
    primary key (tenant, account)
  );

  create table entries (
    tenant text not null,
    account integer not null,
    number bigint not null,
    note text not null,
    primary key (tenant, account, number),
    foreign key (tenant, account) references accounts
  );
`;

const FILL_ACCOUNTS = `
  insert into accounts
  select tenant, account, $3
  from unnest($1::text[]) as tenant, generate_series(1, $2) as account
`;
const FILL_ENTRIES = `
  insert into entries
  select tenant, account, number, 'entry ' || number
  from accounts, generate_series(1, accounts.n) as number
`;
/** Both in one statement, as each costs a way to the server and back. */
const ADD_ENTRY = `
  with counted as (
    update accounts set n = n + 1 where tenant = $1 and account = $2 returning n
  )
  insert into entries
  select $1, $2, n, 'entry ' || n
  from counted
`;
const SUMS = `
  select tenant, sum(n)::float8 as counted,
    (select count(*) from entries where entries.tenant = accounts.tenant)::float8 as entries
  from accounts
  group by tenant
`;

const CONNECTIONS_MAX = 20;

/** Where each shard is. */
export type Databases = Record<ShardName, string>;

type Connections = Record<ShardName, pg.Pool>;

/** The application with its shards in two PostgreSQL databases. */
export function openPostgresLedger({ east, west }: Databases): Ledger {
  const connections = { east: open(east), west: open(west) };
  let router: Router<Connections> | null = null;
  const routed = (): Router<Connections> =>
    (router ??= createRouter({ url: serverUrl(), shards: connections }));
  return {
    async prepare() {
      for (const pool of Object.values(connections)) await pool.query(TABLES);
      await connections.east.query(FILL_ACCOUNTS, [TENANTS, ACCOUNTS, ENTRIES]);
      await connections.east.query(FILL_ENTRIES);
    },
    addEntry: (tenant, account) =>
      routed().write(tenant, async (client) => {
        await client.query({ name: "add-entry", text: ADD_ENTRY, values: [tenant, account] });
      }),
    routeOf: (tenant) => routed().routeOf(tenant),
    async sumsOn(shard) {
      const { rows } = await connections[shard].query<{ tenant: string } & Sums>(SUMS);
      return new Map(rows.map(({ tenant, ...sums }) => [tenant, sums]));
    },
    async close() {
      await router?.close();
      for (const pool of Object.values(connections)) await pool.end();
    },
  };
}

function open(connectionString: string): pg.Pool {
  return new pg.Pool({ connectionString, max: CONNECTIONS_MAX });
}
