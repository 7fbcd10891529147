import { atMost, type Bench, type Benchmark, type Figure, percentile, told } from "./benchmark.ts";
import { startBenchServer, startBenchWorker } from "./child-process.ts";
import type { TaskTime } from "./project.ts";
import { runBackfill } from "./run-backfill.ts";

/** Runs of one task each, and what keeps the next one waiting. */
type Case = {
  setting: string;
  runs: number;
  concurrency: number;
  tasks: number;
  ms: number;
  spread: number;
};

const CASES: readonly Case[] = [
  {
    setting: "1 run at once, 5 ms tasks",
    runs: 1,
    concurrency: 16,
    tasks: 500,
    ms: 5,
    spread: 0,
  },
  {
    setting: "8 runs at once, 5 ms tasks",
    runs: 8,
    concurrency: 16,
    tasks: 2_000,
    ms: 5,
    spread: 1,
  },
  {
    setting: "a full worker of 16 slots, 1 s tasks",
    runs: 100,
    concurrency: 16,
    tasks: 400,
    ms: 1_000,
    spread: 500,
  },
];

/** The first tasks, started by code that has never run before. */
const FIRST_TASKS = 32;

/** How long each slot stood empty: from the end of a task to the start of the one that took over. */
function gaps(times: readonly TaskTime[], slots: number): number[] {
  const starts = times.map(({ startedMs }) => startedMs).toSorted((one, other) => one - other);
  const ends = times
    .map(({ endedMs }) => endedMs ?? Number.NaN)
    .toSorted((one, other) => one - other);
  return starts.slice(slots).map((start, index) => start - (ends[index] ?? Number.NaN));
}

async function measure(bench: Bench, url: string, each: Case): Promise<Figure[]> {
  const { setting, runs, concurrency, tasks, ms, spread } = each;
  const worker = startBenchWorker(bench, { url, concurrency });
  const config = { ms, spread };
  const wish = { asset: "timed", through: tasks - 1, chunkSize: 1, maxConcurrentRuns: runs };
  await runBackfill(url, { ...wish, config }, bench.say);
  const { times } = await worker.ask("times");
  await worker.stop();
  const found = gaps(times, Math.min(runs, concurrency)).slice(FIRST_TASKS);
  return [
    told("free slot to next start, p50", setting, percentile(found, 0.5), "ms"),
    atMost("free slot to next start, p99", setting, percentile(found, 0.99), 15, "ms"),
  ];
}

/** From the end of a chunk's only task to the start of the task of the next chunk. */
export const slotLatency: Benchmark = {
  name: "slot-latency",
  about: "from a free slot to the next task",
  async run(bench) {
    const figures: Figure[] = [];
    for (const [index, each] of CASES.entries()) {
      const path = `${bench.folder}/ledger-${index}.sqlite`;
      const server = await startBenchServer(bench, { path, port: 0 });
      figures.push(...(await measure(bench, server.url, each)));
      await server.stop();
    }
    return figures;
  },
};
