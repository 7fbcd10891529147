import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { ALL_ORDERS, type Api, publish, startApi, work } from "../end-to-end/api-server.ts";
import { expectAccessible, expectNoSidewaysScroll, TestBrowser } from "./test-browser.ts";

const HOUR_MS = 3_600_000;

let api: Api;
let browser: TestBrowser;
let backfillId: string;

/** A workspace where something of every kind is wrong, and stays so: nothing happens by itself. */
beforeAll(async () => {
  [api, browser] = await Promise.all([startApi({ actsByItself: false }), TestBrowser.open()]);
});

afterEach(() => browser.endVisits());

afterAll(async () => {
  await browser.close();
  await api.close();
});

const group = (page: Page, title: string) => page.getByRole("region", { name: title });
const item = (page: Page, title: string, name: string) =>
  group(page, title).getByRole("listitem").filter({ hasText: name });

describe("the overview of a new workspace", () => {
  test("says what to do where nothing is defined, and shows what was defined at once", async () => {
    const { page } = await browser.visit(api.url);
    await page.getByText("Nothing is defined yet.").waitFor();
    await page.getByText("pawl deploy").waitFor();
    await expectAccessible(page);
    await page.getByText("Live", { exact: true }).waitFor();
    await publish(api.client);
    await page.getByText("No backfills yet.").waitFor();
    await item(page, "Stale 2", "sales/orders").waitFor();
    await expectAccessible(page);
    const empty = page.getByText("Start with a New backfill");
    await empty.getByRole("link", { name: "New backfill" }).click();
    expect(new URL(page.url()).pathname).toBe("/backfills/new");
  });
});

describe("the overview of a workspace at work", () => {
  beforeAll(async () => {
    const { client } = api;
    const made = await client.call("createBackfill", { body: ALL_ORDERS });
    backfillId = made.backfill_id;
    while ((await work(client, "FAILED", null, 50)) > 0);
    const hourly = { cron: "0 * * * *", asset_selection: ["report"] };
    await client.call("createSchedule", { body: { ...hourly, name: "late_one" } });
    const paused = { ...hourly, name: "paused_one" };
    const { schedule_id } = await client.call("createSchedule", { body: paused });
    const reason = "The source is being rebuilt";
    await client.call("pauseSchedule", { params: { schedule_id }, body: { reason } });
    await client.call("addPartitionKeys", {
      params: { asset_key: "tenants" },
      body: { keys: ["a", "b"], request_id: "keys" },
    });
    const run = { assets: ["tenants"], run_key: "acme" };
    await client.call("requestRun", { body: { ...run, partition_keys: ["a"], request_id: "1" } });
    await client.call("requestRun", {
      body: { ...run, partition_keys: ["b"], on_conflict: "existing" },
    });
    const { ws } = api.engines[0].workspace;
    const at = Math.floor(Date.now() / 10_000) * 10;
    await api.store.setSamples(ws, [
      { series: "tasks_succeeded", at: at - 1_800, value: 30 },
      { series: "tasks_failed", at: at - 1_800, value: 4 },
      { series: "tasks_queued", at: at - 1_800, value: 12 },
      { series: "tasks_queued", at: at - 900, value: 3 },
      { series: "tasks_running", at: at - 900, value: 2 },
    ]);
    // A worker that has not asked for a while is missed, and a time that has passed is late.
    api.jump(HOUR_MS + 120_000);
  });

  test("shows what failed, with its cause, and leads there", async () => {
    const { page } = await browser.visit(api.url);
    const failed = item(page, "Failed 2", "sales/orders");
    await failed.getByText("10 of 10 partitions failed: no.").waitFor();
    await item(page, "Failed 2", "acme").getByText("used this run key").waitFor();
    await failed.getByRole("link", { name: "sales/orders" }).click();
    expect(new URL(page.url()).pathname).toBe(`/backfills/${backfillId}`);
    await page.goBack();
    await item(page, "Failed 2", "acme").getByRole("link").click();
    expect(new URL(page.url()).pathname).toBe("/conflicts");
  });

  test("shows what is stuck, late, stale and paused, each one step from its cause", async () => {
    const { page } = await browser.visit(api.url);
    const placeOf = async (title: string, name: string): Promise<string | null> =>
      item(page, title, name).getByRole("link").first().getAttribute("href");
    await item(page, "Stuck 1", "tenants").getByText("1 task waits for a worker").waitFor();
    expect(await placeOf("Stuck 1", "tenants")).toContain("/runs?");
    await item(page, "Late 1", "late_one").getByText("is overdue").waitFor();
    expect(await placeOf("Late 1", "late_one")).toMatch(/^\/schedules\/\w+$/);
    await item(page, "Stale", "sales/orders").getByText("10 failed").waitFor();
    expect(await placeOf("Stale", "sales/orders")).toBe("/assets/sales%2Forders");
    const paused = item(page, "Paused 1", "paused_one");
    await paused.getByText("Paused: The source is being rebuilt.").waitFor();

    const running = page.getByRole("region", { name: "Running" });
    await running.getByRole("link", { name: "tenants" }).waitFor();
    await running.getByText("0 of 1").waitFor();
    const fill = item(page, "Stale", "sales/orders").getByRole("link", { name: /^Backfill/ });
    await fill.click();
    expect(page.url()).toContain("/backfills/new?asset=sales%2Forders&stale=1");
  });

  test("shows how the last hour went, also in words", async () => {
    // The samples were written before the clock jumped.
    api.jump(-HOUR_MS - 120_000);
    const { page } = await browser.visit(api.url);
    const done = page.getByRole("img", { name: /^Tasks done\. failed: last/ });
    await done.waitFor();
    expect(await done.getAttribute("aria-label")).toBe(
      "Tasks done. failed: last 0 per minute, between 0 per minute and 4 per minute; " +
        "succeeded: last 0 per minute, between 0 per minute and 30 per minute.",
    );
    const queue = page.getByRole("img", {
      name: "Queue. queued: last 3 tasks, between 3 tasks and 12 tasks; running: last 2 tasks",
    });
    await queue.locator("canvas").waitFor();
    const box = await queue.boundingBox();
    // Three quarters of the hour have passed there: the last but one value still holds.
    await page.mouse.move((box?.x ?? 0) + (box?.width ?? 0) * 0.62, (box?.y ?? 0) + 40);
    await page.getByText("queued 12").waitFor();
    api.jump(HOUR_MS + 120_000);
  });

  test("hears of a change without being loaded again", async () => {
    const { page } = await browser.visit(api.url);
    await page.getByText("Live", { exact: true }).waitFor();
    const running = page.getByRole("region", { name: "Running" });
    await running.getByRole("link", { name: "tenants" }).waitFor();
    await page.evaluate(() => {
      (globalThis as unknown as { isSame: boolean }).isSame = true;
    });
    const params = { backfill_id: backfillId };
    await api.client.call("retryBackfill", { params, body: { outcomes: ["FAILED"] } });
    const startedMs = performance.now();
    await running.getByRole("link", { name: "sales/orders" }).waitFor();
    await item(page, "Failed", "sales/orders").getByText("A retry is under way.").waitFor();
    console.log(`The overview showed a new backfill after ${sinceText(startedMs)} ms.`);
    while ((await work(api.client, "SUCCEEDED", null, 50)) > 0);
    const endedMs = performance.now();
    await item(page, "Failed", "sales/orders").waitFor({ state: "detached" });
    console.log(`It took a failure that was made good away after ${sinceText(endedMs)} ms.`);
    await page.getByText("Nothing is running right now.").waitFor();
    expect(await page.evaluate(() => (globalThis as unknown as { isSame?: boolean }).isSame)).toBe(
      true,
    );
  });

  test("is told by its tiles and usable by keyboard alone", async () => {
    const { page } = await browser.visit(api.url);
    const tile = page.getByRole("link", { name: /1\s*Paused/ });
    await tile.focus();
    await page.keyboard.press("Enter");
    await expect.poll(() => page.evaluate(() => location.hash)).toBe("#paused");
    await page.keyboard.press("Tab");
    const focused = page.locator(":focus");
    expect(await focused.textContent()).toBe("paused_one");
    await page.keyboard.press("Enter");
    await expect.poll(() => new URL(page.url()).pathname).toMatch(/^\/schedules\/\w+$/);
  });

  test.each(["light", "dark"] as const)("has nothing that axe objects to in %s", async (theme) => {
    const { page } = await browser.visit(api.url, { theme });
    await group(page, "Paused 1").waitFor();
    await page.locator(".plot canvas").first().waitFor();
    await expectAccessible(page);
    await expectNoSidewaysScroll(page);
  });

  test("fits a phone", async () => {
    const { page } = await browser.visit(api.url, { width: 390, height: 800 });
    await group(page, "Paused 1").waitFor();
    await page.locator(".plot canvas").first().waitFor();
    await expectNoSidewaysScroll(page);
    await expectAccessible(page);
  });
});

function sinceText(startedMs: number): string {
  return (performance.now() - startedMs).toFixed(0);
}
