import { SHARDS, TENANTS, withShard } from "./places.ts";

/* npm run prepare:shards: makes both shards with the same tables, and all tenants on east. */

const ORDERS = 500;

/** Makes the shards; those that are there already stay as they are. */
export function prepareShards(): void {
  for (const shard of SHARDS) {
    withShard(shard, (db) =>
      db.exec(`
        pragma journal_mode = wal;
        create table if not exists customers (
          tenant text not null, id integer not null, name text not null, primary key (tenant, id)
        ) strict;
        create table if not exists orders (
          tenant text not null, id integer not null, customer integer not null, cents integer not null,
          primary key (tenant, id), foreign key (tenant, customer) references customers (tenant, id)
        ) strict`),
    );
  }
  withShard("east", (db) => {
    if (db.prepare("select 1 from customers").get() !== undefined) return;
    const customer = db.prepare("insert into customers values (?, 1, ?)");
    const order = db.prepare("insert into orders values (?, ?, 1, ?)");
    db.exec("begin");
    for (const tenant of TENANTS) {
      customer.run(tenant, `The first customer of ${tenant}`);
      for (let id = 1; id <= ORDERS; id++) order.run(tenant, id, id * 100);
    }
    db.exec("commit");
  });
}

if (import.meta.main) {
  prepareShards();
  console.log(`${TENANTS.length} tenants with ${ORDERS} orders each; see \`npm run count\`.`);
}
