import Database from "better-sqlite3";
import pg from "pg";

/** The plain table that is moved: ten columns, about 120 bytes a row. */
const COLUMNS = {
  postgres: `
    id bigint primary key, tenant_id text not null, kind integer not null, amount numeric(12, 2),
    ratio double precision, note text, address text, is_open boolean, made_at timestamptz, payload bytea`,
  sqlite: `
    id integer primary key, tenant_id text not null, kind integer not null, amount text,
    ratio real, note text, address text, is_open integer, made_at text, payload blob`,
};

/** Rows that are made in one statement. */
const ROWS_AT_ONCE = 100_000;

/** Makes the empty table in a PostgreSQL database. */
export async function makePostgresTable(url: string): Promise<void> {
  await withClient(url, (client) => client.query(`create table events (${COLUMNS.postgres})`));
}

/** Makes the table and fills it with so many rows. */
export async function fillPostgresTable(url: string, rows: number): Promise<void> {
  await makePostgresTable(url);
  await withClient(url, async (client) => {
    for (let from = 1; from <= rows; from += ROWS_AT_ONCE) {
      const to = Math.min(rows, from + ROWS_AT_ONCE - 1);
      await client.query(
        `insert into events
         select n, 'tenant-' || n % 10, n % 7, n * 0.01, n / 3.0, 'note about ' || n,
           md5(n::text), n % 2 = 0, timestamptz '2026-01-01' + n * interval '1 second',
           decode(md5(n::text), 'hex')
         from generate_series($1::bigint, $2::bigint) as n`,
        [from, to],
      );
    }
    await client.query("vacuum analyze events");
    await client.query("checkpoint");
  });
}

/** Empties the table, and lets the server settle. */
export async function emptyPostgresTable(url: string): Promise<void> {
  await withClient(url, async (client) => {
    await client.query("truncate events");
    await client.query("checkpoint");
  });
}

/** How many rows the table has. */
export async function countPostgresRows(url: string): Promise<number> {
  return withClient(url, async (client) => {
    const { rows } = await client.query<{ count: string }>("select count(*) from events");
    return Number(rows[0]?.count);
  });
}

/** Runs something on a connection of its own. */
export async function withClient<Result>(
  url: string,
  body: (client: pg.Client) => Promise<Result>,
): Promise<Result> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return await body(client);
  } finally {
    await client.end();
  }
}

/** Makes an SQLite shard with the table and so many rows. */
export function fillSqliteTable(file: string, rows: number): void {
  const db = new Database(file);
  db.pragma("journal_mode = wal");
  db.exec(`create table events (${COLUMNS.sqlite})`);
  const fill = db.prepare(`
    with recursive numbers (n) as (select ? union all select n + 1 from numbers where n < ?)
    insert into events
    select n, 'tenant-' || n % 10, n % 7, n * 0.01, n / 3.0, 'note about ' || n,
      hex(n * 7919) || '-and-some-more-of-it', n % 2, datetime(1767225600 + n, 'unixepoch'),
      zeroblob(16)
    from numbers`);
  for (let from = 1; from <= rows; from += ROWS_AT_ONCE) {
    fill.run(from, Math.min(rows, from + ROWS_AT_ONCE - 1));
  }
  db.close();
}

/** How many rows the table of an SQLite shard has. */
export function countSqliteRows(file: string): number {
  const db = new Database(file, { readonly: true });
  const count = db.prepare("select count(*) from events").pluck().get();
  db.close();
  return Number(count);
}
