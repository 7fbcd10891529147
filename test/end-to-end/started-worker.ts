import { type AssetOptions, asset } from "../../src/define/asset.ts";
import { definePawl } from "../../src/define/define-pawl.ts";
import { staticPartitions } from "../../src/define/partitions.ts";
import type { Sensor } from "../../src/define/sensor.ts";
import { sync, type SyncOptions } from "../../src/define/sync.ts";
import type { Materialize } from "../../src/define/automation-context.ts";
import { runWorker, type WorkerOptions } from "../../src/worker/run-worker.ts";
import type { WorkServer } from "./work-server.ts";

const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };
const stops: (() => Promise<unknown>)[] = [];

/** Stops every worker that a test left running. */
export async function stopWorkers(): Promise<void> {
  for (const stop of stops.splice(0)) await stop();
}

/** A worker that runs until the test stops it or ends. */
export function work(
  server: WorkServer,
  materialize: Materialize,
  more: Partial<AssetOptions> = {},
  options: Partial<WorkerOptions> = {},
) {
  const project = definePawl({ assets: [asset("orders", { materialize, ...more })] });
  const controller = new AbortController();
  const ended = runWorker({
    connection: server,
    project,
    workerId: "worker",
    codeVersion: null,
    logger: quiet,
    signal: controller.signal,
    ...options,
  });
  ended.catch(() => undefined);
  const stop = () => {
    controller.abort();
    return ended;
  };
  stops.push(() => stop().catch(() => undefined));
  return { ended, stop };
}

/** A worker with sensors, and the asset that they ask for. */
export function workWithSensors(
  server: WorkServer,
  sensors: readonly Sensor[],
  options: Partial<WorkerOptions> = {},
) {
  const partitions = staticPartitions(["a", "b"]);
  const orders = asset("orders", { materialize: () => undefined, partitions });
  return work(
    server,
    () => undefined,
    {},
    { project: definePawl({ assets: [orders], sensors }), ...options },
  );
}

/** A worker with the sync `blocks`. */
export function workOnSync(
  server: WorkServer,
  functions: Partial<SyncOptions>,
  options: Partial<WorkerOptions> = {},
) {
  const blocks = sync("blocks", { from: 0, to: 10_000, fetch: async () => {}, ...functions });
  const project = definePawl({ syncs: [blocks] });
  return work(server, () => undefined, {}, { project, ...options });
}

/** So many tasks without partitions. */
export function tasks(count: number): string[][] {
  return Array.from({ length: count }, () => []);
}

/** A function that ends only when it is told to stop. */
export const endless: Materialize = ({ signal }) =>
  new Promise((_resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason));
  });
