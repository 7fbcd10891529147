import { startPostgres } from "../test/postgres-server.ts";
import type { Benchmark } from "./benchmark.ts";
import { measurePartitions } from "./measure-partitions.ts";

/** One task for each partition, on PostgreSQL. */
export const partitionsSinglePostgres: Benchmark = {
  name: "partitions-single-postgres",
  about: "partitions a second with a task for each, PostgreSQL",
  async run(bench) {
    const postgres = await startPostgres();
    try {
      return await measurePartitions(
        bench,
        { databaseUrl: postgres.url },
        { asset: "single", chunkSize: 10, maxConcurrentRuns: 100 },
        400,
        null,
      );
    } finally {
      await postgres.stop();
    }
  },
};
