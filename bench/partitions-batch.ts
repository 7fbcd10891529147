import type { Benchmark } from "./benchmark.ts";
import { measurePartitions } from "./measure-partitions.ts";

/** One task for each chunk of 100 partitions, on SQLite. */
export const partitionsBatch: Benchmark = {
  name: "partitions-batch",
  about: "partitions a second with one task for 100 of them, SQLite",
  run: (bench) =>
    measurePartitions(
      bench,
      { path: `${bench.folder}/ledger.sqlite` },
      { asset: "batch", chunkSize: 100, maxConcurrentRuns: 100 },
      100,
      100_000,
    ),
};
