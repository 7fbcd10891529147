import { SHARDS, TENANTS, withShard } from "./places.ts";

/* npm run count: how many orders of each tenant are on which shard. */

/** The number of orders on each shard, by tenant. */
export function countOrders(): Record<string, Record<(typeof SHARDS)[number], number>> {
  const counts = Object.fromEntries(TENANTS.map((tenant) => [tenant, { east: 0, west: 0 }]));
  for (const shard of SHARDS) {
    const rows = withShard(shard, (db) =>
      db.prepare("select tenant, count(*) as orders from orders group by tenant").all(),
    );
    for (const { tenant, orders } of rows) {
      const count = counts[String(tenant)];
      if (count !== undefined) count[shard] = Number(orders);
    }
  }
  return counts;
}

if (import.meta.main) console.table(countOrders());
