import { setTimeout as sleep } from "node:timers/promises";
import { type Client, createClient } from "../src/client/client.ts";
import { ScheduleSpec } from "../src/core/automation-specs.ts";
import { atMost, type Bench, type Benchmark, type Figure, percentile, told } from "./benchmark.ts";
import { type BenchServer, startBenchServer } from "./child-process.ts";

const MANY = 10_000;
const USUAL = 1_000;
const IDLE_MS = 30_000;
/** How long before a minute its schedules must be published. */
const AHEAD_MS = 8_000;

/** So many schedules that all tick at one minute, which is about to come. */
async function dueTogether(bench: Bench, client: Client, count: number): Promise<Figure[]> {
  const nowMs = Date.now();
  let minuteMs = Math.ceil(nowMs / 60_000) * 60_000;
  if (minuteMs - nowMs < AHEAD_MS) minuteMs += 60_000;
  const at = new Date(minuteMs);
  const cron = `${at.getUTCMinutes()} ${at.getUTCHours()} * * *`;
  const startedMs = performance.now();
  await publish(client, count, cron);
  bench.say(`published ${count} in ${Math.round(performance.now() - startedMs)} ms`);
  const { pos } = await client.call("listEvents", { query: { limit: 1 } });
  await sleep(minuteMs - Date.now());
  const requestedMs = await allRequested(client, pos, count, minuteMs);
  const latenesses = await latenessOf(client, pos, minuteMs);
  const setting = `${count} schedules due at one minute`;
  return [
    count === MANY
      ? atMost("until all are requested", setting, requestedMs / 1_000, 5, "s")
      : told("until all are requested", setting, requestedMs / 1_000, "s"),
    told("lateness p50", setting, percentile(latenesses, 0.5), "ms"),
    count === USUAL
      ? atMost("lateness p99", setting, percentile(latenesses, 0.99), 250, "ms")
      : told("lateness p99", setting, percentile(latenesses, 0.99), "ms"),
  ];
}

async function publish(client: Client, count: number, cron: string): Promise<void> {
  const specs = Array.from({ length: count }, (_, index) =>
    ScheduleSpec.parse({ kind: "schedule", name: `s-${index}`, cron, asset_selection: ["report"] }),
  );
  await client.call("publishDefinitions", { body: { specs, prune: false } });
}

/** How long after the minute the last request stood in the ledger, as a client sees it. */
async function allRequested(
  client: Client,
  fromPos: number,
  count: number,
  minuteMs: number,
): Promise<number> {
  const last = fromPos + 2 * count;
  for (;;) {
    const { pos } = await client.call("listEvents", { query: { limit: 1 } });
    if (pos >= last) return Date.now() - minuteMs;
    await sleep(5);
  }
}

/** How long after its time each tick was decided. */
async function latenessOf(client: Client, fromPos: number, minuteMs: number): Promise<number[]> {
  const latenesses: number[] = [];
  for (let after = fromPos; ; ) {
    const page = await client.call("listEvents", {
      query: { after, limit: 200, type: "ScheduleTicked" },
    });
    for (const { occurred_at } of page.items) latenesses.push(Date.parse(occurred_at) - minuteMs);
    if (page.next_after === null) return latenesses;
    after = page.next_after;
  }
}

/** What a server does whose schedules are all far ahead. */
async function idle(server: BenchServer, client: Client): Promise<Figure[]> {
  await publish(client, MANY, "0 0 29 2 *");
  await sleep(3_000);
  const before = await server.ask("usage");
  const { pos } = await client.call("listEvents", { query: { limit: 1 } });
  await sleep(IDLE_MS);
  const after = await server.ask("usage");
  const end = await client.call("listEvents", { query: { limit: 1 } });
  const setting = `${MANY} schedules, none due`;
  return [
    atMost("CPU of a core", setting, ((after.cpuMs - before.cpuMs) / IDLE_MS) * 100, 5, "%"),
    atMost("events added", setting, end.pos - pos, 0, ""),
  ];
}

/** Schedules: how late they are when many are due at once, and what they cost when none is. */
export const schedules: Benchmark = {
  name: "schedules",
  async run(bench) {
    const figures: Figure[] = [];
    for (const count of [USUAL, MANY]) {
      const path = `${bench.folder}/ledger-${count}.sqlite`;
      const server = await startBenchServer(bench, { path, port: 0 });
      const client = createClient({ url: server.url });
      figures.push(...(await dueTogether(bench, client, count)));
      await server.stop();
    }
    const server = await startBenchServer(bench, { path: `${bench.folder}/idle.sqlite`, port: 0 });
    figures.push(...(await idle(server, createClient({ url: server.url }))));
    await server.stop();
    return figures;
  },
};
