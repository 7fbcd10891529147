import process from "node:process";
import { connectWorker } from "../src/client/worker-connection.ts";
import { runWorker } from "../src/worker/run-worker.ts";
import { project, type TaskTime, taskTimes, taskWaits } from "./project.ts";

/*
 * A worker in a process of its own. Answers `times`, `waits` and `usage`, and ends with `stop` or
 * with its parent.
 */

/** What a worker is started with. */
export type WorkerProcessOptions = { url: string; concurrency: number };

/** What a worker says to its parent. */
export type FromWorker =
  | { type: "times"; times: TaskTime[] }
  | { type: "waits"; waits: number[] }
  | { type: "usage"; rssPeakBytes: number; cpuMs: number };

const { url, concurrency } = JSON.parse(process.argv[2] ?? "{}") as WorkerProcessOptions;
const stop = new AbortController();
const logger = {
  info: () => undefined,
  warn: (fields: object, message: string) => console.error(message, fields),
  error: (fields: object, message: string) => console.error(message, fields),
};

process.on("disconnect", () => process.exit(0));
process.on("message", (message) => {
  if (message === "times") say({ type: "times", times: taskTimes });
  else if (message === "waits") say({ type: "waits", waits: taskWaits });
  else if (message === "stop") stop.abort();
  else if (message === "usage") {
    const { maxRSS, userCPUTime, systemCPUTime } = process.resourceUsage();
    const cpuMs = (userCPUTime + systemCPUTime) / 1_000;
    say({ type: "usage", rssPeakBytes: maxRSS * 1_024, cpuMs });
  }
});

const connection = connectWorker({ url });
await runWorker({
  connection,
  project,
  workerId: `bench:${process.pid}`,
  codeVersion: null,
  logger,
  signal: stop.signal,
  concurrency,
  stopGraceMs: 100,
  abandonMs: 100,
});
process.exit(0);

function say(message: FromWorker): void {
  process.send?.(message);
}
