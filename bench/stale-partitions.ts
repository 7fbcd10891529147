import { type Client, createClient } from "../src/client/client.ts";
import { atMost, type Bench, type Benchmark, type Figure, percentile, told } from "./benchmark.ts";
import { startBenchServer, startBenchWorker } from "./child-process.ts";
import { runBackfill } from "./run-backfill.ts";

/** How often the first page is asked for. */
const FIRST_PAGES = 100;
const FIRST_PAGE_MS_MAX = 300;

type Page = { items: readonly unknown[]; next_cursor: string | null };

/** The first page of the stale partitions of an asset, and all of them. */
async function measureList(client: Client, asset: string, what: string): Promise<Figure[]> {
  const query = { asset, limit: 200 };
  const times: number[] = [];
  for (let page = 0; page < FIRST_PAGES; page++) {
    const startedMs = performance.now();
    await client.call("listStalePartitions", { query });
    times.push(performance.now() - startedMs);
  }
  const startedMs = performance.now();
  let found = 0;
  let pages = 0;
  for (let cursor: string | null = ""; cursor !== null; pages++) {
    const from: { cursor?: string } = cursor === "" ? {} : { cursor };
    const page: Page = await client.call("listStalePartitions", { query: { ...query, ...from } });
    found += page.items.length;
    cursor = page.next_cursor;
  }
  const seconds = (performance.now() - startedMs) / 1_000;
  const all = `${what}, ${found} stale on ${pages} pages`;
  return [
    told("first page of what is stale, p50", what, percentile(times, 0.5), "ms"),
    atMost(
      "first page of what is stale, p99",
      what,
      percentile(times, 0.99),
      FIRST_PAGE_MS_MAX,
      "ms",
    ),
    told("all pages of what is stale", all, seconds, "s"),
  ];
}

/** How long it takes to say what a backfill of everything stale would be. */
async function measurePreview(client: Client, asset: string, what: string): Promise<Figure> {
  const selector = { type: "stale", limit: 1_000_000 } as const;
  const startedMs = performance.now();
  await client.call("previewBackfill", { body: { assets: [asset], selector } });
  const seconds = (performance.now() - startedMs) / 1_000;
  return told("preview of a stale backfill", what, seconds, "s");
}

async function fill(bench: Bench, url: string, asset: string): Promise<void> {
  await runBackfill(url, { asset, chunkSize: 500, maxConcurrentRuns: 100 }, bench.say);
}

/** What is stale among a million partitions: hours that are each made from their day. */
export const stalePartitions: Benchmark = {
  name: "stale-partitions",
  about: "stale ones among a million partitions",
  async run(bench) {
    const path = `${bench.folder}/ledger.sqlite`;
    const server = await startBenchServer(bench, { path, port: 0 });
    const worker = startBenchWorker(bench, { url: server.url, concurrency: 100 });
    const client = createClient({ url: server.url });
    const figures: Figure[] = [];

    const never = "a million, never materialized";
    figures.push(...(await measureList(client, "hours", never)));
    figures.push(await measurePreview(client, "hours", never));

    await fill(bench, server.url, "days");
    await fill(bench, server.url, "hours");
    figures.push(...(await measureList(client, "hours", "a million, all fresh")));

    await fill(bench, server.url, "days");
    const changed = "a million, all changed upstream by a time window";
    figures.push(...(await measureList(client, "hours", changed)));
    figures.push(await measurePreview(client, "hours", changed));

    await worker.stop();
    await server.stop();
    return figures;
  },
};
