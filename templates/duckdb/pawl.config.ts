import { asset, daily, definePawl } from "pawl";
import { fileOf, quoted, writeDay } from "./warehouse.ts";

const days = daily({ start: "2026-01-01" });

/** Made up, and the same whenever a day is made again; a real one would read files or a database. */
export const orders = asset("orders", {
  description: "The orders of a day, as Parquet",
  partitions: days,
  materialize: async ({ partition }) => {
    const rows = await writeDay(
      "orders",
      partition,
      `select
        date ${quoted(partition)} as day,
        number,
        ['eu', 'us', 'asia'][1 + number % 3] as region,
        100 + hash(number, ${quoted(partition)}) % 10_000 as cents
      from range(1, 1 + 5_000) as numbers(number)`,
    );
    return { metadata: { rows } };
  },
});

/** Made from the orders of the same day, always after them. */
export const turnover = asset("turnover", {
  description: "Orders and turnover of a day by region, as Parquet",
  partitions: days,
  upstream: [orders],
  materialize: async ({ partition }) => {
    const rows = await writeDay(
      "turnover",
      partition,
      `select day, region, count(*) as orders, sum(cents)::bigint as cents
      from read_parquet(${quoted(fileOf("orders", partition))})
      group by all order by all`,
    );
    return { metadata: { rows } };
  },
});

export default definePawl({ assets: [orders, turnover] });
