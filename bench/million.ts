import { createClient } from "../src/client/client.ts";
import { canonicalJson } from "../src/kernel/canonical.ts";
import { atLeast, atMost, type Benchmark, told } from "./benchmark.ts";
import { startBenchServer, startBenchWorker } from "./child-process.ts";
import { rateBetween, runBackfill } from "./run-backfill.ts";

const CHUNK_SIZE = 10;
const MAX_CONCURRENT_RUNS = 100;
const CONCURRENCY = 400;

/** A backfill of a million partitions and three. */
export const million: Benchmark = {
  name: "million",
  about: "a backfill of a million partitions, its memory and its time",
  async run(bench) {
    const server = await startBenchServer(bench, {
      path: `${bench.folder}/ledger.sqlite`,
      port: 0,
    });
    const worker = startBenchWorker(bench, { url: server.url, concurrency: CONCURRENCY });
    const done = await runBackfill(
      server.url,
      { asset: "million", chunkSize: CHUNK_SIZE, maxConcurrentRuns: MAX_CONCURRENT_RUNS },
      bench.say,
    );
    const { rssPeakBytes } = await server.ask("usage");
    const client = createClient({ url: server.url });
    const query = { types: "BackfillCreated" };
    const { items, pos } = await client.call("listEvents", { query });
    await worker.stop();
    await server.stop();
    const bytes = Buffer.byteLength(canonicalJson(items[0]?.data ?? null));
    const first = rateBetween(done, 0, 0.1);
    const last = rateBetween(done, 0.9, 1);
    const setting =
      `1,000,003 partitions, chunk ${CHUNK_SIZE}, ${MAX_CONCURRENT_RUNS} runs, ` +
      `${CONCURRENCY} tasks at once`;
    return [
      atMost("BackfillCreated", setting, bytes, 4_096, "bytes"),
      atMost("peak memory of the server", setting, rssPeakBytes / 1e6, 400, "MB"),
      told("whole backfill", setting, done.seconds, "s"),
      told("events", setting, pos, ""),
      told("partitions", setting, done.perSecond, "/s"),
      told("first tenth", setting, first, "/s"),
      atLeast("last tenth beside the first", setting, (last / first) * 100, 80, "%"),
    ];
  },
};
