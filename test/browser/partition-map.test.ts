import { join } from "node:path";
import type { Locator, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { type Api, startApi } from "../end-to-end/api-server.ts";
import { MANY, makeManyPartitions, manyKeyAt, runPartitions } from "../million-partitions.ts";
import { colourAt, framesWhile } from "./map-picture.ts";
import { expectAccessible, expectNoSidewaysScroll, TestBrowser } from "./test-browser.ts";

// Goal: a million partitions are shown as they are, and looking at them stays smooth. Method: an
// asset of which two partitions really ran and the others are copies of them. How fast it was is
// printed, never asserted: machines differ.

const PATIENCE_MS = 180_000;
const {
  asset: ASSET,
  shops: SHOPS,
  days: DAYS,
  never: NEVER,
  failing: FAILING,
  every: EVERY,
} = MANY;

let api: Api;
let browser: TestBrowser;

beforeAll(async () => {
  [api, browser] = await Promise.all([startApi(), TestBrowser.open()]);
  await makeManyPartitions(api.client, join(api.folder, "pawl.db"));
});

afterEach(() => browser.endVisits());

afterAll(async () => {
  await browser.close();
  await api.close();
});

async function visit(options = {}): Promise<{ page: Page; map: Locator }> {
  const url = `${api.url}/assets/${encodeURIComponent(ASSET)}`;
  const { page } = await browser.visit(url, options);
  const map = page.getByRole("application", { name: `Partitions of ${ASSET}` });
  // The first who asks has the server read a million rows, beside whatever else the machine does.
  await map.locator("canvas").waitFor({ timeout: PATIENCE_MS });
  return { page, map };
}

/** Scrolls to a cell, and answers where it is in the box then. */
function placeOf(map: Locator, ordinal: number): Promise<{ x: number; y: number; size: number }> {
  return map.evaluate(
    (box, [at, shops]) => {
      const content = box.firstElementChild as HTMLElement;
      // Days lie along the page, and shops below each other.
      const size = content.offsetHeight / shops;
      // Beside the mark in the middle of a cell.
      const left = (Math.floor(at / shops) + 0.15) * size;
      const top = ((at % shops) + 0.15) * size;
      box.scrollTo(left - 100, top - 100);
      return { x: left - box.scrollLeft, y: top - box.scrollTop, size };
    },
    [ordinal, SHOPS] as const,
  );
}

/** Whether the cell is drawn as failed, materialized or empty. */
async function shownAs(map: Locator, ordinal: number): Promise<"red" | "green" | "grey"> {
  const { x, y } = await placeOf(map, ordinal);
  const [red = 0, green = 0] = await colourAt(map, x, y);
  if (Math.abs(red - green) < 20) return "grey";
  return red > green ? "red" : "green";
}

test("a million partitions have the colour of their status", async () => {
  const started = performance.now();
  const { page, map } = await visit();
  console.log(`1,000,000 partitions: ${Math.round(performance.now() - started)} ms until drawn`);
  await page.getByRole("button", { name: "never materialized 40,000" }).waitFor();
  await page.getByRole("button", { name: "last attempt failed 960" }).waitFor();
  for (const [ordinal, colour] of [
    [0, "green"],
    [FAILING, "red"],
    [FAILING + 1, "green"],
    [123 * EVERY + FAILING, "red"],
    [124 * EVERY + FAILING - 1, "green"],
    [NEVER - 1, "green"],
    [NEVER, "grey"],
    [DAYS * SHOPS - 1, "grey"],
  ] as const) {
    expect([ordinal, await shownAs(map, ordinal)]).toEqual([ordinal, colour]);
  }
  const failed = 123 * EVERY + FAILING;
  await map.hover({ position: await placeOf(map, failed) });
  const tip = page.locator(".map-tip");
  await tip.getByText(manyKeyAt(failed)).waitFor();
  await tip.locator("[data-state=MATERIALIZED_LAST_ATTEMPT_FAILED]").waitFor();
});

test("scrolling and hovering show where one is, all the while", async () => {
  const { page, map } = await visit();
  const { x, y, width = 0, height = 0 } = (await map.boundingBox()) ?? { x: 0, y: 0 };
  await page.mouse.move(x + width / 2, y + height / 2);
  const scrolling = await framesWhile(page, async () => {
    for (let turn = 0; turn < 60; turn++) await page.mouse.wheel(0, turn < 30 ? 60 : -40);
  });
  const hovering = await framesWhile(page, async () => {
    for (let step = 0; step < 120; step++) {
      await page.mouse.move(x + 10 + step * 5, y + 10 + ((step * 3) % 300));
    }
  });
  const told = [scrolling, hovering].map((rate) => rate.toFixed(0));
  console.log(`frames a second: scrolling ${told[0]}, hovering ${told[1]}`);
  await map.hover({ position: await placeOf(map, NEVER) });
  await page.locator(".map-tip").getByText(manyKeyAt(NEVER)).waitFor();
});

test("what is materialized meanwhile changes its colour without reload", async () => {
  const { page, map } = await visit();
  const ordinal = NEVER + 70 * SHOPS + 200;
  expect(await shownAs(map, ordinal)).toBe("grey");
  await runPartitions(api.client, ASSET, [manyKeyAt(ordinal)]);
  const started = performance.now();
  await page.getByRole("button", { name: "never materialized 39,999" }).waitFor();
  console.log(`shown ${Math.round(performance.now() - started)} ms after it was recorded`);
  expect(await shownAs(map, ordinal)).toBe("green");
  expect(await shownAs(map, ordinal + 1)).toBe("grey");
});

test("what is stale is told apart where few enough are seen", async () => {
  const { page, map } = await visit();
  await runPartitions(api.client, MANY.upstream, ["2015-04-11"]);
  await page.getByText("stale ones are shown as materialized. Zoom in").waitFor();
  const stale = 100 * SHOPS;
  for (const _ of [16, 24]) await page.getByRole("button", { name: "Larger cells" }).click();
  expect((await placeOf(map, stale)).size).toBe(24);
  // All shops of the day but one, whose last attempt failed.
  await page.getByRole("button", { name: `stale ${SHOPS - 1}`, exact: true }).waitFor();
  await page.getByText("Staleness is shown for partitions").waitFor();
  const colours: string[] = [];
  for (const ordinal of [stale - SHOPS, stale, stale + SHOPS]) {
    const { x, y } = await placeOf(map, ordinal + 10);
    colours.push((await colourAt(map, x, y)).join());
  }
  const [green, amber] = colours;
  expect(colours).toEqual([green, amber, green]);
  expect(amber).not.toBe(green);
});

test("a stretch of days and shops is chosen by keyboard, in the dark and on a phone too", async () => {
  const { page, map } = await visit({ theme: "dark" });
  await map.focus();
  await page.keyboard.press("End");
  await page
    .getByText(manyKeyAt(DAYS * SHOPS - 1))
    .first()
    .waitFor();
  await page.keyboard.press("Shift+ArrowUp");
  await page.keyboard.press("Shift+ArrowLeft");
  await page.getByText("4 partitions chosen").waitFor();
  const link = page.getByRole("link", { name: "Backfill these" });
  const href = (await link.getAttribute("href")) ?? "";
  const filter = new URL(href, api.url).searchParams.get("filter") ?? "";
  expect(JSON.parse(filter)).toEqual({
    day: { start: "2021-11-03", end: "2021-11-04" },
    shop: { start: "shop-398", end: "shop-399" },
  });
  await expectAccessible(page);
  await page.setViewportSize({ width: 390, height: 800 });
  await expectNoSidewaysScroll(page);
});
