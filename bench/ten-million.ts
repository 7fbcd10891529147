import { statSync } from "node:fs";
import { type Client, createClient } from "../src/client/client.ts";
import { atMost, type Benchmark, type Figure, told } from "./benchmark.ts";
import { startBenchServer, startBenchWorker } from "./child-process.ts";
import { secondsUntilReady } from "./restart.ts";
import { runBackfill } from "./run-backfill.ts";

const ASSET = "customer_hours";
const SETTING = "10,000,000 partitions (hours × customers), batch tasks, chunk 1,000, 20 runs";

async function msOf(work: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  await work();
  return performance.now() - startedMs;
}

/** What the first who asks waits for. */
async function measureReads(client: Client): Promise<Figure[]> {
  const params = { asset_key: ASSET };
  const summary = await msOf(() => client.call("summarizePartitions", { params, query: {} }));
  const map = await msOf(() => client.call("mapPartitions", { params, query: {} }));
  const query = { asset: ASSET, limit: 200 };
  const stale = await msOf(() => client.call("listStalePartitions", { query }));
  return [
    atMost("summary, for the first who asks", SETTING, summary, 500, "ms"),
    atMost("map of a million of them, for the first who asks", SETTING, map, 500, "ms"),
    told("first page of what is stale", SETTING, stale, "ms"),
  ];
}

/** Ten million partitions, from the request to the restart. */
export const tenMillion: Benchmark = {
  name: "ten-million",
  about: "ten million partitions, from the request to the restart",
  async run(bench) {
    const path = `${bench.folder}/ledger.sqlite`;
    const server = await startBenchServer(bench, { path, port: 0, isWatched: true });
    const worker = startBenchWorker(bench, { url: server.url, concurrency: 20 });
    const wish = { asset: ASSET, chunkSize: 1_000, maxConcurrentRuns: 20 };
    const done = await runBackfill(server.url, wish, bench.say);
    const reads = await measureReads(createClient({ url: server.url }));
    const { rssPeakBytes } = await server.ask("usage");
    await worker.stop();
    await server.stop();
    const bytes = statSync(path).size;
    const restart = await secondsUntilReady(bench, path);
    return [
      told("whole backfill", SETTING, done.seconds, "s"),
      told("partitions", SETTING, done.perSecond, "/s"),
      atMost("peak memory of the server", SETTING, rssPeakBytes / 1e6, 500, "MB"),
      atMost("size on disk", SETTING, bytes / 1e6, 400, "MB"),
      ...reads,
      atMost("stop to ready", SETTING, restart, 2, "s"),
    ];
  },
};
