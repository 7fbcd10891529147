import { setTimeout as sleep } from "node:timers/promises";
import { type Client, createClient } from "../src/client/client.ts";
import { ScheduleSpec } from "../src/work/definition/spec.ts";
import { atMost, type Bench, type Benchmark, type Figure, percentile, told } from "./benchmark.ts";
import { type BenchServer, startBenchServer } from "./child-process.ts";

const MANY = 10_000;
const USUAL = 1_000;
const IDLE_MS = 30_000;
/** How long before a minute its schedules must be published. */
const AHEAD_MS = 8_000;

/** The next minute that leaves some time before it. */
function nextMinute(): number {
  const nowMs = Date.now();
  const minuteMs = Math.ceil(nowMs / 60_000) * 60_000;
  return minuteMs - nowMs < AHEAD_MS ? minuteMs + 60_000 : minuteMs;
}

/** What becomes of so many ticks that are due at a minute. */
async function measureMinute(client: Client, count: number, minuteMs: number) {
  await sleep(minuteMs - 1_000 - Date.now());
  const { pos } = await client.call("listEvents", { query: { limit: 1 } });
  await sleep(minuteMs - Date.now());
  const seen = await watchHead(client, pos + 2 * count, minuteMs);
  const latenesses = await latenessOf(client, pos, seen);
  return { requestedMs: seen.at(-1)?.lateMs ?? Number.NaN, latenesses };
}

/** Schedules that tick every minute, and how late they are in the third. */
async function everyMinute(bench: Bench, client: Client): Promise<Figure[]> {
  await publish(bench, client, USUAL, "* * * * *");
  const minuteMs = nextMinute();
  for (const passed of [0, 60_000]) await measureMinute(client, USUAL, minuteMs + passed);
  const { latenesses } = await measureMinute(client, USUAL, minuteMs + 120_000);
  const setting = `${USUAL} schedules every minute, all at its first second`;
  return [
    told("lateness p50", setting, percentile(latenesses, 0.5), "ms"),
    atMost("lateness p99", setting, percentile(latenesses, 0.99), 250, "ms"),
  ];
}

/** So many schedules that all tick for the first time at one minute. */
async function dueTogether(bench: Bench, client: Client): Promise<Figure[]> {
  const minuteMs = nextMinute();
  const at = new Date(minuteMs);
  await publish(bench, client, MANY, `${at.getUTCMinutes()} ${at.getUTCHours()} * * *`);
  const { requestedMs, latenesses } = await measureMinute(client, MANY, minuteMs);
  const setting = `${MANY} schedules due at once`;
  return [
    atMost("until all are requested", setting, requestedMs / 1_000, 5, "s"),
    told("lateness p50", setting, percentile(latenesses, 0.5), "ms"),
    told("lateness p99", setting, percentile(latenesses, 0.99), "ms"),
  ];
}

async function publish(bench: Bench, client: Client, count: number, cron: string): Promise<void> {
  const startedMs = performance.now();
  const specs = Array.from({ length: count }, (_, index) =>
    ScheduleSpec.parse({ kind: "schedule", name: `s-${index}`, cron, asset_selection: ["report"] }),
  );
  await client.call("publishDefinitions", { body: { specs, prune: false } });
  bench.say(`published ${count} in ${Math.round(performance.now() - startedMs)} ms`);
}

/** How far the ledger was, so long after the minute. */
type Seen = { pos: number; lateMs: number };

/** Looks at the head of the ledger, as a client sees it, until it has reached a position. */
async function watchHead(client: Client, last: number, minuteMs: number): Promise<Seen[]> {
  const seen: Seen[] = [];
  for (;;) {
    const { pos } = await client.call("listEvents", { query: { limit: 1 } });
    seen.push({ pos, lateMs: Date.now() - minuteMs });
    if (pos >= last) return seen;
    // Not more often: the looks would cost what they measure.
    await sleep(20);
  }
}

/** How long after its time each tick could be seen: its request was on disk by then. */
async function latenessOf(client: Client, fromPos: number, seen: readonly Seen[]) {
  const latenesses: number[] = [];
  for (let after = fromPos; ; ) {
    const page = await client.call("listEvents", {
      query: { after, limit: 200, type: "ScheduleTicked" },
    });
    for (const { pos } of page.items) {
      // The request of the run stands right behind the tick.
      const first = seen.find((each) => each.pos > pos);
      latenesses.push(first?.lateMs ?? Number.NaN);
    }
    if (page.next_after === null) return latenesses;
    after = page.next_after;
  }
}

/** What a server does whose schedules are all far ahead. */
async function idle(bench: Bench, server: BenchServer, client: Client): Promise<Figure[]> {
  await publish(bench, client, MANY, "0 0 29 2 *");
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
  about: "how late schedules are, and what idle ones cost",
  async run(bench) {
    const figures: Figure[] = [];
    for (const [name, measure] of Object.entries({ everyMinute, dueTogether, idle: null })) {
      const path = `${bench.folder}/${name}.sqlite`;
      const server = await startBenchServer(bench, { path, port: 0 });
      const client = createClient({ url: server.url });
      figures.push(...(await (measure?.(bench, client) ?? idle(bench, server, client))));
      await server.stop();
    }
    return figures;
  },
};
