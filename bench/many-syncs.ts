import { setTimeout as sleep } from "node:timers/promises";
import { type Client, createClient } from "../src/client/client.ts";
import { SyncSpec } from "../src/work/sync/spec.ts";
import { atMost, type Bench, type Benchmark, type Figure, percentile, told } from "./benchmark.ts";
import { startBenchServer } from "./child-process.ts";

const TARGETS = 1_000;
const SEGMENTS = 365;
const SEGMENT_BLOCKS = 10_000;
/** The largest that the API has. */
const PAGE = 200;
const CALLS = 200;
const QUIET_MS = 1_000;
const SLOWEST_MS = 300;
const MEMORY_MB = 400;
const SETTING = `${TARGETS} targets with ${SEGMENTS} segments each`;

const SPEC = SyncSpec.parse({
  kind: "sync",
  name: "wallets",
  source: "node",
  targets: Array.from({ length: TARGETS }, (_, index) => ({
    network: "mainnet",
    wallet: `0x${index.toString(16).padStart(40, "0")}`,
  })),
  from: 0,
  to: SEGMENTS * SEGMENT_BLOCKS - 1,
  has: { head: false, hash: false, verify: false },
});

/** Publishes the targets and waits until every segment of every one is planned. */
async function plan(client: Client): Promise<Figure[]> {
  const startedMs = performance.now();
  await client.call("publishDefinitions", { body: { specs: [SPEC] } });
  let slowestMs = 0;
  for (;;) {
    const askedMs = performance.now();
    const { segments_total } = await client.call("syncOverview", {});
    slowestMs = Math.max(slowestMs, performance.now() - askedMs);
    if (segments_total === TARGETS * SEGMENTS) break;
    await sleep(50);
  }
  const seconds = (performance.now() - startedMs) / 1_000;
  return [
    told("publishing and planning", SETTING, seconds, "s"),
    told("slowest overview meanwhile", SETTING, slowestMs, "ms"),
  ];
}

/** Waits until runs are asked for as far as they may be, and nothing is left to decide. */
async function untilQuiet(client: Client): Promise<void> {
  for (let last = -1; ; ) {
    const { pos } = await client.call("listEvents", { query: { limit: 1 } });
    if (pos === last) return;
    last = pos;
    await sleep(QUIET_MS);
  }
}

/** Reads every segment of a sync and counts them. */
async function allSegments(client: Client, sync = ""): Promise<number> {
  let read = 0;
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const query = { limit: PAGE, ...(cursor === undefined ? {} : { cursor }) };
    const page = await client.call("listSegments", { params: { sync }, query });
    read += page.items.length;
    cursor = page.next_cursor;
  }
  return read;
}

/** How long so many calls take, one after the other. */
async function timed(what: string, call: (index: number) => Promise<unknown>): Promise<Figure[]> {
  const times: number[] = [];
  for (let index = 0; index < CALLS; index += 1) {
    const startedMs = performance.now();
    await call(index);
    times.push(performance.now() - startedMs);
  }
  return [
    told(`${what}, p50`, SETTING, percentile(times, 0.5), "ms"),
    atMost(`${what}, p99`, SETTING, percentile(times, 0.99), SLOWEST_MS, "ms"),
  ];
}

async function run(bench: Bench): Promise<Figure[]> {
  const server = await startBenchServer(bench, { path: `${bench.folder}/syncs.sqlite`, port: 0 });
  const client = createClient({ url: server.url });
  const before = await server.ask("usage");
  const planning = await plan(client);
  await untilQuiet(client);
  const { items } = await client.call("listSyncs", { query: { limit: PAGE } });
  const segmentsOf = (index: number) => allSegments(client, items[index % items.length]?.sync_id);
  const planned = await segmentsOf(0);
  if (planned !== SEGMENTS) throw new Error(`The first sync has ${planned} segments`);
  const figures = [
    ...planning,
    ...(await timed("overview", () => client.call("syncOverview", {}))),
    ...(await timed(`list of ${PAGE} syncs`, () =>
      client.call("listSyncs", { query: { limit: PAGE } }),
    )),
    ...(await timed("all segments of a sync, two pages", segmentsOf)),
  ];
  const { rssPeakBytes, cpuMs } = await server.ask("usage");
  await server.stop();
  return [
    ...figures,
    told("server's CPU", SETTING, (cpuMs - before.cpuMs) / 1_000, "s"),
    atMost("peak memory of the server", SETTING, rssPeakBytes / 1e6, MEMORY_MB, "MB"),
  ];
}

/** Many targets, each with a plan of its own: what planning and looking at them costs. */
export const manySyncs: Benchmark = {
  name: "many-syncs",
  about: "planning and looking at a thousand syncs",
  run,
};
