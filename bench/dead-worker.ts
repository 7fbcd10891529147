import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "../src/client/client.ts";
import { atMost, type Benchmark } from "./benchmark.ts";
import { type Child, startBenchServer, startBenchWorker } from "./child-process.ts";
import { machineMs } from "./machine-ms.ts";
import type { TaskTime } from "./project.ts";
import { createBackfill } from "./run-backfill.ts";
import type { FromWorker } from "./worker-process.ts";

const TASKS = 100;

async function untilAllRun(worker: Child<FromWorker>): Promise<TaskTime[]> {
  for (;;) {
    const { times } = await worker.ask("times");
    if (times.length === TASKS) return times;
    await sleep(50);
  }
}

/** How long the tasks of a worker that was killed wait for another one. */
export const deadWorker: Benchmark = {
  name: "dead-worker",
  about: "how long the tasks of a killed worker wait for another",
  async run(bench) {
    const server = await startBenchServer(bench, {
      path: `${bench.folder}/ledger.sqlite`,
      port: 0,
    });
    const wish = { asset: "held", chunkSize: 10, maxConcurrentRuns: 10 };
    await createBackfill(createClient({ url: server.url }), wish);
    const options = { url: server.url, concurrency: TASKS };
    const first = startBenchWorker(bench, options);
    await untilAllRun(first);
    // Some heartbeats, so that the leases are as old as they may be on the average.
    await sleep(8_000);
    const killedMs = machineMs();
    await first.kill();
    const second = startBenchWorker(bench, options);
    const times = await untilAllRun(second);
    await second.kill();
    await server.stop();
    const seconds = (Math.max(...times.map(({ startedMs }) => startedMs)) - killedMs) / 1_000;
    const setting = `${TASKS} tasks, lease of 15 s`;
    return [atMost("kill -9 to all tasks running again", setting, seconds, 20, "s")];
  },
};
