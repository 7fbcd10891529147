import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { type Client, createClient } from "../src/client/client.ts";
import { chromiumPath, launchChromium } from "../test/browser/chromium.ts";
import { framesWhile } from "../test/browser/map-picture.ts";
import { workOnce } from "../test/end-to-end/backfill-hand.ts";
import { writeManyChunks } from "../test/million-chunks.ts";
import { MANY, makeManyPartitions, manyKeyAt, runPartitions } from "../test/million-partitions.ts";
import { buildPage } from "../scripts/build-page.ts";
import { atLeast, atMost, type Benchmark, type Figure, percentile, told } from "./benchmark.ts";
import { startBenchServer, startBenchWorker } from "./child-process.ts";

const CHUNKS = 1_000_000;
const PLANNED = 900_000;
const LIVE_TIMES = 40;

/** The pages of the menu. */
const PLACES = [
  "/",
  "/backfills",
  "/backfills/new",
  "/assets",
  "/lineage",
  "/assets/hours",
  "/runs",
  "/schedules",
  "/sensors",
  "/syncs",
  "/moves",
  "/splits",
  "/routing",
  "/conflicts",
  "/ledger",
];

/** What a browser loads and shows, and how soon. */
export const page: Benchmark = {
  name: "page",
  about: "what a browser loads and shows, and how soon",
  async run(bench) {
    await buildPage();
    const path = join(bench.folder, "ledger.sqlite");
    const server = await startBenchServer(bench, { path, port: 0 });
    const browser = await launchChromium(chromiumPath());
    try {
      const client = createClient({ url: server.url });
      const figures = [await firstLoad(browser, server.url), await places(browser, server.url)];
      const backfillId = await millionChunks(client, path);
      figures.push(...(await chunkMap(browser, `${server.url}/backfills/${backfillId}`)));
      figures.push(...(await partitionMap(browser, { url: server.url, client, path })));
      const worker = startBenchWorker(bench, { url: server.url, concurrency: 8 });
      figures.push(...(await liveUpdates(browser, server.url, client)));
      await worker.stop();
      return figures;
    } finally {
      await browser.close();
      await server.stop();
    }
  },
};

/** The bytes that come over the wire until the first page is whole. */
async function firstLoad(browser: Browser, url: string): Promise<Figure> {
  const { page: first, context } = await open(browser);
  const session = await context.newCDPSession(first);
  await session.send("Network.enable");
  let bytes = 0;
  session.on("Network.loadingFinished", ({ encodedDataLength }) => (bytes += encodedDataLength));
  await first.goto(url);
  await first.getByText("Live", { exact: true }).waitFor();
  await first.getByRole("heading", { level: 1 }).waitFor();
  await context.close();
  return atMost("first load, compressed", "overview", bytes / 1_000, 300, "kB");
}

/** Every page once, in a window that has none of its files yet. */
async function places(browser: Browser, url: string): Promise<Figure> {
  const openMs: number[] = [];
  for (const place of PLACES) {
    const { page: shown, context } = await open(browser);
    const startedMs = performance.now();
    await shown.goto(`${url}${place}`);
    await seen(
      shown,
      () =>
        document.querySelector("h1") !== null && !document.body.textContent.includes("Loading…"),
    );
    openMs.push(performance.now() - startedMs);
    await context.close();
  }
  const setting = `${PLACES.length} pages, nothing kept from before`;
  return atMost("slowest page to open", setting, Math.max(...openMs), 1_000, "ms");
}

/** Waits until something is to be seen, looking at every frame: a locator waits in half seconds. */
async function seen<Arg>(shown: Page, isSeen: (arg: Arg) => boolean, arg?: Arg): Promise<void> {
  await shown.waitForFunction(isSeen as () => boolean, arg, { polling: "raf" });
}

async function open(
  browser: Browser,
): Promise<{ page: Page; context: ReturnType<Page["context"]> }> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  return { page: await context.newPage(), context };
}

/** A backfill of a million chunks of which a few ran, and most are copies of those. */
async function millionChunks(client: Client, path: string): Promise<string> {
  const { backfill_id } = await client.call("createBackfill", {
    body: {
      assets: ["million"],
      selector: { type: "range", start: "0", end: `${CHUNKS - 1}` },
      chunk_size: 1,
    },
  });
  const params = { backfill_id };
  const verdict = (key: string) => (key === "1" ? "no rows for 1" : null);
  let worked = 0;
  while (worked < 2) worked += await workOnce(client, { assets: ["million"], verdict });
  await client.call("pauseBackfill", { params, body: {} });
  await workOnce(client, { assets: ["million"], verdict });
  const { next_chunk: first } = await client.call("getBackfill", { params });
  const wish = { succeeded: 0, failed: 1, first, end: PLANNED, failing: 57, every: 1_000 };
  writeManyChunks(path, { backfill: backfill_id, ...wish });
  return backfill_id;
}

async function chunkMap(browser: Browser, url: string): Promise<Figure[]> {
  const setting = "1,000,000 chunks, 901 failed";
  const { page: shown, context } = await open(browser);
  const startedMs = performance.now();
  await shown.goto(url);
  const { x, y } = await hoverOverMap(shown);
  const openMs = performance.now() - startedMs;
  const scrolling = await framesWhile(shown, async () => {
    for (let turn = 0; turn < 200; turn++) await shown.mouse.wheel(0, turn < 100 ? 60 : -60);
  });
  const hovering = await framesWhile(shown, async () => {
    for (let step = 0; step < 400; step++) {
      await shown.mouse.move(x + 10 + ((step * 7) % 900), y + 10 + ((step * 3) % 300));
    }
  });
  await context.close();
  return [
    atMost("page open and a chunk told", setting, openMs, 2_000, "ms"),
    atLeast("scrolling", setting, scrolling, 30, "frames/s"),
    atLeast("hovering", setting, hovering, 30, "frames/s"),
  ];
}

/** The map of an asset of very many partitions, and one of them that is materialized meanwhile. */
async function partitionMap(
  browser: Browser,
  { url, client, path }: { url: string; client: Client; path: string },
): Promise<Figure[]> {
  await makeManyPartitions(client, path);
  const setting = "1,000,000 partitions";
  const place = `${url}/assets/${encodeURIComponent(MANY.asset)}`;
  const openMs: number[] = [];
  const changeMs: number[] = [];
  for (const time of [0, 1]) {
    const { page: shown, context } = await open(browser);
    const startedMs = performance.now();
    await shown.goto(place);
    await hoverOverMap(shown);
    openMs.push(performance.now() - startedMs);
    const left = MANY.days * MANY.shops - MANY.never - time - 1;
    await runPartitions(client, MANY.asset, [manyKeyAt(MANY.never + time)]);
    const recordedMs = performance.now();
    const text = `never materialized ${left.toLocaleString("en")}`;
    await seen(shown, (wanted) => document.body.textContent.includes(wanted), text);
    changeMs.push(performance.now() - recordedMs);
    await context.close();
  }
  const [first = NaN, again = NaN] = openMs;
  return [
    told("page open and a partition told", `${setting}, asked for the first time`, first, "ms"),
    atMost("page open and a partition told", setting, again, 2_000, "ms"),
    atMost("partition to picture", setting, Math.max(...changeMs), 500, "ms"),
  ];
}

/** Waits for a map and points into it, until it tells what is there; answers where the map is. */
async function hoverOverMap(shown: Page): Promise<{ x: number; y: number }> {
  await seen(shown, () => document.querySelector('[role="application"] canvas') !== null);
  const box = await shown.getByRole("application").boundingBox();
  if (box === null) throw new Error("The map is not to be seen.");
  await shown.mouse.move(box.x + 100, box.y + 100);
  await seen(shown, () => document.querySelector(".map-tip") !== null);
  return box;
}

/** From the answer of the request, which comes when the event is durable, to the row in the list. */
async function liveUpdates(browser: Browser, url: string, client: Client): Promise<Figure[]> {
  const { page: shown, context } = await open(browser);
  await shown.goto(`${url}/runs`);
  await shown.getByText("Live", { exact: true }).waitFor();
  const waitedMs: number[] = [];
  for (let count = 0; count < LIVE_TIMES; count++) {
    const { run_id } = await client.call("requestRun", {
      body: { assets: ["million"], partition_keys: [String(count)] },
    });
    const startedMs = performance.now();
    await seen(shown, (id) => document.querySelector(`[title="${id}"]`) !== null, run_id);
    waitedMs.push(performance.now() - startedMs);
  }
  await context.close();
  const setting = `${LIVE_TIMES} runs asked for, one after the other`;
  return [
    told("event to picture, p50", setting, percentile(waitedMs, 0.5), "ms"),
    atMost("event to picture, longest", setting, Math.max(...waitedMs), 500, "ms"),
  ];
}
