import type { Locator, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { PartInput } from "../../src/work/operations.ts";
import type { EventData } from "../../src/work/events.ts";
import { type Api, startApi } from "../end-to-end/api-server.ts";
import { tabTo } from "./keyboard.ts";
import { expectAccessible, expectNoSidewaysScroll, TestBrowser } from "./test-browser.ts";

// Goal: what the page previews is what is created, and what is created is what was filled in. Method:
// a real server without a worker, so that what is created stays as it is; each test has assets of its
// own, as those of others would overlap.

type Specs = PartInput<"publishDefinitions", "body">["specs"];

const DAYS = { type: "daily", start: "2025-01-01", end: "2025-03-01" } as const;
const REGIONS = { type: "static", keys: ["eu", "us", "asia"] } as const;
const DAYS_AND_REGIONS = { type: "multi", dimensions: { date: DAYS, region: REGIONS } } as const;
const TENANTS = { type: "dynamic", name: "tenants" } as const;
/** What a browser says by itself of an answer that is no success. */
const REFUSED = [/Failed to load resource: the server responded with a status of 40[0-9]/];

/** How long to wait for what is bound to come. */
const PATIENTLY = { timeout: 180_000 };
/** The address of a backfill. */
const CREATED = /\/backfills\/[0-9A-Z]{20,}$/;

const plain = (asset_key: string, partitions: object | null) => ({
  kind: "asset",
  asset_key,
  partitions,
});
const SPECS = [
  ...["ranged", "listed", "patterned", "linked", "overlapping", "keyed", "repeated", "wrong"].map(
    (name) => plain(name, DAYS),
  ),
  plain("hourly", { type: "hourly", start: "2025-01-01", end: "2025-02-01" }),
  plain("filtered", DAYS_AND_REGIONS),
  plain("filtered_clean", DAYS_AND_REGIONS),
  plain("regions", REGIONS),
  plain("tenants", TENANTS),
  plain("changing", { type: "dynamic", name: "changing" }),
  plain("whole", null),
  plain("stale", REGIONS),
  plain("left", REGIONS),
  plain("narrowed", REGIONS),
  plain("odd", { type: "static", keys: ["100%25", "%2F", "a b", "a+b&c=d"] }),
  {
    ...plain("numbers", { type: "integers", start: 0, end: 1_000, size: 100 }),
    labels: { grain: "number" },
  },
  plain("days", DAYS),
  {
    ...plain("months", { type: "monthly", start: "2025-01", end: "2025-03" }),
    upstream: [{ asset_key: "days", mapping: { type: "time_window" } }],
  },
];

let api: Api;
let browser: TestBrowser;

beforeAll(async () => {
  [api, browser] = await Promise.all([startApi(), TestBrowser.open()]);
  await api.client.call("publishDefinitions", { body: { specs: SPECS as Specs } });
  const keys = Array.from({ length: 30 }, (_, at) => `tenant-${at}`);
  await addKeys("tenants", keys);
  await addKeys("changing", ["a", "b"]);
});

afterEach(() => browser.endVisits());

afterAll(async () => {
  await browser.close();
  await api.close();
});

async function addKeys(asset_key: string, keys: string[]): Promise<void> {
  const body = { keys, request_id: crypto.randomUUID() };
  await api.client.call("addPartitionKeys", { params: { asset_key }, body });
}

async function open(query: string, options = {}): Promise<Page> {
  const { page } = await browser.visit(`${api.url}/backfills/new${query}`, {
    allowed: REFUSED,
    ...options,
  });
  await page.getByRole("heading", { level: 1, name: "New backfill" }).waitFor();
  return page;
}

const preview = (page: Page): Locator => page.getByRole("region", { name: "Preview" });

const previewSays = (page: Page, text: string): Promise<void> =>
  preview(page).getByText(text, { exact: true }).waitFor();

/** Creates what is previewed; answers the event of what was made. */
async function create(page: Page): Promise<EventData<"BackfillCreated">> {
  const button = page.getByRole("button", { name: /^(?:New backfill|\d+ new backfills)$/ });
  await button.and(page.locator("[aria-disabled=false]")).click();
  await page.waitForURL(CREATED);
  const entity = new URL(page.url()).pathname.split("/").at(-1) ?? "";
  const query = { entity, types: "BackfillCreated" };
  const { items } = await api.client.call("listEvents", { query });
  return items[0]?.data as unknown as EventData<"BackfillCreated">;
}

describe("each way to choose partitions", () => {
  test("a stretch of time, by a quick pick and by dates", async () => {
    const page = await open("");
    await page.getByLabel("Search assets").fill("rang");
    await page.getByRole("checkbox", { name: "ranged" }).check();
    await page.getByText("counted back from 2025-03-01").waitFor();
    await page.getByRole("button", { name: "Last month" }).click();
    await previewSays(page, "28 partitions in 3 chunks");
    expect(await page.getByLabel("First").inputValue()).toBe("2025-02-01");
    await page.getByLabel("Last, included").fill("2025-02-14");
    await page.getByLabel("Partition keys per chunk").fill("7");
    await previewSays(page, "14 partitions in 2 chunks");
    await preview(page).getByText("2025-02-01").waitFor();
    await preview(page).getByText("and 1 more").waitFor();
    await page.getByLabel("Order").selectOption("Last partition first");
    await preview(page).getByText("2025-02-08").waitFor();
    expect(await create(page)).toMatchObject({
      asset_selection: ["ranged"],
      partition_selector: { type: "range", start: "2025-02-01", end: "2025-02-14" },
      total_partitions: 14,
      total_chunks: 2,
      chunk_size: 7,
      order: "descending",
    });
  });

  test("hours, by the moment that an input for it shows", async () => {
    const page = await open("?asset=hourly");
    await page.getByRole("button", { name: "Last 24 hours" }).click();
    await previewSays(page, "24 partitions in 3 chunks");
    await page.getByLabel("First").fill("2025-01-31T20:30");
    await previewSays(page, "4 partitions in 1 chunk");
    const { partition_selector } = await create(page);
    expect(partition_selector).toEqual({
      type: "range",
      start: "2025-01-31T20:00Z",
      end: "2025-01-31T23:00Z",
    });
  });

  test("a filter in each dimension, of two assets in one backfill", async () => {
    const page = await open("");
    await page.getByRole("checkbox", { name: "filtered", exact: true }).check();
    const other = page.getByRole("checkbox", { name: "filtered_clean" });
    await expect.poll(() => other.evaluate(descriptionOf), PATIENTLY).toMatch(/same backfill/);
    await other.check();
    const region = page.getByRole("group", { name: "region", exact: true }).first();
    await region.getByRole("button", { name: "None" }).click();
    await preview(page).getByText("Choose values of region.").first().waitFor();
    await region.getByRole("checkbox", { name: "eu" }).check();
    await page.getByRole("group", { name: "Quick picks of date" }).getByText("Last month").click();
    await previewSays(page, "56 partitions (28 keys × 2 assets) in 3 chunks");
    await preview(page).getByText("date=2025-02-01,region=eu").waitFor();
    expect(await create(page)).toMatchObject({
      asset_selection: ["filtered", "filtered_clean"],
      partition_selector: {
        type: "filter",
        dimensions: { date: { start: "2025-02-01", end: "2025-02-28" }, region: ["eu"] },
      },
      total_pairs: 56,
    });
  });

  test("a list of keys, where one that is none is said at its field and left out", async () => {
    const page = await open("?asset=listed");
    await page.getByRole("radio", { name: "List of keys" }).check();
    const keys = page.getByLabel("Partition keys, one per line");
    await keys.fill('["2025-01-05", "2025-01-32"]');
    expect(await keys.inputValue()).toBe("2025-01-05\n2025-01-32");
    await expect
      .poll(() => keys.evaluate(descriptionOf), PATIENTLY)
      .toMatch(/There is no partition "2025-01-32": the 59 keys go from 2025-01-01 to 2025-02-28/);
    await page.getByRole("button", { name: "Remove 2025-01-32" }).click();
    await previewSays(page, "1 partition in 1 chunk");
    const { partition_selector } = await create(page);
    expect(partition_selector).toEqual({ type: "explicit", partition_keys: ["2025-01-05"] });
  });

  test("values that are ticked, found among many, and a pattern", async () => {
    const page = await open("?asset=tenants");
    await page.getByRole("button", { name: "None of partitions" }).click();
    await page.getByLabel("Search partitions").fill("nant-7");
    await page.getByRole("checkbox", { name: "tenant-7" }).check();
    await previewSays(page, "1 partition in 1 chunk");
    await page.getByLabel("How to choose partitions").selectOption("By a pattern");
    await page.getByLabel("Pattern for partitions").fill("tenant-1?");
    await previewSays(page, "10 partitions in 1 chunk");
    const { partition_selector } = await create(page);
    expect(partition_selector).toEqual({ type: "filter", dimensions: { partition: "tenant-1?" } });
  });

  test("assets with all that is made from them, and those that a label finds", async () => {
    const page = await open("?asset=days&start=2025-01-01&end=2025-01-31");
    await page.getByRole("button", { name: "Add downstream (1)" }).click();
    await page.getByRole("button", { name: "2 new backfills" }).waitFor();
    expect(await page.getByRole("checkbox", { name: "months" }).isChecked()).toBe(true);
    await page.getByLabel("Search assets").fill("grain=number");
    await page.getByRole("button", { name: "Add all found (1)" }).click();
    expect(await page.getByRole("checkbox", { name: "numbers" }).isChecked()).toBe(true);
  });

  test("everything, also of an asset that has no partitions, and a range of integers", async () => {
    const page = await open("?asset=whole");
    await page.getByText("whole has no partitions").waitFor();
    await previewSays(page, "1 partition in 1 chunk");
    expect((await create(page)).partition_selector).toEqual({ type: "all" });

    await page.goto(`${api.url}/backfills/new?asset=numbers`);
    await page.getByLabel("First").fill("200-299");
    await page.getByLabel("Last, included").fill("900-999");
    await previewSays(page, "8 partitions in 1 chunk");
    await page.getByRole("radio", { name: "Everything" }).check();
    await previewSays(page, "10 partitions in 1 chunk");
    expect((await create(page)).partition_selector).toEqual({ type: "all" });
  });

  test("what is stale, with the reasons it is for", async () => {
    const page = await open("?asset=stale");
    await page.getByRole("radio", { name: "Stale" }).check();
    await page.getByRole("checkbox", { name: "code changed" }).check();
    await page.getByText("Nothing of stale is stale").first().waitFor();
    await page.getByRole("checkbox", { name: "never materialized" }).check();
    await page.getByLabel("At most").fill("2");
    await previewSays(page, "2 partitions in 1 chunk");
    await preview(page).getByText("never materialized (2)").waitFor();
    expect(await create(page)).toMatchObject({
      partition_selector: {
        type: "stale",
        reasons: ["NEVER_MATERIALIZED", "CODE_CHANGED"],
        limit: 2,
      },
      stale_reasons: { NEVER_MATERIALIZED: 2 },
    });
  });

  test("only what is missing of a selection, in a window, with when it starts", async () => {
    const selector = { type: "explicit" as const, partition_keys: ["eu", "us"] };
    const params = { asset_key: "narrowed" };
    await api.client.call("reportPartitions", { params, body: { items: [{ selector }] } });
    const page = await open("?asset=narrowed&all=1");
    await previewSays(page, "3 partitions in 1 chunk");
    await page.getByLabel("Only").selectOption("missing");
    await previewSays(page, "1 partition in 1 chunk");
    await preview(page).getByText("3 partitions, of which 2 left out").waitFor();
    await page.getByText("More options").click();
    await page.getByLabel("Daily window").fill("nights");
    await page.getByText("expected two times of the day").waitFor();
    const [soon, later] = [2, 3].map((hours) => new Date(Date.now() + hours * 3_600_000));
    const window = [soon, later].map((time) => time?.toISOString().slice(11, 16)).join("-");
    await page.getByLabel("Daily window").fill(window);
    await preview(page).getByText("Starts", { exact: true }).waitFor();
    expect(await create(page)).toMatchObject({
      partition_selector: { type: "all", only: "missing" },
      total_partitions: 1,
      timing: { window: `${window} UTC`, is_open: false },
    });
    await page.getByText("starts", { exact: true }).waitFor();
    await page.getByText("all partitions, only missing").first().waitFor();
  });

  test("what an earlier backfill left", async () => {
    const body = {
      assets: ["left"],
      selector: { type: "all" as const },
      client_request_id: "left",
    };
    const { backfill_id } = await api.client.call("createBackfill", { body });
    const cancel = { params: { backfill_id }, body: { now: true } };
    await api.client.call("cancelBackfill", cancel);
    const state = () => api.client.call("getBackfill", { params: { backfill_id } });
    await expect.poll(async () => (await state()).state, PATIENTLY).toBe("CANCELLED");
    const page = await open("?asset=left");
    await page.getByRole("radio", { name: "Remaining from a backfill" }).check();
    const option = page.getByRole("option", { name: backfill_id });
    await option.waitFor({ state: "attached" });
    await page.getByLabel("Earlier backfill").selectOption(backfill_id);
    await previewSays(page, "3 partitions in 1 chunk");
    const created = await create(page);
    expect(created.partition_selector).toEqual({ type: "missing", backfill_id });
    expect(created.parent_backfill_id).toBe(backfill_id);
  });
});

/** What a control is described by, as those who listen hear it. */
function descriptionOf(element: Element): string {
  const ids = element.getAttribute("aria-describedby")?.split(" ") ?? [];
  return ids.map((id) => document.getElementById(id)?.textContent ?? "").join(" ");
}

describe("the preview", () => {
  test("tells of several backfills when the assets are cut in different ways", async () => {
    const page = await open("?asset=days&asset=months&start=2025-02-01&end=2025-02-28");
    await previewSays(page, "29 partitions in 4 chunks");
    await preview(page).getByText("2 backfills, one after the other").waitFor();
    await preview(page).getByText("months: 1 partition in 1 chunk").waitFor();
    const { backfill_id } = await create(page);
    const { items } = await api.client.call("listBackfills", { query: { limit: 1 } });
    expect(items[0]).toMatchObject({
      asset_selection: ["months"],
      after_backfill_id: backfill_id,
      total_partitions: 1,
    });
  });

  test("links to what it overlaps with, as soon as that is there, and waits to be allowed", async () => {
    const page = await open("?asset=overlapping&start=2025-01-01&end=2025-01-02");
    await previewSays(page, "2 partitions in 1 chunk");
    const body = {
      assets: ["overlapping"],
      selector: { type: "all" as const },
      client_request_id: "overlapping",
    };
    const { backfill_id } = await api.client.call("createBackfill", { body });
    const link = preview(page).getByRole("link");
    await link.waitFor();
    expect(await link.getAttribute("href")).toBe(`/backfills/${backfill_id}`);
    const button = page.getByRole("button", { name: "New backfill" });
    expect(await button.getAttribute("aria-disabled")).toBe("true");
    await page.getByRole("checkbox", { name: "Allow overlap" }).check();
    expect((await create(page)).total_partitions).toBe(2);
  });

  test("shows a plan that has changed meanwhile again instead of making it", async () => {
    const page = await open("?asset=changing&all=1");
    await previewSays(page, "2 partitions in 1 chunk");
    let isFirst = true;
    await page.route("**/api/v1/orchestration/backfills", async (route) => {
      if (isFirst) await addKeys("changing", ["c"]);
      isFirst = false;
      await route.continue();
    });
    await page.getByRole("button", { name: "New backfill" }).click();
    await page.getByText("Nothing was created: the plan has changed since you saw it").waitFor();
    await previewSays(page, "3 partitions in 1 chunk");
    expect((await create(page)).total_partitions).toBe(3);
  });

  test("makes one backfill of a double click and of a try after a lost answer", async () => {
    const page = await open("?asset=repeated&start=2025-01-01&end=2025-01-02", {
      allowed: [/Failed to load resource/],
    });
    await previewSays(page, "2 partitions in 1 chunk");
    const sent: string[] = [];
    await page.route("**/api/v1/orchestration/backfills", async (route) => {
      sent.push(route.request().postDataJSON().client_request_id as string);
      const response = await route.fetch();
      if (sent.length === 1) await route.abort();
      else await route.fulfill({ response });
    });
    await page.getByRole("button", { name: "New backfill" }).dblclick();
    await page.getByText("The server does not respond").waitFor();
    await page.getByRole("button", { name: "Try again" }).click();
    await page.waitForURL(CREATED);
    expect(sent).toEqual([sent[0], sent[0]]);
    const { items } = await api.client.call("listBackfills", { query: { limit: 200 } });
    const made = items.filter(({ asset_selection }) => asset_selection.includes("repeated"));
    expect(made.map(({ backfill_id }) => `/backfills/${backfill_id}`)).toEqual([
      new URL(page.url()).pathname,
    ]);
  });
});

describe("the form", () => {
  test("says at its field what the API refuses and what is no number, list or JSON", async () => {
    const page = await open("?asset=wrong&start=2025-01-01&end=2025-04-01&chunk_size=0");
    const says = async (label: string, pattern: RegExp): Promise<void> => {
      await expect
        .poll(() => page.getByLabel(label).evaluate(descriptionOf), PATIENTLY)
        .toMatch(pattern);
    };
    await says("Partition keys per chunk", /must be at least 1, not 0/);
    await page.getByLabel("Partition keys per chunk").fill("5");
    await says("Last, included", /There is no partition "2025-04-01"/);
    await page.getByLabel("Last, included").fill("2025-01-05");
    await previewSays(page, "5 partitions in 1 chunk");
    await page.getByText("More options").click();
    await page.getByLabel("Priority").fill("high");
    await says("Priority", /must be a number, not "high"/);
    await page.getByLabel("Labels, one per line").fill("team");
    await says("Labels, one per line", /must be lines such as team=sales/);
    await page.getByLabel("Configuration (JSON)").fill("{");
    await says("Configuration (JSON)", /must be JSON/);
    const button = page.getByRole("button", { name: "New backfill" });
    expect(await button.getAttribute("aria-disabled")).toBe("true");
    await expectAccessible(page);
    await page.getByLabel("Priority").fill("7");
    await page.getByLabel("Labels, one per line").fill("team=sales");
    await page.getByLabel("Configuration (JSON)").fill('{"dry": true}');
    await page.getByLabel("Pause after failures").fill("5%");
    await page.getByLabel("Attempts per task").fill("2");
    await page.getByLabel("Start after backfill").fill("no-such");
    await button.and(page.locator("[aria-disabled=false]")).click();
    await says("Start after backfill", /There is no backfill/);
    await page.getByLabel("Start after backfill").fill("");
    expect(await create(page)).toMatchObject({
      priority: 7,
      labels: { team: "sales" },
      config: { dry: true },
      failure_limit: { percent: 5 },
      retry: { max_attempts: 2, delay_ms: 1_000 },
    });
  });

  test("says what to do where an asset is not there", async () => {
    const page = await open("?asset=no_such_asset&all=1");
    await preview(page).getByText("Correct the marked fields first").first().waitFor();
    await page.getByText("There is no asset").waitFor();
    await page.getByRole("checkbox", { name: "no_such_asset" }).click();
    await preview(page).getByText("Choose what to fill").first().waitFor();
  });

  test("stands in the address, which opens the same plan elsewhere", async () => {
    const page = await open("?asset=linked");
    await page.getByRole("button", { name: "Last 7 days" }).click();
    await page.getByLabel("Concurrent chunks").fill("9");
    await page.getByText("More options").click();
    await page.getByLabel("Labels, one per line").fill("team=sales");
    await page.waitForURL(/labels=/);
    const { search } = new URL(page.url());
    expect(Object.fromEntries(new URLSearchParams(search))).toEqual({
      asset: "linked",
      start: "2025-02-22",
      end: "2025-02-28",
      concurrency: "9",
      labels: "team=sales",
    });
    const other = await open(search);
    await previewSays(other, "7 partitions in 1 chunk");
    expect(await other.getByLabel("Concurrent chunks").inputValue()).toBe("9");
    expect(await other.getByLabel("Labels, one per line").inputValue()).toBe("team=sales");
    expect(new URL(other.url()).search).toBe(search);
  });

  test("takes keys from its address as they are, and writes them there while they are typed", async () => {
    const given = JSON.stringify(["100%25", "%2F"]);
    const page = await open(`?${new URLSearchParams({ asset: "odd", keys: given }).toString()}`);
    const keys = page.getByLabel("Partition keys, one per line");
    await keys.and(page.getByText("100%25\n%2F", { exact: true })).waitFor();
    await keys.press("Control+End");
    await page.keyboard.type("\na b\n");
    await page.waitForURL(/a\+b/);
    await previewSays(page, "3 partitions in 1 chunk");
    await page.keyboard.type("a+b&c=d");
    await previewSays(page, "4 partitions in 1 chunk");
    const { partition_selector } = await create(page);
    expect(partition_selector).toEqual({
      type: "explicit",
      partition_keys: ["100%25", "%2F", "a b", "a+b&c=d"],
    });
  });

  test("works by the keyboard alone", async () => {
    const page = await open("");
    await page.getByLabel("Search assets").focus();
    await page.keyboard.type("keyed");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Space");
    await page.getByRole("radio", { name: "Time range" }).waitFor();
    await tabTo(page, page.getByRole("radio", { name: "Time range" }));
    for (const way of ["List of keys", "Pattern", "Everything"]) {
      await page.keyboard.press("ArrowRight");
      expect(await page.getByRole("radio", { name: way }).isChecked()).toBe(true);
    }
    await previewSays(page, "59 partitions in 6 chunks");
    await tabTo(page, page.getByRole("button", { name: "New backfill" }));
    await page.keyboard.press("Enter");
    await page.waitForURL(CREATED);
  });

  test("can be used by everyone, in the dark and on a phone", async () => {
    const filter = JSON.stringify({
      date: { start: "2025-01-01", end: "2025-01-31" },
      region: { start: "eu", end: "us" },
    });
    const query = `?asset=filtered&filter=${encodeURIComponent(filter)}&labels=a%3Db`;
    const dark = await open(query, { theme: "dark" });
    await preview(dark).getByText("62 partitions").waitFor();
    const isTicked = (name: string) =>
      dark.getByRole("checkbox", { name, exact: true }).isChecked();
    expect([await isTicked("eu"), await isTicked("us"), await isTicked("asia")]).toEqual([
      true,
      true,
      false,
    ]);
    await expectAccessible(dark);
    const phone = await open(query, { width: 390, height: 800 });
    await preview(phone).getByText("62 partitions").waitFor();
    await expectNoSidewaysScroll(phone);
    await expectAccessible(phone);
  });
});
