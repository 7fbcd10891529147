import { join } from "node:path";
import type { Locator, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { type Api, startApi } from "../end-to-end/api-server.ts";
import { workOnce } from "../end-to-end/backfill-hand.ts";
import { writeManyChunks } from "../million-chunks.ts";
import { colourAt, framesWhile } from "./map-picture.ts";
import { expectAccessible, expectNoSidewaysScroll, TestBrowser } from "./test-browser.ts";

// Goal: a million chunks are shown as they are, each can be found, and looking at them stays
// smooth. Method: a backfill of which a few chunks really ran and the others are copies of them.
// How fast it was is printed, never asserted: machines differ.

const CHUNKS = 1_000_000;
const PLANNED = 900_000;
const EVERY = 1_000;
const FAILING = 57;
/** One of those that failed, in the midst of the map. */
const FAILED = 123 * EVERY + FAILING;

let api: Api;
let browser: TestBrowser;
let backfillId: string;

beforeAll(async () => {
  [api, browser] = await Promise.all([startApi(), TestBrowser.open()]);
  const partitions = { type: "integers", start: 0, end: CHUNKS } as const;
  await api.client.call("publishDefinitions", {
    body: { specs: [{ kind: "asset", asset_key: "many", partitions }] },
  });
  const { backfill_id } = await api.client.call("createBackfill", {
    body: {
      client_request_id: "many",
      assets: ["many"],
      selector: { type: "all" },
      chunk_size: 1,
      max_concurrent_runs: 2,
    },
  });
  backfillId = backfill_id;
  const params = { backfill_id };
  const verdict = (key: string) => (key === "1" ? "no rows for 1" : null);
  let worked = 0;
  while (worked < 2) worked += await workOnce(api.client, { assets: ["many"], verdict });
  await api.client.call("pauseBackfill", { params, body: {} });
  await workOnce(api.client, { assets: ["many"], verdict });
  const { next_chunk: first } = await api.client.call("getBackfill", { params });
  writeManyChunks(join(api.folder, "pawl.db"), {
    backfill: backfill_id,
    succeeded: 0,
    failed: 1,
    first,
    end: PLANNED,
    failing: FAILING,
    every: EVERY,
  });
});

afterEach(() => browser.endVisits());

afterAll(async () => {
  await browser.close();
  await api.close();
});

async function visit(options = {}): Promise<{ page: Page; map: Locator }> {
  const { page } = await browser.visit(`${api.url}/backfills/${backfillId}`, options);
  const map = page.getByRole("application", { name: "Map of the chunks" });
  await map.locator("canvas").waitFor();
  return { page, map };
}

type Place = { x: number; y: number; size: number };

/** Where a cell is in the box, by the map's own measures. */
function seenAt(map: Locator, index: number): Promise<Place> {
  return map.evaluate((box, at) => {
    const content = box.firstElementChild as HTMLElement;
    // The last row may be short, so this is near the size; the sizes there are tell which it is.
    const near = Math.sqrt((content.offsetWidth * content.offsetHeight) / 1_000_000);
    const sizes = [1, 2, 3, 4, 6, 8, 12, 16, 24];
    const size = sizes.toSorted((a, b) => Math.abs(a - near) - Math.abs(b - near))[0] ?? 1;
    const columns = content.offsetWidth / size;
    const x = ((at % columns) + 0.5) * size;
    return { x, y: (Math.floor(at / columns) + 0.5) * size - box.scrollTop, size };
  }, index);
}

/** Scrolls to a cell, and answers where it is then. */
async function placeOf(map: Locator, index: number): Promise<Place> {
  const { y } = await seenAt(map, index);
  await map.evaluate((box, by) => {
    box.scrollTop += by;
  }, Math.round(y) - 100);
  return seenAt(map, index);
}

/** Points at a cell until the page tells it: what was scrolled before may still be under way. */
async function pointAt(page: Page, map: Locator, index: number): Promise<Locator> {
  const tip = page.locator(".map-tip");
  await expect
    .poll(async () => {
      await page.mouse.move(0, 0);
      await map.hover({ position: await placeOf(map, index) });
      return tip.getAttribute("data-index");
    })
    .toBe(String(index));
  return tip;
}

test("a million chunks are there at once, and each is told by hovering over it", async () => {
  const { page, map } = await visit();
  const place = await placeOf(map, FAILED);
  await map.hover({ position: place });
  const tip = page.locator(".map-tip");
  await tip.waitFor();
  const ms = Math.round(await page.evaluate(() => performance.now()));
  console.log(`1,000,000 chunks: ${ms} ms from the first request until one is told`);
  await tip.getByText("chunk 123,057").waitFor();
  await tip.getByText("failed").waitFor();
  await tip.getByText("123057", { exact: true }).waitFor();

  const [red = 0, green = 0] = await colourAt(map, place.x, place.y);
  expect(red).toBeGreaterThan(green);
  const beside = { ...place, x: place.x + place.size };
  await map.hover({ position: beside });
  await tip.getByText("chunk 123,058").waitFor();
  await tip.getByText("succeeded").waitFor();
  const [dull = 0, bright = 0] = await colourAt(map, beside.x, beside.y);
  expect(bright).toBeGreaterThan(dull);

  const last = await placeOf(map, CHUNKS - 1);
  await map.hover({ position: last });
  await tip.getByText("chunk 999,999").waitFor();
  await tip.getByText("pending").waitFor();
  await page.getByRole("button", { name: "succeeded 899,099" }).waitFor();
  await page.getByRole("button", { name: "failed 901" }).waitFor();
  await page.getByRole("button", { name: "pending 100,000" }).waitFor();
});

test("scrolling and hovering show where one is, all the while", async () => {
  const { page, map } = await visit();
  const { x, y, width = 0, height = 0 } = (await map.boundingBox()) ?? { x: 0, y: 0 };
  await page.mouse.move(x + width / 2, y + height / 2);
  const scrolling = await framesWhile(page, async () => {
    for (let turn = 0; turn < 40; turn++) await page.mouse.wheel(0, turn < 20 ? 60 : -40);
  });
  const hovering = await framesWhile(page, async () => {
    for (let step = 0; step < 80; step++) {
      await page.mouse.move(x + 10 + step * 10, y + 10 + ((step * 3) % 300));
    }
  });
  // With large cells there are marks to draw, and a wheel's turn is many rows.
  for (let size = 0; size < 4; size++) await page.getByRole("button", { name: "Larger" }).click();
  const large = await framesWhile(page, async () => {
    await page.mouse.move(x + width / 2, y + height / 2);
    for (let turn = 0; turn < 40; turn++) await page.mouse.wheel(0, 120);
  });
  const told = [scrolling, hovering, large].map((rate) => rate.toFixed(0));
  console.log(`frames a second: scrolling ${told[0]}, hovering ${told[1]}, large cells ${told[2]}`);
  await pointAt(page, map, FAILED);
});

test("a chunk that failed is found and opened by keyboard", async () => {
  const { page, map } = await visit();
  await page.getByRole("button", { name: "failed 901" }).focus();
  await page.keyboard.press("Enter");
  const { x, y } = await placeOf(map, 500);
  const [, , , faint = 255] = await colourAt(map, x, y);
  expect(faint).toBeLessThan(100);
  const next = page.getByRole("button", { name: "Next failed" });
  await next.focus();
  await page.keyboard.press("Enter");
  await page.getByText("chunk 1, failed").waitFor({ state: "attached" });
  await page.keyboard.press("Enter");
  await page.getByText("chunk 57, failed").waitFor({ state: "attached" });
  await page.getByRole("button", { name: "Previous failed" }).click();
  await page.getByRole("button", { name: "Previous failed" }).click();
  await page.getByText("chunk 899,057, failed").waitFor({ state: "attached" });
  await map.focus();
  await page.keyboard.press("ArrowRight");
  await page.getByText("chunk 899,058, succeeded").waitFor({ state: "attached" });
  await page.keyboard.press("End");
  await page.getByText("chunk 999,999, pending").waitFor({ state: "attached" });
  await page.keyboard.press("Home");
  await page.keyboard.press("ArrowRight");
  await page.getByText("chunk 1, failed").waitFor({ state: "attached" });
  await page.keyboard.press("Enter");
  const panel = page.getByRole("region", { name: "Chunk 1", exact: true });
  await panel.getByText("no rows for 1").waitFor();
  expect(new URL(page.url()).search).toBe("?chunk=1");
});

test("zooming keeps what was looked at in view", async () => {
  const { page, map } = await visit();
  await pointAt(page, map, FAILED);
  const first = await placeOf(map, FAILED);
  await page.keyboard.down("Control");
  for (const size of [3, 4, 6, 8, 12]) {
    await page.mouse.wheel(0, -100);
    await expect.poll(async () => (await seenAt(map, FAILED)).size).toBe(size);
    const { y } = await seenAt(map, FAILED);
    expect(Math.abs(y - first.y)).toBeLessThan(size);
  }
  await page.keyboard.up("Control");
  await pointAt(page, map, FAILED);
  await map.focus();
  await page.keyboard.press("-");
  await expect.poll(async () => (await seenAt(map, FAILED)).size).toBe(8);
  await page.getByRole("button", { name: "Fit" }).click();
  await expect.poll(async () => (await seenAt(map, FAILED)).size).toBe(first.size);
});

test.each(["light", "dark"] as const)("the map is for everybody, in the %s", async (theme) => {
  const { page } = await visit({ theme });
  await page.getByRole("button", { name: "failed 901" }).click();
  await expectAccessible(page);
  await page.setViewportSize({ width: 390, height: 800 });
  await expectNoSidewaysScroll(page);
});
