import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import {
  type Api,
  ORDERS,
  publish,
  REPORT,
  startApi,
  TENANTS,
  work,
} from "../end-to-end/api-server.ts";
import { pressByKeyboard, tabTo, typeInto } from "./keyboard.ts";
import { expectAccessible, expectNoSidewaysScroll, TestBrowser } from "./test-browser.ts";

const HOSTILE = `<img src=x onerror="document.title='owned'">\u202Egnp.exe`;
const LONG = "x".repeat(400);

/** An asset with so many partitions that a backfill of them makes thousands of events. */
const HOURS = {
  kind: "asset",
  asset_key: "hours",
  partitions: { type: "hourly", start: "2025-01-01", end: "2025-02-01" },
} as const;

/** As long as one waits for what a page shows. */
const PATIENCE = { timeout: 180_000 };

let api: Api;
let browser: TestBrowser;
let backfillId: string;
let failedRun: string;
let tickId: string;

beforeAll(async () => {
  [api, browser] = await Promise.all([startApi(), TestBrowser.open()]);
  const { client } = api;
  await publish(client);
  await client.call("publishDefinitions", { body: { specs: [ORDERS, REPORT, TENANTS, HOURS] } });
  const made = await client.call("createBackfill", {
    body: { assets: ["sales/orders"], selector: { type: "all" }, chunk_size: 2 },
  });
  backfillId = made.backfill_id;
  await work(client, "FAILED");
  const runs = await client.call("listRuns", { query: { status: "FAILED" } });
  failedRun = runs.items[0]?.run_id ?? "";
  const schedule = await client.call("createSchedule", {
    body: { name: "daily", cron: "0 3 * * *", asset_selection: ["report"] },
  });
  const params = { schedule_id: schedule.schedule_id };
  await client.call("triggerSchedule", { params, body: {} });
  const ticks = await client.call("listTicks", { params });
  tickId = ticks.items[0]?.tick_id ?? "";
});

afterEach(() => browser.endVisits());

afterAll(async () => {
  await browser.close();
  await api.close();
});

function addKeys(...keys: string[]) {
  return api.client.call("addPartitionKeys", { params: { asset_key: "tenants" }, body: { keys } });
}

async function head(): Promise<number> {
  return (await api.client.call("listEvents", { query: { limit: 1 } })).pos;
}

function rows(page: Page) {
  return page.getByRole("region", { name: "Events" }).locator("tbody tr");
}

async function positions(page: Page): Promise<number[]> {
  return (await rows(page).locator("th").allTextContents()).map(Number);
}

function steps(page: Page) {
  return page.getByRole("list", { name: /Events that led here/ }).locator("> li");
}

describe("the ledger", () => {
  test("shows events newest first in words, with links to what they name, and follows them", async () => {
    const { page } = await browser.visit(`${api.url}/ledger`);
    await page.getByText("Live: new events appear on top").waitFor();
    const newest = String(await head());
    await rows(page).first().getByRole("link", { name: newest, exact: true }).waitFor();
    await addKeys("acme", "bmce");
    const added = rows(page).first();
    await added.getByText("2 keys added to tenants: acme, bmce.").waitFor();
    await added.getByText("PartitionKeysAdded").waitFor();
    await expectAccessible(page);
    await pressByKeyboard(page, page.getByRole("button", { name: "Pause" }));
    await page.getByText(/^Paused/).waitFor();
    await addKeys("cmce");
    const last = String(await head());
    expect(await page.getByRole("link", { name: last, exact: true }).count()).toBe(0);
    await pressByKeyboard(page, page.getByRole("button", { name: "Live" }));
    await rows(page).first().getByRole("link", { name: last, exact: true }).waitFor();
    await page.getByRole("link", { name: "sales/orders", exact: true }).first().waitFor();
  });

  test("is narrowed by type, entity and position, which stand in the address", async () => {
    const { page } = await browser.visit(`${api.url}/ledger`, { theme: "dark" });
    await page.getByText("Types: all").waitFor();
    await pressByKeyboard(page, page.getByText("Types: all"));
    await tabTo(page, page.getByLabel("BackfillCreated"));
    await page.keyboard.press("Space");
    await expect.poll(() => rows(page).count(), PATIENCE).toBe(1);
    await rows(page)
      .getByText(/created a backfill of sales\/orders: 10 partitions in 5 chunks/)
      .waitFor();
    await tabTo(page, page.getByLabel("BackfillChunkPlanned"));
    await page.keyboard.press("Space");
    await expect.poll(() => rows(page).count(), PATIENCE).toBeGreaterThan(1);
    expect(new URL(page.url()).searchParams.get("types")).toBe(
      "BackfillCreated,BackfillChunkPlanned",
    );
    await expectAccessible(page);
    await page.goto(`${api.url}/ledger?types=TasksFinished&entity=${failedRun}`);
    await expect.poll(() => rows(page).count(), PATIENCE).toBe(1);
    await rows(page)
      .getByText(/2 tasks failed: sales\/orders 2025-01-0\d.*, attempt 1, no/)
      .waitFor();
    await typeInto(page, page.getByLabel("Before position"), "1");
    await page.keyboard.press("Enter");
    await page.getByText("No event matches these filters.").waitFor();
    await page.goto(`${api.url}/ledger?before=3`);
    await expect.poll(() => rows(page).count(), PATIENCE).toBe(2);
    await page.getByRole("link", { name: "To the newest" }).click();
    await page.getByText("Live: new events appear on top").waitFor();
  });

  test("says what is wrong with a filter", async () => {
    const { page } = await browser.visit(`${api.url}/ledger?entity=nobody`, { allowed: [/404/] });
    await page
      .getByRole("alert")
      .getByText(/nobody/)
      .waitFor();
    await page.getByRole("alert").getByRole("button", { name: "Try again" }).waitFor();
  });

  test("goes to any id or position from its box", async () => {
    const { page } = await browser.visit(`${api.url}/ledger`);
    await page.getByText("Live: new events").first().waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type(failedRun);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: failedRun }).waitFor();
    await page.getByRole("link", { name: "Show the run" }).waitFor();
    await page.goto(`${api.url}/ledger`);
    await typeInto(page, page.getByLabel("Go to"), "1");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "DefinitionsPublished at 1" }).waitFor();
  });

  test("shows an event whole: who, its data as text, its hashes and its key", async () => {
    const query = { entity: failedRun, types: "RunRequested" };
    const { items } = await api.client.call("listEvents", { query });
    const [event] = items;
    if (event === undefined) throw new Error("The run was asked for.");
    const { page } = await browser.visit(`${api.url}/ledger/${event.pos}`);
    await page.getByText(event.hash).waitFor();
    await page.getByText(event.prev_hash).waitFor();
    await page.getByText(event.idempotency_key, { exact: true }).waitFor();
    const data = await page.getByRole("region", { name: "Data of the event" }).textContent();
    expect(JSON.parse(data ?? "")).toEqual(event.data);
    await expectAccessible(page);
    await page.getByRole("link", { name: "Next" }).click();
    await page.getByRole("heading", { level: 1, name: `at ${event.pos + 1}` }).waitFor();
    await page.goto(`${api.url}/ledger/999999`);
    await page.getByText("There is no event at position 999999.").waitFor();
  });
});

describe("how something came to where it stands", () => {
  test("is told of a chunk, from the wish for the backfill to the error, oldest first", async () => {
    const { page } = await browser.visit(
      `${api.url}/ledger/${encodeURIComponent(`${backfillId}:0`)}?view=why`,
    );
    await steps(page)
      .first()
      .getByText(/created a backfill of sales\/orders/)
      .waitFor();
    await steps(page).getByText("Chunk 0 was planned: 2 partitions.").waitFor();
    await steps(page)
      .getByText(/A run of sales\/orders.* was triggered by chunk 0 of a backfill/)
      .waitFor();
    await steps(page).getByText("Worker worker took 2 tasks, attempt 1.").waitFor();
    await steps(page)
      .getByText(/2 tasks failed: .* no/)
      .waitFor();
    await steps(page).last().getByText("The run failed: 2 failed.").waitFor();
    await expectAccessible(page);
    await pressByKeyboard(page, steps(page).first().getByText("Data", { exact: false }).first());
    await page.getByRole("region", { name: /^Data of event/ }).waitFor();
    await page.getByRole("link", { name: "Show the chunk" }).waitFor();
    await page.getByRole("link", { name: "History" }).click();
    await page.getByRole("region", { name: "Events" }).waitFor();
    await expectAccessible(page);
  });

  test("is told of a tick", async () => {
    const { page } = await browser.visit(
      `${api.url}/ledger/${encodeURIComponent(tickId)}?view=why`,
      { theme: "dark" },
    );
    await steps(page)
      .getByText(/The manual tick of .* triggered a run of report/)
      .waitFor();
    await steps(page).getByText("A run of report was triggered by a tick of a schedule.").waitFor();
    await expectAccessible(page);
  });

  test("is told of a partition, and grows while one looks", async () => {
    const partition = encodeURIComponent("sales/orders@2025-01-01");
    const { page } = await browser.visit(`${api.url}/ledger/${partition}?view=why`);
    await steps(page).last().getByText("The run failed: 2 failed.").waitFor();
    // Both tasks ended in one event.
    await steps(page)
      .getByText(/^1 task failed: sales\/orders 2025-01-01, attempt 1/)
      .waitFor();
    await api.client.call("requestRun", {
      body: { assets: ["sales/orders"], partition_keys: ["2025-01-01"] },
    });
    await work(api.client, "SUCCEEDED");
    await steps(page).last().getByText("The run succeeded: 1 succeeded.").waitFor();
    await page.getByRole("link", { name: "History" }).click();
    await page.getByText("The run succeeded: 1 succeeded.").waitFor();
  });

  test("is not told of what nobody knows", async () => {
    const { page } = await browser.visit(`${api.url}/ledger/nobody?view=why`, { allowed: [/404/] });
    await page
      .getByRole("alert")
      .getByText(/Nothing is known of "nobody"/)
      .waitFor();
  });
});

describe("what others wrote into the ledger", () => {
  test("is shown as text and breaks no layout, on a phone too", async () => {
    const label = `${HOSTILE} ${LONG}`.slice(0, 200);
    await addKeys(`${HOSTILE} ${LONG}`);
    await api.client.call("requestRun", {
      body: {
        assets: ["report"],
        labels: { note: label },
        config: { text: HOSTILE + "y".repeat(4_000) },
      },
    });
    const { page } = await browser.visit(`${api.url}/ledger`, {
      width: 390,
      height: 800,
      allowed: [/40[04]/],
    });
    await page.getByText(/1 key added to tenants: <img src=x onerror=/).waitFor();
    await expectNoSidewaysScroll(page);
    await expectAccessible(page);
    await rows(page).first().getByRole("link").first().click();
    await page
      .getByRole("region", { name: "Data of the event" })
      .getByText(/\\u202e/)
      .waitFor();
    expect(await page.locator("main img").count()).toBe(0);
    expect(await page.title()).not.toContain("owned");
    await expectNoSidewaysScroll(page);
    await page.goto(`${api.url}/ledger/${encodeURIComponent(backfillId)}?view=why`);
    await steps(page).first().waitFor();
    await expectNoSidewaysScroll(page);
    const hostile = encodeURIComponent(`tenants@${HOSTILE}`);
    await page.goto(`${api.url}/ledger/${hostile}`);
    await page.getByRole("heading", { level: 1, name: /<img src=x/ }).waitFor();
    await expectNoSidewaysScroll(page);
  });
});

describe("a burst of events", () => {
  test("shows the newest on top, at most 500 without a hole, and older ones on demand", async () => {
    const { page } = await browser.visit(`${api.url}/ledger`);
    await page.getByText("Live: new events appear on top").waitFor();
    const before = await head();
    await page.evaluate(() => {
      const watch = globalThis as unknown as { drawn: number };
      watch.drawn = 0;
      const body = document.querySelector("tbody");
      if (body === null) throw new Error("There is a table.");
      new MutationObserver(() => watch.drawn++).observe(body, { childList: true });
    });
    await api.client.call("createBackfill", {
      body: {
        assets: ["hours"],
        selector: { type: "all" },
        chunk_size: 1,
        max_concurrent_runs: 1_000,
      },
    });
    await expect.poll(head).toBeGreaterThan(before + 1_400);
    const newest = String(await head());
    await page.getByRole("link", { name: newest, exact: true }).waitFor();
    await rows(page).first().getByRole("link", { name: newest, exact: true }).waitFor();
    const shown = await positions(page);
    expect(shown.length).toBeLessThanOrEqual(500);
    // What is shown is the end of the ledger, without a hole.
    expect(shown).toEqual(shown.map((_, index) => Number(newest) - index));
    // They are drawn many at a time, however fast they come.
    const drawn = await page.evaluate(() => (globalThis as unknown as { drawn: number }).drawn);
    expect(drawn).toBeLessThan((Number(newest) - before) / 4);
    // What is older is found below, and looking back ends following.
    await page.getByRole("button", { name: "Show older" }).click();
    await page.getByText(/^Paused/).waitFor();
    await expect.poll(() => rows(page).count(), PATIENCE).toBeGreaterThan(shown.length);
    const longer = await positions(page);
    expect(longer).toEqual(longer.map((_, index) => Number(newest) - index));
  });

  test("has no hole either when one follows again before older ones came", async () => {
    const { page } = await browser.visit(`${api.url}/ledger`);
    await page.getByText("Live: new events appear on top").waitFor();
    let release = (): void => undefined;
    const held = new Promise<void>((resolve) => (release = resolve));
    const { promise: answered, resolve: sayAnswered } = Promise.withResolvers<void>();
    await page.route(/[?&]before=/, async (route) => {
      await held;
      await route.continue().catch(() => undefined);
      sayAnswered();
    });
    await page.getByRole("button", { name: "Show older" }).click();
    await page.getByText(/^Paused/).waitFor();
    await api.client.call("createBackfill", {
      body: { assets: ["hours"], selector: { type: "all" }, chunk_size: 1, allow_overlap: true },
    });
    await expect.poll(head, PATIENCE).toBeGreaterThan(Math.max(...(await positions(page))) + 3);
    await page.getByRole("button", { name: "Live" }).click();
    await page.getByText("Live: new events appear on top").waitFor();
    release();
    await answered;
    await page.getByRole("button", { name: "Show older" }).waitFor();
    const shown = await positions(page);
    expect(shown).toEqual(shown.map((_, index) => (shown[0] ?? 0) - index));
  });
});
