import { atLeast, type Bench, type Figure, shown, told } from "./benchmark.ts";
import { startBenchServer, startBenchWorker } from "./child-process.ts";
import type { StorePlace } from "./open-bench-store.ts";
import { type BackfillWish, runBackfill } from "./run-backfill.ts";

/** Measures durable no-op partitions a second, from the request to the last commit. */
export async function measurePartitions(
  bench: Bench,
  place: StorePlace,
  wish: BackfillWish,
  concurrency: number,
  bar: number | null,
): Promise<Figure[]> {
  const server = await startBenchServer(bench, { ...place, port: 0 });
  const worker = startBenchWorker(bench, { url: server.url, concurrency });
  const before = await server.ask("usage");
  const { perSecond, backfill } = await runBackfill(server.url, wish, bench.say);
  const [served, worked] = await Promise.all([server.ask("usage"), worker.ask("usage")]);
  bench.say(
    `server ${shown((served.cpuMs - before.cpuMs) / 1_000)} s of CPU, ` +
      `${shown(served.rssPeakBytes / 1e6)} MB, ${served.commits - before.commits} commits; ` +
      `worker ${shown(worked.cpuMs / 1_000)} s, ${shown(worked.rssPeakBytes / 1e6)} MB`,
  );
  await worker.stop();
  await server.stop();
  const setting =
    `${shown(backfill.partitions_total)} partitions, chunk ${wish.chunkSize}, ` +
    `${wish.maxConcurrentRuns} runs, ${concurrency} tasks at once`;
  const what = "durable no-op partitions";
  if (bar === null) return [told(what, setting, perSecond, "/s")];
  return [atLeast(what, setting, perSecond, bar, "/s")];
}
