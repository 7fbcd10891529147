import pg from "pg";
import { definePawl, sync } from "pawl";
import { evmLogs, type LogPage } from "pawl/evm";
import { parseAbiItem } from "viem";
import type { HistoryChecks } from "../pawl-sync.ts";

/* The transfers of a token, kept in a table of PostgreSQL. */

const transfer = parseAbiItem(
  "event Transfer(address indexed from, address indexed to, uint256 value)",
);

const database = new pg.Pool({ connectionString: given("BENCH_DATABASE_URL") });

/** Stores a page as one transaction; a page that was stored before changes nothing. */
async function store({ logs, undo }: LogPage<typeof transfer>): Promise<void> {
  const client = await database.connect();
  try {
    await client.query("begin");
    if (undo !== null) {
      const range = [undo.from, undo.to];
      await client.query("delete from transfer where block between $1 and $2", range);
    }
    await client.query(
      `insert into transfer (block, log_index, "from", "to", value)
       select * from unnest($1::integer[], $2::integer[], $3::text[], $4::text[], $5::numeric[])
       on conflict do nothing`,
      [
        logs.map(({ blockNumber }) => blockNumber),
        logs.map(({ logIndex }) => logIndex),
        logs.map(({ args }) => args.from),
        logs.map(({ args }) => args.to),
        logs.map(({ args }) => args.value),
      ],
    );
    await client.query("commit");
  } catch (error) {
    await client.query("rollback").catch(() => undefined);
    throw error;
  } finally {
    client.release();
  }
}

/** How many of a range are stored. */
async function count({ from, to }: { from: number; to: number }): Promise<number> {
  const { rows } = await database.query<{ count: string }>(
    "select count(*) from transfer where block between $1 and $2",
    [from, to],
  );
  return Number(rows[0]?.count);
}

function given(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set.`);
  return value;
}

const token = given("BENCH_TOKEN") as `0x${string}`;
const checks = given("BENCH_CHECKS") as HistoryChecks;
const source = evmLogs({
  rpc: given("BENCH_NODE_URL"),
  logs: () => ({ address: token, event: transfer }),
  bloomCheck: checks === "none" ? "live" : "always",
  store,
  count,
});

export default definePawl({
  syncs: [
    sync("transfers", {
      targets: [{ token }],
      from: Number(given("BENCH_FROM")),
      to: Number(given("BENCH_TO")),
      ...source,
      verifyEachSegment: checks === "all",
    }),
  ],
});
