import Database from "better-sqlite3";
import pg from "pg";
import type { LiveAddress } from "./project/live-settings.ts";

/** What all tenants have at first, on the shard `east`. */
export type Stock = { tenants: readonly string[]; accounts: number; entries: number };

/** Everything a tenant has on a shard: its accounts, and their entries. */
export type TenantRows = {
  accounts: [account: number, n: number][];
  entries: [account: number, number: number, note: string | null][];
};

/** The tables of a shard as a test looks at them, past all routing. */
export interface LiveTables {
  /** Makes the tables; and all tenants when they are to be here. */
  make(stock: Stock | null): Promise<void>;
  rowsOf(tenant: string): Promise<TenantRows>;
  /** Runs statements as somebody would who knows nothing of Pawl. */
  run(sql: string): Promise<void>;
  /** Who is in a transaction, for how long, and who waits for whom: for a test that failed. */
  waits(): Promise<string[]>;
  close(): Promise<void>;
}

const INTEGER = { sqlite: "integer", postgres: "bigint" };

function tablesIn(engine: keyof typeof INTEGER): string {
  const end = engine === "sqlite" ? "strict, without rowid" : "";
  return `
    create table accounts (
      tenant text not null,
      account ${INTEGER[engine]} not null,
      n ${INTEGER[engine]} not null,
      primary key (tenant, account)
    ) ${end};
    create table entries (
      tenant text not null,
      account ${INTEGER[engine]} not null,
      number ${INTEGER[engine]} not null,
      note text,
      primary key (tenant, account, number),
      foreign key (tenant, account) references accounts
    ) ${end};
  `;
}

/** Accounts from 0 on, of which the first is shared and has no entries. */
function fillIn({ tenants, accounts, entries }: Stock, series: (last: string) => string): string {
  const names = tenants.map((tenant) => `('${tenant}')`).join(", ");
  return `
    insert into accounts
    select tenants.column1, account.value, case account.value when 0 then 0 else ${entries} end
    from (values ${names}) as tenants, ${series(String(accounts))} as account;
    insert into entries
    select tenant, account, number.value, 'first'
    from accounts, ${series(String(entries))} as number
    where account > 0 and number.value > 0;
  `;
}

const ACCOUNTS_OF = "select account, n from accounts where tenant = $1 order by account";
const ENTRIES_OF =
  "select account, number, note from entries where tenant = $1 order by account, number";

const WAITS = `
  select format('%s %s %s, %s s in its transaction, %s s in: %s; waits for %s of %s', pid,
    application_name, state, extract(epoch from clock_timestamp() - xact_start)::integer,
    extract(epoch from clock_timestamp() - query_start)::integer,
    left(regexp_replace(query, '\\s+', ' ', 'g'), 300), wait_event, pg_blocking_pids(pid)) as line
  from pg_stat_activity
  where datname = current_database() and xact_start is not null and pid <> pg_backend_pid()
  order by xact_start`;

/** Opens the tables of a shard. */
export function openLiveTables(address: LiveAddress): LiveTables {
  return address.type === "sqlite" ? inSqlite(address.file) : inPostgres(address.connectionString);
}

function inSqlite(file: string): LiveTables {
  const db = new Database(file, { timeout: 10_000 });
  db.pragma("journal_mode = wal");
  db.pragma("synchronous = off");
  const all = (sql: string, tenant: string): unknown[] =>
    db.prepare(sql.replace("$1", "?")).raw().all(tenant);
  return {
    async make(stock) {
      db.exec(tablesIn("sqlite"));
      if (stock === null) return;
      const series = (last: string): string =>
        `(with recursive up(value) as (select 0 union all select value + 1 from up
          where value < ${last}) select value from up)`;
      db.exec(`begin; ${fillIn(stock, series)} commit;`);
    },
    // One transaction for both, so that nothing comes in between.
    rowsOf: (tenant) =>
      Promise.resolve(
        db.transaction(() => ({
          accounts: all(ACCOUNTS_OF, tenant) as TenantRows["accounts"],
          entries: all(ENTRIES_OF, tenant) as TenantRows["entries"],
        }))(),
      ),
    async run(sql) {
      db.exec(sql);
    },
    waits: () => Promise.resolve([]),
    async close() {
      db.close();
    },
  };
}

function inPostgres(connectionString: string): LiveTables {
  const pool = new pg.Pool({ connectionString, max: 2 });
  const all = async (sql: string, tenant: string): Promise<(string | null)[][]> =>
    (await pool.query({ text: sql, values: [tenant], rowMode: "array" })).rows as string[][];
  return {
    async make(stock) {
      await pool.query(tablesIn("postgres"));
      if (stock === null) return;
      await pool.query(
        fillIn(stock, (last) => `(select value from generate_series(0, ${last}) as value)`),
      );
    },
    async rowsOf(tenant) {
      const accounts = await all(ACCOUNTS_OF, tenant);
      const entries = await all(ENTRIES_OF, tenant);
      return {
        accounts: accounts.map(([account, n]) => [Number(account), Number(n)]),
        entries: entries.map(([account, number, note = null]) => [
          Number(account),
          Number(number),
          note,
        ]),
      };
    },
    async run(sql) {
      await pool.query(sql);
    },
    async waits() {
      const { rows } = await pool.query<{ line: string }>(WAITS);
      return rows.map(({ line }) => line);
    },
    close: () => pool.end(),
  };
}
