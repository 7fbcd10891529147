import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type Api, startApi } from "../end-to-end/api-server.ts";
import { expectAccessible, expectNoSidewaysScroll, TestBrowser } from "./test-browser.ts";

let api: Api;
let browser: TestBrowser;

const DAYS = 240;
const SPECS = [
  {
    kind: "asset",
    asset_key: "orders",
    partitions: { type: "integers", start: 0, end: DAYS },
  },
  { kind: "asset", asset_key: "whole", partitions: null },
  { kind: "asset", asset_key: "silent", partitions: { type: "static", keys: ["a"] } },
] as const;

const rowsOf = (value: number) => ({
  rows: { type: "number", value, unit: "rows" },
  bytes: value * 100,
  note: "no number",
});

beforeAll(async () => {
  [api, browser] = await Promise.all([startApi(), TestBrowser.open()]);
  const { client } = api;
  await client.call("publishDefinitions", { body: { specs: [...SPECS] } } as { body: never });
  // The second half was made first.
  await report("orders", DAYS / 2, DAYS);
  await report("orders", 0, DAYS / 2);
  for (const value of [5, 3, 8]) {
    await said("whole", { type: "all" }, rowsOf(value));
    await said("orders", { type: "explicit", partition_keys: ["7"] }, rowsOf(1_000 + value));
  }
});

afterEach(() => browser.endVisits());

afterAll(async () => {
  await browser.close();
  await api.close();
});

type Selector = { type: "all" } | { type: "explicit"; partition_keys: string[] };

async function said(asset_key: string, selector: Selector, metadata: object): Promise<void> {
  const body = { items: [{ selector, metadata }] } as never;
  await api.client.call("reportPartitions", { params: { asset_key }, body });
}

async function report(asset_key: string, from: number, to: number): Promise<void> {
  const items = Array.from({ length: to - from }, (_, at) => ({
    selector: { type: "explicit", partition_keys: [String(from + at)] },
    metadata: rowsOf(from + at),
  }));
  const body = { items } as never;
  await api.client.call("reportPartitions", { params: { asset_key }, body });
}

const assetUrl = (path: string): string => `${api.url}/assets/${path}`;

/** Accessible in both themes, and no wider than a phone. */
async function expectFitsEverybody(page: Page): Promise<void> {
  await expectAccessible(page);
  await page.emulateMedia({ colorScheme: "dark", reducedMotion: "reduce" });
  await expectAccessible(page);
  await page.setViewportSize({ width: 390, height: 800 });
  await expectNoSidewaysScroll(page);
}

describe("the numbers of an asset", () => {
  test("are drawn by partition or by time, with a table of them, a part at a time", async () => {
    const { page } = await browser.visit(assetUrl("orders"));
    await page.getByRole("link", { name: "Numbers" }).click();
    // Their names are in the order that documents are kept in.
    await page.getByRole("img", { name: /^bytes: 200 values between 4,000 and / }).waitFor();
    await page.getByLabel("Number").selectOption("rows");
    const chart = page.getByRole("img", { name: /^rows: 200 values between / });
    await chart.waitFor();
    expect(await chart.getAttribute("aria-label")).toBe(
      "rows: 200 values between 40 rows and 239 rows, the last 239 rows (239)",
    );
    expect(await chart.locator("polyline").count()).toBe(1);
    await page.getByText("Values", { exact: true }).click();
    const table = page.getByRole("region", { name: "rows by partition" });
    expect(await table.getByRole("rowheader").first().innerText()).toBe("239");
    await page.getByText("Partitions 41 to 240 of 240").waitFor();

    await page.getByLabel("Order").selectOption("By time materialized");
    await page.getByRole("img", { name: /the last 119 rows \(119\)$/ }).waitFor();
    await page.getByRole("button", { name: "Earlier" }).click();
    await page.getByText("Partitions 1 to 200 of 240").waitFor();
    await page.getByRole("button", { name: "Later" }).click();
    await page.getByText("Partitions 201 to 240 of 240").waitFor();
    const dots = page.getByRole("img", { name: /^rows: 40 values/ }).locator("circle");
    expect(await dots.count()).toBe(40);
    await expectFitsEverybody(page);
  });

  test("say where there are none", async () => {
    const { page } = await browser.visit(assetUrl("silent?view=numbers"));
    await page.getByText("No numbers in the metadata of these partitions.").waitFor();
    await expectAccessible(page);
  });

  test("follow what is made", async () => {
    const { page } = await browser.visit(assetUrl("silent?view=numbers"));
    await page.getByText("No numbers in the metadata of these partitions.").waitFor();
    await said("silent", { type: "all" }, { rows: 12 });
    await page
      .getByRole("img", { name: "rows: 1 value between 12 and 12, the last 12 (a)" })
      .waitFor();
  });
});

describe("the numbers of a partition", () => {
  test.each([
    [
      "of one among many",
      "orders?partition=7",
      "4 values between 7 rows and 1,008 rows, the last 1,008 rows",
    ],
    [
      "of an asset without partitions",
      "whole",
      "3 values between 3 rows and 8 rows, the last 8 rows",
    ],
  ])("%s are drawn over time, with who made each", async (_name, path, expected) => {
    const { page } = await browser.visit(assetUrl(path));
    const history = page.getByRole("region", { name: "Numbers over time" });
    await history.getByRole("img", { name: /^bytes: / }).waitFor();
    await history.getByLabel("Number", { exact: true }).selectOption("rows");
    await history.getByRole("img", { name: new RegExp(`^rows: ${expected}`) }).waitFor();
    await history.getByText("Values over time").click();
    const table = history.getByRole("region", { name: "rows over time" });
    await table.getByText("reported by").first().waitFor();
    await expectFitsEverybody(page);
  });
});
