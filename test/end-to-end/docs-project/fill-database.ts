import pg from "pg";

// Makes the table of visits that something else than Pawl has filled.

const client = new pg.Client({ connectionString: process.argv[2] });
await client.connect();
await client.query(`
  create table visits (day date, updated_at timestamptz);
  insert into visits select '2025-03-01'::date + n % 3, '2025-04-01'::timestamptz + n * interval '1 hour'
    from generate_series(1, 30) as n`);
await client.end();
