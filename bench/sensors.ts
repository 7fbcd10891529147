import process from "node:process";
import { mkdirSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { type Client, createClient } from "../src/client/client.ts";
import { SensorSpec } from "../src/work/definition/spec.ts";
import { atMost, type Bench, type Benchmark, type Figure, told } from "./benchmark.ts";
import { startBenchServer, startBenchWorker, startChild } from "./child-process.ts";
import type { FromLoad, LoadOptions } from "./load-process.ts";

const POLL_SENSORS = 1_000;
const IDLE_MS = 60_000;
const MESSAGES = 20_000;
const CONNECTIONS = 32;

async function headPos(client: Client): Promise<number> {
  return (await client.call("listEvents", { query: { limit: 1 } })).pos;
}

/** Sensors that look at a folder every half minute and find nothing. */
async function idle(bench: Bench): Promise<Figure[]> {
  const folder = `${bench.folder}/inbox`;
  mkdirSync(folder);
  // The worker inherits it: sensors that are made over the API see only what it names.
  process.env["SENSOR_FOLDERS"] = folder;
  const server = await startBenchServer(bench, { path: `${bench.folder}/idle.sqlite`, port: 0 });
  const worker = startBenchWorker(bench, { url: server.url, concurrency: 8 });
  const client = createClient({ url: server.url });
  const specs = Array.from({ length: POLL_SENSORS }, (_, index) =>
    SensorSpec.parse({
      kind: "sensor",
      name: `poll-${index}`,
      mode: "poll",
      watch: { type: "files", folder },
      target: { asset_selection: ["report"] },
    }),
  );
  await client.call("publishDefinitions", { body: { specs } });
  // All of them are due at once at first; then they spread as they come.
  await sleep(35_000);
  const pos = await headPos(client);
  const before = [await server.ask("usage"), await worker.ask("usage")] as const;
  await sleep(IDLE_MS);
  const after = [await server.ask("usage"), await worker.ask("usage")] as const;
  const added = (await headPos(client)) - pos;
  await worker.stop();
  await server.stop();
  const setting = `${POLL_SENSORS} poll sensors every 30 s, nothing new`;
  const share = (which: 0 | 1) => ((after[which].cpuMs - before[which].cpuMs) / IDLE_MS) * 100;
  return [
    told("server's CPU of a core", setting, share(0), "%"),
    told("worker's CPU of a core", setting, share(1), "%"),
    atMost("events added", setting, added, 0, ""),
  ];
}

/** Messages that are on disk before they are answered, each leading to a run. */
async function push(bench: Bench): Promise<Figure[]> {
  const server = await startBenchServer(bench, { path: `${bench.folder}/push.sqlite`, port: 0 });
  const client = createClient({ url: server.url });
  const spec = SensorSpec.parse({
    kind: "sensor",
    name: "push",
    mode: "push",
    target: { asset_selection: ["report"] },
  });
  await client.call("publishDefinitions", { body: { specs: [spec] } });
  const pos = await headPos(client);
  const startedMs = performance.now();
  const options: LoadOptions = {
    url: server.url,
    connections: CONNECTIONS,
    requests: MESSAGES,
    path: "/api/v1/orchestration/sensors/push/messages",
    body: '{"order":"#"}',
    keyHeader: "Webhook-Id",
  };
  const load = startChild<FromLoad>(bench, "load-process", options);
  const { perSecond, p50Ms, p99Ms, refused } = await load.next("done");
  if (refused > 0) throw new Error(`${refused} messages were refused`);
  // Received, evaluated and requested: three events for each message, those to warm up included.
  const last = pos + 3 * (MESSAGES + Math.min(2_000, MESSAGES / 10));
  while ((await headPos(client)) < last) await sleep(20);
  const seconds = (performance.now() - startedMs) / 1_000;
  await server.stop();
  const setting = `${MESSAGES} messages, ${CONNECTIONS} connections`;
  return [
    told("messages received", setting, perSecond, "/s"),
    told("their p50", setting, p50Ms, "ms"),
    told("their p99", setting, p99Ms, "ms"),
    told("evaluated, and their runs requested", setting, (last - pos) / 3 / seconds, "/s"),
  ];
}

/** Sensors: what looking for nothing costs, and how fast messages are taken. */
export const sensors: Benchmark = {
  name: "sensors",
  about: "messages a second, and what idle sensors cost",
  run: async (bench) => [...(await push(bench)), ...(await idle(bench))],
};
