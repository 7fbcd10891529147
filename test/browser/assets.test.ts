import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type Api, startApi, work } from "../end-to-end/api-server.ts";
import { expectAccessible, expectNoSidewaysScroll, TestBrowser } from "./test-browser.ts";

let api: Api;
let browser: TestBrowser;

/** A partition that was tried once, and failed. */
const FAILED_KEY = "day=2025-06-10,region=eu";

const days = { type: "daily", start: "2025-06-02" } as const;
const regions = { type: "static", keys: ["eu", "us west", "ü"] } as const;
const identity = { type: "identity" } as const;

/** The names are those that `work` takes tasks of. */
const SPECS = [
  {
    kind: "asset",
    asset_key: "sales/orders",
    description: "Orders as the shop wrote them, <b>one file</b> a day.",
    partitions: days,
    labels: { team: "sales" },
  },
  {
    kind: "asset",
    asset_key: "report",
    partitions: { type: "multi", dimensions: { day: days, region: regions } },
    upstream: [{ asset_key: "sales/orders", mapping: { type: "dimension", dimension: "day" } }],
  },
  { kind: "asset", asset_key: "tenants", partitions: { type: "dynamic", name: "tenants" } },
  {
    kind: "asset",
    asset_key: "summary",
    partitions: null,
    upstream: [
      { asset_key: "report", mapping: { type: "all" } },
      { asset_key: "tenants", mapping: { type: "all" } },
    ],
  },
  { kind: "asset", asset_key: "clicks", partitions: { type: "hourly", start: "2014-01-30T12:00" } },
  {
    kind: "asset",
    asset_key: "orders/checked",
    partitions: days,
    upstream: [{ asset_key: "sales/orders", mapping: identity }],
  },
] as const;

beforeAll(async () => {
  [api, browser] = await Promise.all([
    startApi({ clockAt: "2025-06-30T12:00:00.000Z" }),
    TestBrowser.open(),
  ]);
  const { client } = api;
  await client.call("publishDefinitions", { body: { specs: [...SPECS] } } as { body: never });
  const keys = Array.from({ length: 20 }, (_, at) => `2025-06-${String(at + 2).padStart(2, "0")}`);
  await materialize("sales/orders", keys, "SUCCEEDED");
  await materialize("sales/orders", ["2025-06-05"], "FAILED");
  const made = ["day=2025-06-03,region=eu", "day=2025-06-04,region=us%20west"];
  await materialize("report", made, "SUCCEEDED");
  await materialize("sales/orders", ["2025-06-03"], "SUCCEEDED");
  await materialize("report", [FAILED_KEY], "FAILED");
});

afterEach(() => browser.endVisits());

afterAll(async () => {
  await browser.close();
  await api.close();
});

async function materialize(asset: string, keys: string[], outcome: "SUCCEEDED" | "FAILED") {
  await api.client.call("requestRun", { body: { assets: [asset], partition_keys: keys } });
  await work(api.client, outcome);
}

const assetUrl = (key: string, query = ""): string =>
  `${api.url}/assets/${encodeURIComponent(key)}${query}`;

/** The map, once it is drawn. */
async function mapOf(page: Page, asset: string) {
  const map = page.getByRole("application", { name: `Partitions of ${asset}` });
  await map.locator("canvas").waitFor();
  return map;
}

/** Accessible in both themes, and no wider than a phone. */
async function expectFitsEverybody(url: string, isThere: (page: Page) => Promise<unknown>) {
  const { page } = await browser.visit(url);
  await isThere(page);
  await expectAccessible(page);
  await page.emulateMedia({ colorScheme: "dark", reducedMotion: "reduce" });
  await expectAccessible(page);
  await page.setViewportSize({ width: 390, height: 800 });
  await expectNoSidewaysScroll(page);
  // The next one comes in the same window.
  await browser.endVisits();
}

describe("the catalogue of assets", () => {
  test("shows every asset with how it stands, and finds some", async () => {
    const { page } = await browser.visit(`${api.url}/assets`);
    const table = page.getByRole("region", { name: "Assets" });
    await table.getByRole("link", { name: "orders/checked" }).waitFor();
    expect(await table.getByRole("rowheader").count()).toBe(6);
    const row = table
      .getByRole("row")
      .filter({ has: page.getByRole("rowheader", { name: /^sales\/orders/ }) });
    await row.getByText("last attempt failed").waitFor();
    const bar = row.getByRole("img");
    expect(await bar.getAttribute("aria-label")).toBe(
      "19 materialized, 1 last attempt failed of 28 partitions",
    );
    await page.getByLabel("Search").fill("team=sales");
    await page.getByText("1 of 6 assets").waitFor();
    expect(new URL(page.url()).searchParams.get("search")).toBe("team=sales");
    await page.getByLabel("Search").fill("nothing like that");
    await page.getByText("No asset matches.").waitFor();
  });

  test("can be used by everybody", async () => {
    await expectFitsEverybody(`${api.url}/assets`, (page) =>
      page.getByText("last attempt failed").first().waitFor(),
    );
  });
});

describe("a partition whose first attempt failed", () => {
  const failed = /^✕?\s*failed$/;

  test("is failed in the catalogue, in the lineage and in the counts, each a step from it", async () => {
    const { page } = await browser.visit(`${api.url}/assets`);
    const table = page.getByRole("region", { name: "Assets" });
    const row = table
      .getByRole("row")
      .filter({ has: page.getByRole("rowheader", { name: /^report/ }) });
    const bar = row.getByRole("img", { name: /1 failed/ });
    await bar.waitFor();
    await row.getByRole("link", { name: failed }).click();
    const list = page.getByRole("region", { name: "Partitions" });
    await list.getByRole("link", { name: FAILED_KEY }).waitFor();
    expect(await list.getByRole("rowheader").count()).toBe(1);
    await list.getByText("no", { exact: true }).waitFor();
    const log = await list.getByRole("link", { name: "Log" }).getAttribute("href");
    expect(log).toMatch(/^\/runs\/run[^/]+\/tasks\/0$/);
    await page.goto(`${api.url}/lineage`);
    await page.getByRole("link", { name: /^report.*failed/ }).waitFor();
    await page.goto(assetUrl("report"));
    await page.getByRole("link", { name: /^\d+ never materialized, 1 failed$/ }).waitFor();
  });

  test("is failed on the map, with its message and a link to the log", async () => {
    const { page } = await browser.visit(assetUrl("report"));
    const map = await mapOf(page, "report");
    await page.getByRole("button", { name: "failed 1", exact: true }).waitFor();
    await map.focus();
    await page.keyboard.press("Home");
    for (let times = 0; times < 8; times++) await page.keyboard.press("ArrowRight");
    const tip = page.locator(".map-tip");
    await tip.getByText(FAILED_KEY).waitFor();
    await tip.locator("[data-state=FAILED]").waitFor();
    await tip.locator(".assets-tip-error").getByText("no", { exact: true }).waitFor();
    await page.keyboard.press("Enter");
    const panel = page.getByRole("region", { name: "Partition" });
    await panel.locator("[data-state=FAILED]").first().waitFor();
    await panel.getByRole("alert").getByText("no", { exact: true }).waitFor();
    await expectAccessible(page);
    await panel.getByRole("link", { name: "Log of the attempt" }).click();
    await page.waitForURL(/\/runs\/run[^/]+\/tasks\/0$/);
    await page.getByRole("heading", { name: /Log/ }).first().waitFor();
  });
});

describe("the lineage of assets", () => {
  test("leads along its boxes by keyboard, and shows what one asset has to do with", async () => {
    const { page } = await browser.visit(`${api.url}/assets`);
    await page.getByRole("link", { name: "Lineage", exact: true }).click();
    const graph = page.getByRole("region", { name: "Lineage of all assets" });
    await graph.getByRole("link", { name: /summary/ }).waitFor();
    expect(await graph.getByRole("link").count()).toBe(6);
    expect(await graph.locator("path.graph-line").count()).toBe(4);
    await graph.getByRole("link", { name: /sales\/orders.*last attempt failed/ }).waitFor();
    await page.getByLabel("Show").selectOption("tenants");
    const own = page.getByRole("region", { name: "Lineage of tenants" });
    await own.waitFor();
    expect(await own.getByRole("link").count()).toBe(2);
    await own.getByRole("link", { name: /summary/ }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "summary" }).waitFor();
  });

  test("of many assets shows how those in view stand, and says so", async () => {
    const many = await startApi();
    try {
      const upstream = (at: number) =>
        at < 5 ? [] : [{ asset_key: `a${at - 5}`, mapping: { type: "all" as const } }];
      const specs = Array.from({ length: 90 }, (_, at) => ({
        kind: "asset" as const,
        asset_key: `a${at}`,
        partitions: null,
        upstream: upstream(at),
      }));
      await many.client.call("publishDefinitions", { body: { specs } });
      const { page } = await browser.visit(`${many.url}/lineage`);
      const graph = page.getByRole("region", { name: "Lineage of all assets" });
      await graph.getByRole("link", { name: /^a0\b.*, never materialized/ }).waitFor();
      const note = page.getByText(
        /^The status of [0-9]+ of 90 assets is shown, of those in view\./,
      );
      await note.waitFor();
      const last = graph.getByRole("link", { name: /^a89\b/ });
      expect(await last.getAttribute("data-state")).toBeNull();
      await last.focus();
      await graph.getByRole("link", { name: /^a89\b.*, never materialized/ }).waitFor();
      await expectAccessible(page);
    } finally {
      await browser.endVisits();
      await many.close();
    }
  });

  test("can be made larger and smaller and be used by everybody", async () => {
    const { page } = await browser.visit(`${api.url}/lineage?asset=report`);
    const box = page.getByRole("link", { name: /report/ });
    const width = async () => (await box.boundingBox())?.width ?? 0;
    await box.waitFor();
    const before = await width();
    await page.getByRole("button", { name: "Smaller" }).click();
    expect(await width()).toBeLessThan(before);
    await page.getByRole("button", { name: "Larger" }).click();
    await page.getByRole("button", { name: "Larger" }).click();
    expect(await width()).toBeGreaterThan(before);
    await expectFitsEverybody(`${api.url}/lineage`, (fresh) =>
      fresh.getByRole("link", { name: /summary/ }).waitFor(),
    );
  });
});

describe("the page of an asset", () => {
  test("shows its partitions as a calendar, and one of them with what was tried", async () => {
    const { page } = await browser.visit(assetUrl("sales/orders"));
    await page.getByText("Orders as the shop wrote them, <b>one file</b> a day.").waitFor();
    const map = await mapOf(page, "sales/orders");
    await page.getByRole("link", { name: "8 never materialized" }).waitFor();
    await map.focus();
    await page.keyboard.press("Home");
    await page.keyboard.press("ArrowDown");
    await page.getByText("2025-06-03", { exact: true }).first().waitFor();
    for (let times = 0; times < 2; times++) await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    const panel = page.getByRole("region", { name: "Partition" });
    await panel.getByRole("heading", { name: "2025-06-05" }).waitFor();
    // What was told about the cell does not lie over what was opened.
    expect(await page.locator(".map-tip").count()).toBe(0);
    expect(new URL(page.url()).searchParams.get("partition")).toBe("2025-06-05");
    await panel.getByText("last attempt failed").waitFor();
    expect(await panel.getByRole("link", { name: /^run/ }).count()).toBe(2);
    const why = await panel.getByRole("link", { name: "Why" }).getAttribute("href");
    expect(why).toBe("/ledger/sales%2Forders%402025-06-05?view=why");
    await panel.getByRole("button", { name: "Close" }).click();
    await panel.waitFor({ state: "detached" });
  });

  test("starts a run of the partition that is looked at, and follows it without reload", async () => {
    const { page } = await browser.visit(assetUrl("sales/orders", "?partition=2025-06-28"));
    const panel = page.getByRole("region", { name: "Partition" });
    await panel.getByText("never materialized").first().waitFor();
    expect(await panel.getByRole("link", { name: "History" }).count()).toBe(0);
    await panel.getByRole("button", { name: "Materialize" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("for 2025-06-28").waitFor();
    await expectAccessible(page);
    await dialog.getByRole("button", { name: "Materialize" }).click();
    await dialog.waitFor({ state: "detached" });
    const { items } = await api.client.call("listRuns", {});
    expect(items[0]).toMatchObject({ asset_selection: ["sales/orders"], state: "PENDING" });
    await work(api.client, "SUCCEEDED");
    await panel.locator("[data-state=MATERIALIZED]").waitFor();
    await panel.getByRole("link", { name: "History" }).waitFor();
    await page.getByRole("link", { name: "7 never materialized" }).waitFor();
  });

  test("leads from days that were dragged over to a backfill of them", async () => {
    const { page } = await browser.visit(assetUrl("sales/orders"));
    const map = await mapOf(page, "sales/orders");
    const box = await map.boundingBox();
    const canvas = await map.locator("canvas").boundingBox();
    if (box === null || canvas === null) throw new Error("The map is not seen.");
    // Seven rows: the first day is a Monday. From Tuesday to Wednesday a week later.
    const size = canvas.height / 7;
    const place = (column: number, row: number) =>
      [box.x + size * (column + 0.5), box.y + size * (row + 0.5)] as const;
    await page.mouse.move(...place(0, 1));
    await page.mouse.down();
    await page.mouse.move(...place(1, 2), { steps: 4 });
    await page.mouse.up();
    await page.getByText("9 partitions chosen").waitFor();
    await page.getByText("2025-06-03 to 2025-06-11").waitFor();
    await expectAccessible(page);
    await page.getByRole("link", { name: "Backfill these" }).click();
    await page.waitForURL("**/backfills/new?**");
    expect(Object.fromEntries(new URL(page.url()).searchParams)).toEqual({
      asset: "sales/orders",
      start: "2025-06-03",
      end: "2025-06-11",
    });
  });

  test("chooses a rectangle of two dimensions by keyboard", async () => {
    const { page } = await browser.visit(assetUrl("report"));
    const map = await mapOf(page, "report");
    await map.focus();
    // Days lie along the page.
    await page.keyboard.press("Home");
    await page.keyboard.press("ArrowRight");
    await page.getByText("day=2025-06-03,region=eu").first().waitFor();
    await page.keyboard.press("Shift+ArrowRight");
    await page.keyboard.press("Shift+ArrowDown");
    await page.getByText("4 partitions chosen").waitFor();
    const link = page.getByRole("link", { name: "Backfill these" });
    const href = (await link.getAttribute("href")) ?? "";
    const chosen = new URL(href, api.url).searchParams;
    expect(JSON.parse(chosen.get("filter") ?? "")).toEqual({
      day: { start: "2025-06-03", end: "2025-06-04" },
      region: { start: "eu", end: "us west" },
    });
    await map.focus();
    await page.keyboard.press("Escape");
    await link.waitFor({ state: "detached" });
  });

  test("lists what is stale and why", async () => {
    const { page } = await browser.visit(assetUrl("report"));
    await page.getByRole("link", { name: "1 upstream changed" }).click();
    const table = page.getByRole("region", { name: "Partitions" });
    await table.getByRole("link", { name: "day=2025-06-03,region=eu" }).waitFor();
    expect(await table.getByRole("rowheader").count()).toBe(1);
    await page.getByLabel("Status").selectOption("MATERIALIZED");
    await table.getByRole("link", { name: "day=2025-06-04,region=us%20west" }).click();
    const panel = page.getByRole("region", { name: "Partition" });
    await panel.getByText("us west").waitFor();
    await panel.getByRole("link", { name: "Backfill" }).click();
    const keys = page.getByLabel("Partition keys, one per line");
    await keys.waitFor();
    expect(await keys.inputValue()).toBe("day=2025-06-04,region=us%20west");
  });

  test("adds keys that are named at run time", async () => {
    const { page } = await browser.visit(assetUrl("tenants"));
    await page.getByText("No partitions yet.").waitFor();
    await page.getByRole("button", { name: "Add keys" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Keys").fill("acme\nglobex\n");
    await dialog.getByRole("button", { name: "Add keys" }).click();
    await page.getByText("tenants has 2 keys, 2 of them new.").waitFor();
    await mapOf(page, "tenants");
    const params = { asset_key: "tenants" };
    const { items } = await api.client.call("listPartitionValues", { params });
    expect(items.map(({ value }) => value)).toEqual(["acme", "globex"]);
    const { items: events } = await api.client.call("listEvents", {
      query: { type: "PartitionKeysAdded" },
    });
    expect(events).toHaveLength(1);
  });

  test("says what is wrong with a partition that does not exist", async () => {
    const url = assetUrl("sales/orders", "?partition=2031-01-01");
    const { page } = await browser.visit(url, { allowed: [/422|400|404/] });
    await page.getByText("There is no partition").waitFor();
    await page.getByText("PARTITION_INVALID").waitFor();
  });

  test("can be used by everybody in every view", async () => {
    const panel = (page: Page) => page.getByRole("region", { name: "Partition" }).waitFor();
    await expectFitsEverybody(
      assetUrl("report", "?partition=day%3D2025-06-03%2Cregion%3Deu"),
      panel,
    );
    await expectFitsEverybody(assetUrl("summary"), panel);
    await expectFitsEverybody(assetUrl("report", "?view=lineage"), (page) =>
      page.getByRole("heading", { name: "Downstream" }).waitFor(),
    );
    await expectFitsEverybody(assetUrl("report", "?view=list"), (page) =>
      page.getByRole("region", { name: "Partitions" }).waitFor(),
    );
    await expectFitsEverybody(assetUrl("report", "?view=definition"), (page) =>
      page.getByRole("region", { name: "Definition of report" }).waitFor(),
    );
  });
});

describe("a map that can be read", () => {
  /** How a map is drawn: its cells, its labels, and which part of it is seen. */
  const drawn = async (page: Page, asset: string, rows: number) => {
    const map = await mapOf(page, asset);
    const sizes = await map.evaluate((box, count) => {
      const { offsetHeight, offsetWidth } = box.firstElementChild as HTMLElement;
      const isAtEnd = box.scrollLeft + box.clientWidth >= box.scrollWidth - 1;
      return { cell: offsetHeight / count, width: offsetWidth, box: box.clientWidth, isAtEnd };
    }, rows);
    return { ...sizes, labels: await page.locator(".map-axis-rows span").allTextContents() };
  };

  test("shows a hundred thousand hours across the page, the newest at first", async () => {
    const { page } = await browser.visit(assetUrl("clicks"));
    await page.getByRole("button", { name: "never materialized 100,056" }).waitFor();
    await page.locator(".map-axis-rows").getByText("23").waitFor();
    await expect.poll(async () => (await drawn(page, "clicks", 24)).isAtEnd).toBe(true);
    const { cell, width, box, labels } = await drawn(page, "clicks", 24);
    expect(cell).toBeGreaterThanOrEqual(10);
    expect(width).toBeGreaterThan(box);
    expect(labels).toEqual(Array.from({ length: 24 }, (_, hour) => String(hour).padStart(2, "0")));
    const dates = await page.locator(".map-axis-columns span").allTextContents();
    expect(dates.at(-1)).toMatch(/^2025-06-/);
  });

  test("cuts no label off at the edge of the box, wherever it is scrolled to", async () => {
    const { page } = await browser.visit(assetUrl("clicks"));
    await page.locator(".map-axis-rows").getByText("23").waitFor();
    await expect.poll(async () => (await drawn(page, "clicks", 24)).isAtEnd).toBe(true);
    const map = await mapOf(page, "clicks");
    const axis = page.locator(".map-axis-columns");
    const cutOff = () =>
      axis.evaluate((element) => {
        const box = element.getBoundingClientRect();
        const labels = [...element.children].map((label) => ({
          text: label.textContent,
          rectangle: label.getBoundingClientRect(),
        }));
        const isCut = ({ left, right }: DOMRect): boolean => left < box.left || right > box.right;
        return labels.filter(({ rectangle }) => isCut(rectangle)).map(({ text }) => text);
      });
    // A label for every sixth column: each of the six may be the last one that is seen.
    for (let columns = 0; columns < 6; columns++) {
      await map.evaluate((box) => box.scrollBy({ left: -12, behavior: "instant" }));
      await expect.poll(cutOff).toEqual([]);
      expect(await axis.locator("span").count()).toBeGreaterThan(3);
    }
  });

  test("shows every region by its name, large enough on a phone too", async () => {
    for (const width of [1_280, 390]) {
      const { page } = await browser.visit(assetUrl("report"), { width });
      await page.locator(".map-axis-rows").getByText("us west").waitFor();
      // Labels come a little later, and the map has less room then.
      await expect.poll(async () => (await drawn(page, "report", 3)).isAtEnd).toBe(true);
      const { cell, labels } = await drawn(page, "report", 3);
      expect(cell).toBeGreaterThanOrEqual(10);
      expect(labels).toEqual(["eu", "us west", "ü"]);
      await expectNoSidewaysScroll(page);
    }
  });

  test("cuts long names where they are alike, so that each row is told from the others", async () => {
    const keys = ["01", "02", "03"].map((n) => `warehouse-of-the-northern-region-${n}-europe`);
    const region = { type: "static" as const, keys };
    const partitions = { type: "multi" as const, dimensions: { day: days, region } };
    const specs = [{ kind: "asset" as const, asset_key: "warehouses", partitions }];
    await api.client.call("publishDefinitions", { body: { specs } });
    const { page } = await browser.visit(assetUrl("warehouses"), { width: 390 });
    await page.locator(".map-axis-rows").getByText("europe").first().waitFor();
    const { labels } = await drawn(page, "warehouses", 3);
    expect(labels).toEqual(["wareh…1-europe", "wareh…2-europe", "wareh…3-europe"]);
    await expectNoSidewaysScroll(page);
  });
});

describe("what is made again", () => {
  test("I44: counts as materialized, on the list, the asset's page and its map", async () => {
    const keys = ["day=2025-06-03,region=eu", "day=2025-06-27,region=eu"];
    await api.client.call("requestRun", { body: { assets: ["report"], partition_keys: keys } });
    const lease = { worker_id: "quiet", lease_id: "held", slots: 9, code_version: null };
    await api.client.call("claim", { body: { ...lease, assets: ["report"], wait_ms: 1_000 } });
    const words = "1 materialized, 1 being remade, 1 failed, 1 in progress of 84 partitions";
    const { page } = await browser.visit(`${api.url}/assets`);
    await page.getByRole("img", { name: words }).waitFor();
    await page.goto(assetUrl("report"));
    await page.getByRole("img", { name: words }).waitFor();
    await mapOf(page, "report");
    await page.getByRole("button", { name: /being remade.*1/ }).waitFor();
    await expectAccessible(page);
  });
});
