import { join } from "node:path";
import { postgresShard } from "../src/define/shards.ts";
import { killAll } from "../test/faults/pawl-process.ts";
import { atMost, type Bench, type Benchmark, type Figure, told } from "./benchmark.ts";
import { moveAll, startShardSite } from "./shard-site.ts";
import { emptyPostgresTable, fillPostgresTable, makePostgresTable } from "./shard-table.ts";
import { makeDatabase, startSystemPostgres } from "./system-postgres.ts";

const ROWS = Number(process.env["BENCH_MEMORY_ROWS"] ?? 10_000_000);
const SETTINGS = ["shared_buffers=1GB", "max_wal_size=16GB", "checkpoint_timeout=30min"];

/** What a worker needs to move few rows, and to move many. */
export const moveMemory: Benchmark = {
  name: "memory",
  about: "what a worker needs to move few rows, and to move many",
  run,
};

async function run(bench: Bench): Promise<Figure[]> {
  const server = await startSystemPostgres(SETTINGS);
  try {
    const few = await peakOf(bench, server, "few", ROWS / 10);
    const many = await peakOf(bench, server, "many", ROWS);
    return [
      told("memory of the worker", `${ROWS / 1e7} M rows`, few, "MB at most"),
      told("memory of the worker", `${ROWS / 1e6} M rows`, many, "MB at most"),
      atMost("ten times the rows in memory", `${ROWS / 1e6} M rows`, many / few, 1.5, "times"),
    ];
  } finally {
    await killAll();
    await server.stop();
  }
}

async function peakOf(
  bench: Bench,
  server: Parameters<typeof makeDatabase>[0],
  name: string,
  rows: number,
): Promise<number> {
  const a = await makeDatabase(server, `${name}_a`);
  const b = await makeDatabase(server, `${name}_b`);
  bench.say(`filling ${rows} rows`);
  await fillPostgresTable(a, rows);
  await makePostgresTable(b);
  const shards = { a: postgresShard(a), b: postgresShard(b) };
  const site = await startShardSite(join(bench.folder, name), shards);
  const { seconds, segments } = await moveAll(site);
  bench.say(`${rows} rows in ${seconds.toFixed(1)} s, ${segments} segments`);
  const peak = site.workerPeakMb();
  await site.stop();
  await emptyPostgresTable(a);
  await emptyPostgresTable(b);
  return peak;
}
