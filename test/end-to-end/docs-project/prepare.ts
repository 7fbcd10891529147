import Database from "better-sqlite3";

// Puts all tenants on east: two that a move takes away, and some that a split does. Both shards stay the files
// they are, as somebody may have them open. With an argument there is a row on west that is in the way.

const ORDERS = { fir: 20_000, oak: 20_000, birch: 5_000, cedar: 5_000, elm: 100 };

const isInTheWay = process.argv.length > 2;

for (const shard of ["east", "west"]) {
  const db = new Database(`${shard}.db`, { timeout: 10_000 });
  db.pragma("journal_mode = wal");
  const insert = (table: string, tenant: string, count: number) =>
    db.exec(
      `with recursive n (id) as (select 1 union all select id + 1 from n where id < ${count})
       insert into ${table} select '${tenant}', id, 'name ' || id from n`,
    );
  for (const table of ["customers", "orders"]) {
    db.exec(
      `create table if not exists ${table}
       (tenant text not null, id integer not null, name text, primary key (tenant, id))`,
    );
    db.exec(`delete from ${table}`);
    if (shard === "west" && table === "orders" && isInTheWay) {
      db.exec("insert into orders values ('oak', 12000, 'somebody else')");
    }
    if (shard === "west") continue;
    for (const [tenant, count] of Object.entries(ORDERS)) {
      insert(table, tenant, table === "orders" ? count : 500);
    }
  }
  db.close();
}
