import { createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { atMost, type Bench, type Benchmark } from "./benchmark.ts";
import { startBenchServer, startBenchWorker, startChild } from "./child-process.ts";
import { copyMillionEvents } from "./copy-million-events.ts";
import { machineMs } from "./machine-ms.ts";
import type { FromServer } from "./server-process.ts";

/** How long a server works before it is killed. */
const WORK_MS = 5_000;

/** Seconds from the start of the process to its first good answer. */
export async function secondsUntilReady(bench: Bench, path: string): Promise<number> {
  const port = await freePort();
  const startedMs = machineMs();
  const server = startChild<FromServer>(bench, "server-process", { path, port });
  while (!(await isReady(port))) await sleep(10);
  const seconds = (machineMs() - startedMs) / 1_000;
  await server.kill();
  return seconds;
}

async function isReady(port: number): Promise<boolean> {
  try {
    return (await fetch(`http://127.0.0.1:${port}/readyz`)).ok;
  } catch {
    return false;
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("no port was given");
  return address.port;
}

/** How soon a server that was killed at work answers again, on a ledger of a million events. */
export const restart: Benchmark = {
  name: "restart",
  about: "how soon a killed server answers again",
  async run(bench) {
    const path = `${bench.folder}/ledger.sqlite`;
    await copyMillionEvents(bench, path);
    const setting = "a million events and more";
    const server = await startBenchServer(bench, { path, port: 0 });
    const worker = startBenchWorker(bench, { url: server.url, concurrency: 400 });
    await sleep(WORK_MS);
    await server.kill();
    await worker.kill();
    const seconds = await secondsUntilReady(bench, path);
    return [atMost("kill -9 at work to ready", setting, seconds, 2, "s")];
  },
};
