import { startPostgres } from "../test/postgres-server.ts";
import { runManySplits } from "../test/shards/live/many-splits.ts";
import {
  atLeast,
  atMost,
  type Bench,
  type Benchmark,
  type Figure,
  percentile,
  told,
} from "./benchmark.ts";
import { makeDatabase } from "./system-postgres.ts";

const SPLITS = Number(process.env["BENCH_SPLITS"] ?? 24);
const WRITES_PER_SECOND = 1_000;

/** How long writes stand still at a cutover under load, and that nothing is lost by it. */
export const cutover: Benchmark = {
  name: "cutover",
  about: "how long writes stand still at a cutover",
  run,
};

async function run(bench: Bench): Promise<Figure[]> {
  const server = await startPostgres();
  try {
    const databases = [
      await makeDatabase(server, "east"),
      await makeDatabase(server, "west"),
    ] as const;
    const load = {
      seed: 1,
      writesPerSecond: WRITES_PER_SECOND,
      repeatableRead: 0.25,
      long: 0,
      longMs: 0,
    };
    const report = await runManySplits({ splits: SPLITS, databases, load, say: bench.say });
    const { pauses, said, mismatches, complaints } = report;
    const setting = `PostgreSQL, ${WRITES_PER_SECOND} writes/s`;
    const wrong = mismatches.length + complaints.length;
    for (const each of [...mismatches, ...complaints].slice(0, 20)) bench.say(each);
    return [
      atLeast("cutovers", setting, pauses.length, 30, "cutovers"),
      told("write pause, p50", setting, percentile(pauses, 0.5), "ms"),
      atMost("write pause, p99", setting, percentile(pauses, 0.99), 50, "ms"),
      told("write latency, p99", setting, said.latency.p99, "ms"),
      told("longest write", setting, said.latency.longest, "ms"),
      atMost("rows not as acknowledged", `${said.acknowledged} writes`, wrong, 0, "rows"),
    ];
  } finally {
    await server.stop();
  }
}
