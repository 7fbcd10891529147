import { fileOf, quoted, rowsOf } from "./warehouse.ts";

// npm run report: turnover of all days that are there, by region.

console.table(
  await rowsOf(`
    select region, count(*) as days, sum(orders)::bigint as orders, sum(cents)::bigint as cents
    from read_parquet(${quoted(fileOf("turnover", "*"))})
    group by region order by region`),
);
