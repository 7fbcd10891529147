import { join } from "node:path";
import { postgresShard, sqliteShard } from "../src/define/shards.ts";
import { killAll } from "../test/faults/pawl-process.ts";
import { atLeast, type Bench, type Benchmark, type Figure, told } from "./benchmark.ts";
import { moveAll, startShardSite } from "./shard-site.ts";
import {
  countPostgresRows,
  countSqliteRows,
  emptyPostgresTable,
  fillPostgresTable,
  fillSqliteTable,
  makePostgresTable,
} from "./shard-table.ts";
import { dumpAndRestore, makeDatabase, startSystemPostgres } from "./system-postgres.ts";

const ROWS = Number(process.env["BENCH_MOVE_ROWS"] ?? 2_000_000);
/** The same for both: what a server for this size would have. */
const SETTINGS = ["shared_buffers=1GB", "max_wal_size=8GB", "checkpoint_timeout=30min"];

/** Moves of a table of ten columns with verification, and `pg_dump | psql` without any. */
export const move: Benchmark = {
  name: "move",
  about: "rows a second of a move, beside pg_dump | psql",
  run: async (bench) => [...(await postgresMove(bench)), ...(await sqliteMove(bench))],
};

async function postgresMove(bench: Bench): Promise<Figure[]> {
  const server = await startSystemPostgres(SETTINGS);
  try {
    const a = await makeDatabase(server, "a");
    const b = await makeDatabase(server, "b");
    bench.say(`filling ${ROWS} rows`);
    await fillPostgresTable(a, ROWS);
    await makePostgresTable(b);
    const dumps = [];
    const moves = [];
    // In turns, so that what the machine does meanwhile is shared out.
    for (let round = 0; round < 2; round++) {
      bench.say("pg_dump | psql");
      dumps.push(ROWS / dumpAndRestore(server, a, b));
      await emptyPostgresTable(b);
      bench.say("a move");
      const site = await startShardSite(join(bench.folder, `postgres-${round}`), {
        a: postgresShard(a),
        b: postgresShard(b),
      });
      moves.push(ROWS / (await moveAll(site)).seconds);
      await site.stop();
      const rows = await countPostgresRows(b);
      if (rows !== ROWS) throw new Error(`${rows} of ${ROWS} rows were moved`);
      await emptyPostgresTable(b);
    }
    const [dump, moved] = [Math.max(...dumps), Math.max(...moves)];
    const setting = `${ROWS / 1e6} M rows of 10 columns, verified`;
    return [
      atLeast("move PostgreSQL → PostgreSQL", setting, moved, 100_000, "rows/s"),
      told("pg_dump | psql", "the same rows, nothing verified", dump, "rows/s"),
      atLeast("the move beside pg_dump | psql", setting, (100 * moved) / dump, 50, "%"),
    ];
  } finally {
    await killAll();
    await server.stop();
  }
}

async function sqliteMove(bench: Bench): Promise<Figure[]> {
  const [a, b] = [join(bench.folder, "a.db"), join(bench.folder, "b.db")];
  fillSqliteTable(a, ROWS);
  fillSqliteTable(b, 0);
  bench.say("a move between SQLite files");
  const site = await startShardSite(join(bench.folder, "sqlite"), {
    a: sqliteShard(a),
    b: sqliteShard(b),
  });
  try {
    const { seconds } = await moveAll(site);
    const rows = countSqliteRows(b);
    if (rows !== ROWS) throw new Error(`${rows} of ${ROWS} rows were moved`);
    const setting = `${ROWS / 1e6} M rows of 10 columns, verified`;
    return [told("move SQLite → SQLite", setting, ROWS / seconds, "rows/s")];
  } finally {
    await site.stop();
  }
}
