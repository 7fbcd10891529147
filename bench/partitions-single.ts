import type { Benchmark } from "./benchmark.ts";
import { measurePartitions } from "./measure-partitions.ts";

/** One task for each partition, on SQLite. */
export const partitionsSingle: Benchmark = {
  name: "partitions-single",
  about: "partitions a second with a task for each, SQLite",
  run: (bench) =>
    measurePartitions(
      bench,
      { path: `${bench.folder}/ledger.sqlite` },
      { asset: "single", chunkSize: 10, maxConcurrentRuns: 100 },
      400,
      15_000,
    ),
};
