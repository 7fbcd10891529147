import { atMost, type Bench, type Benchmark, type Figure, percentile, told } from "./benchmark.ts";
import { startBenchServer, startBenchWorker } from "./child-process.ts";
import type { TaskTime } from "./project.ts";
import { runBackfill } from "./run-backfill.ts";

const CONCURRENCY = 16;

/** How long each slot stood empty: from the end of a task to the start of the one that took over. */
function gaps(times: readonly TaskTime[], slots: number): number[] {
  const starts = times.map(({ startedMs }) => startedMs).toSorted((one, other) => one - other);
  const ends = times
    .map(({ endedMs }) => endedMs ?? Number.NaN)
    .toSorted((one, other) => one - other);
  return starts.slice(slots).map((start, index) => start - (ends[index] ?? Number.NaN));
}

async function measure(bench: Bench, url: string, slots: number): Promise<Figure[]> {
  const worker = startBenchWorker(bench, { url, concurrency: CONCURRENCY });
  await runBackfill(
    url,
    { asset: "timed", through: slots * 250 - 1, chunkSize: 1, maxConcurrentRuns: slots },
    bench.say,
  );
  const { times } = await worker.ask("times");
  await worker.stop();
  const found = gaps(times, slots).slice(100);
  const setting = `${slots} runs of one 5 ms task, ${CONCURRENCY} tasks at once`;
  return [
    told("free slot to next start, p50", setting, percentile(found, 0.5), "ms"),
    atMost("free slot to next start, p99", setting, percentile(found, 0.99), 20, "ms"),
  ];
}

/** From the end of a chunk's only task to the start of the task of the next chunk. */
export const slotLatency: Benchmark = {
  name: "slot-latency",
  async run(bench) {
    const figures: Figure[] = [];
    for (const slots of [1, 8]) {
      const path = `${bench.folder}/ledger-${slots}.sqlite`;
      const server = await startBenchServer(bench, { path, port: 0 });
      figures.push(...(await measure(bench, server.url, slots)));
      await server.stop();
    }
    return figures;
  },
};
