import {
  atLeast,
  atMost,
  type Bench,
  type Benchmark,
  type Figure,
  shown,
  told,
} from "./benchmark.ts";
import { type BenchServer, startBenchServer, startChild } from "./child-process.ts";
import type { FromLoad, LoadOptions } from "./load-process.ts";

const CONNECTIONS = 32;
const REQUESTS = 40_000;
const API = "/api/v1/orchestration";

const WRITES = {
  "add a partition key": { path: `${API}/assets/customers/partitions`, body: '{"keys":["#"]}' },
  "request a run": { path: `${API}/runs`, body: '{"assets":["report"]}' },
};

async function measure(
  bench: Bench,
  what: string,
  server: BenchServer,
  write: Write,
): Promise<Figure[]> {
  const { url } = server;
  const before = await server.ask("usage");
  const options: LoadOptions = { url, connections: CONNECTIONS, requests: REQUESTS, ...write };
  const load = startChild<FromLoad>(bench, "load-process", options);
  const { perSecond, p50Ms, p99Ms, refused } = await load.next("done");
  const after = await server.ask("usage");
  bench.say(
    `${shown(REQUESTS / (after.commits - before.commits))} requests a commit, ` +
      `${shown(((after.cpuMs - before.cpuMs) * 1_000) / REQUESTS)} µs of CPU a request`,
  );
  if (refused > 0) throw new Error(`${refused} requests were refused`);
  const setting = `${what}, ${CONNECTIONS} connections`;
  return [
    atLeast("durable API writes", setting, perSecond, 8_000, "/s"),
    told("their p50", setting, p50Ms, "ms"),
    atMost("their p99", setting, p99Ms, 15, "ms"),
  ];
}

type Write = { path: string; body: string };

/** Requests that are on disk before they are answered, on an engine that does nothing else. */
export const apiWrites: Benchmark = {
  name: "api-writes",
  about: "requests a second over 32 connections: partition keys, runs",
  async run(bench) {
    const figures: Figure[] = [];
    for (const [index, [what, write]] of Object.entries(WRITES).entries()) {
      const path = `${bench.folder}/ledger-${index}.sqlite`;
      const server = await startBenchServer(bench, { path, port: 0 });
      figures.push(...(await measure(bench, what, server, write)));
      await server.stop();
    }
    return figures;
  },
};
