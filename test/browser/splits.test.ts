import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import type { SplitDocument } from "../../src/work/split/api.ts";
import { startApi } from "../end-to-end/api-server.ts";
import { rowsOf, run } from "../end-to-end/shard-files.ts";
import {
  CAUGHT_UP,
  COPIED,
  endStep,
  FITTING,
  publishShards,
  say,
  takeSplitStep,
} from "../end-to-end/shard-hand.ts";
import { act, confirmAction, openAction, tabTo } from "./keyboard.ts";
import type { ServedProject } from "./served-project.ts";
import { Application, serveShards } from "./shard-project.ts";
import {
  expectAccessible,
  expectNoSidewaysScroll,
  TestBrowser,
  type Visit,
  type VisitOptions,
} from "./test-browser.ts";

// Real copies by a real worker, on a machine that others use too.
/** How long anything may take at most to be seen. */
const WAIT_MS = 600_000;

let site: ServedProject;
let browser: TestBrowser;

beforeAll(async () => {
  [site, browser] = await Promise.all([serveShards(["acme", "beta", "gamma"]), TestBrowser.open()]);
});

afterEach(() => browser.endVisits());

afterAll(async () => {
  await browser.close();
  await site.stop();
});

/** Opens an address, and waits longer there than others do. */
async function visit(url: string, options?: VisitOptions): Promise<Visit> {
  const opened = await browser.visit(url, options);
  opened.page.setDefaultTimeout(WAIT_MS);
  return opened;
}

/** Refusals that a test brings about on purpose. */
const REFUSED = { allowed: [/40[0-9]|412|422/] };

/** Tenants that an address or a text could take for something else. */
const ODD = ["..", "a%20b/c&d", "x\u202Egnp.exe"] as const;

const getSplit = (split: string): Promise<SplitDocument> =>
  site.client.call("getSplit", { params: { split } });

const splitOf = (page: Page): string => new URL(page.url()).pathname.split("/").at(-1) ?? "";

/** Waits until the page says by itself that the split is in a phase. */
async function arrive(page: Page, phase: string): Promise<void> {
  const step = page.locator(`[data-phase="${phase}"][aria-current="step"]`);
  await step.waitFor();
}

/** Leaves a mark that does not outlive a reload. */
const markPage = (page: Page) => page.evaluate(() => void (document.body.dataset["mark"] = "1"));
const hasMark = (page: Page) => page.evaluate(() => document.body.dataset["mark"] === "1");

/** Plans a split in the page, by keyboard. */
async function plan(page: Page, tenant: string): Promise<string> {
  await tabTo(page, page.getByLabel("From"));
  await page.keyboard.press("a");
  await tabTo(page, page.getByLabel("To", { exact: true }));
  await page.keyboard.press("b");
  await tabTo(page, page.getByLabel("Tenants"));
  await page.keyboard.type(tenant);
  await tabTo(page, page.getByText("Limits and automatic cutover"));
  await page.keyboard.press("Enter");
  await tabTo(page, page.getByLabel("Grace period (ms)"));
  await page.keyboard.type("0");
  await tabTo(page, page.getByRole("button", { name: "Plan the split" }));
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: `Split a → b: ${tenant}` }).waitFor();
  return splitOf(page);
}

describe("the pages of the routing", () => {
  test("say how to begin, and change it by hand if it is still what was looked at", async () => {
    const { page } = await visit(`${site.url}/routing`, REFUSED);
    await page.getByText("No routing set.").waitFor();
    await expectAccessible(page);
    const dialog = await openAction(page, "Change routing");
    await dialog.getByText("This moves no rows.").waitFor();
    await tabTo(page, dialog.getByLabel("Default shard"));
    await page.keyboard.press("a");
    await tabTo(page, dialog.getByLabel("Routes"));
    await page.keyboard.type("other");
    await tabTo(page, dialog.getByRole("button", { name: "Change routing" }));
    await page.keyboard.press("Enter");
    await dialog.getByRole("alert").getByText("Line 1 must be a tenant").waitFor();
    await dialog.getByLabel("Routes").focus();
    await page.keyboard.type("=c");
    await confirmAction(page, dialog, "Change routing");
    await page
      .getByRole("region", { name: "Versions of the routing" })
      .getByText("manual")
      .waitFor();
    expect(await site.client.call("getRouting", {})).toMatchObject({
      version: 1,
      default_shard: "a",
      shards: [{ shard: "c", tenants: 1 }],
    });
  });

  test("refuse a change when somebody else was faster", async () => {
    const { page } = await visit(`${site.url}/routing`, REFUSED);
    const dialog = await openAction(page, "Change routing");
    const routes = ["other", ...ODD].map((tenant) => ({ tenant, shard: "b" }));
    await site.client.call("changeRouting", { body: { routes } });
    await dialog.getByText("This has changed since you opened it").waitFor();
    await dialog.getByLabel("Routes").fill("another=b");
    await tabTo(page, dialog.getByRole("button", { name: "Change routing" }));
    await page.keyboard.press("Enter");
    await dialog.getByText("STATE_VERSION_MISMATCH").waitFor();
    expect(await site.client.call("getRouting", {})).toMatchObject({ version: 2 });
  });

  test("find a tenant's shard, and lead from it to a split", async () => {
    const { page } = await visit(`${site.url}/routing`, { theme: "dark" });
    await tabTo(page, page.getByLabel("Tenant", { exact: true }));
    await page.keyboard.type("acme");
    await page.keyboard.press("Enter");
    await page.getByText("the default", { exact: true }).waitFor();
    await expectAccessible(page);
    await tabTo(page, page.getByRole("link", { name: "Plan a split for this tenant" }));
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "Plan a split" }).waitFor();
    expect(await page.getByLabel("From").inputValue()).toBe("a");
    expect(await page.getByLabel("Tenants").inputValue()).toBe("acme");
  });

  test("take every tenant by its name, and show it as what it is", async () => {
    const { page } = await visit(`${site.url}/routing`);
    const routes = page.getByRole("region", { name: "Routes" });
    for (const tenant of ODD) {
      const shown = tenant.replace("\u202E", "⟨U+202E⟩");
      await routes.getByRole("link", { name: shown, exact: true }).click();
      await page.getByRole("status").getByText(shown, { exact: true }).waitFor();
      await page.getByRole("status").getByText("its own route").waitFor();
      expect(await page.getByLabel("Tenant", { exact: true }).inputValue()).toBe(tenant);
    }
    await page.goto(`${site.url}/splits/new?tenant=${encodeURIComponent(ODD[1])}`);
    expect(await page.getByLabel("Tenants").inputValue()).toBe(ODD[1]);
    expect(await page.content()).not.toContain("\u202E");
  });
});

describe("planning a split", () => {
  test("says what to do where there is none, and what is wrong at its field", async () => {
    const { page } = await visit(`${site.url}/splits`, { ...REFUSED, width: 390 });
    await page.getByText("No splits yet.").waitFor();
    await expectAccessible(page);
    await page.getByRole("link", { name: "Plan a split" }).click();
    await page.getByLabel("To", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Plan the split" }).click();
    await page.getByText("Choose the target shard.").waitFor();
    await page.getByText("Name at least one tenant.").waitFor();
    await page.getByLabel("To", { exact: true }).selectOption("b");
    await page.getByLabel("Tenants").fill("other");
    await page.getByRole("button", { name: "Plan the split" }).click();
    await page.getByText("it is routed to b").waitFor();
    const tenants = page.getByLabel("Tenants");
    await expect
      .poll(() => tenants.evaluate((field) => field === document.activeElement), {
        timeout: WAIT_MS,
      })
      .toBe(true);
    expect(await tenants.getAttribute("aria-invalid")).toBe("true");
    await expectNoSidewaysScroll(page);
    await expectAccessible(page);
    expect(await site.client.call("listSplits", {})).toMatchObject({ items: [] });
  });
});

describe("the page of a split", () => {
  test("takes a tenant to another shard while it is written to, and completes that", async () => {
    const application = new Application(site, "acme", 100_000);
    const { page } = await visit(`${site.url}/splits/new`);
    const split = await plan(page, "acme");
    await markPage(page);
    await page.getByText("The schemas of a and b match; nothing is changed yet.").waitFor();
    const cutOver = page.getByRole("button", { name: "Cut over" });
    expect(await cutOver.getAttribute("aria-disabled")).toBe("true");
    await page.getByText("Only once the copy is caught up and verified.").first().waitFor();
    await act(page, "Start dual write");
    await arrive(page, "dual_write");
    await act(page, "Run backfill");
    await arrive(page, "cutover_pending");
    expect(await getSplit(split)).toMatchObject({ phase: "cutover_pending", armed: true });
    await page.getByText("all equal").waitFor();
    await page.getByRole("img", { name: /^Lag/ }).waitFor();
    await expectAccessible(page);

    const gate = await openAction(page, "Cut over");
    await gate.getByText("A cutover is possible now.").waitFor();
    await gate.getByText("are equal on both sides.").waitFor();
    await gate.getByText("5 s at most").waitFor();
    await expectAccessible(page);
    await confirmAction(page, gate, "Cut over");
    await arrive(page, "reversible");
    const served = await getSplit(split);
    expect(served).toMatchObject({ phase: "reversible", routing_version_cutover: 3 });
    await page.getByText(`${served.write_pause_ms?.toFixed(1)} ms`).waitFor();
    const before = application.acknowledged.length;

    const change = await openAction(page, "Change schema");
    await tabTo(page, change.getByLabel("Statement"));
    await page.keyboard.type("alter table users add column note text");
    await confirmAction(page, change, "Change schema");
    const steps = page.getByRole("region", { name: "Steps" });
    const ddl = steps.getByRole("row").filter({ hasText: "ddl" });
    await ddl.getByText("done").waitFor();
    await vi.waitFor(
      () => expect(application.acknowledged.length).toBeGreaterThan(before + 10),
      WAIT_MS,
    );
    await act(page, "Complete");
    await page.getByText("Complete; the rows on a are removed.").waitFor();
    await application.stop();
    expect(await hasMark(page)).toBe(true);

    expect(application.acknowledged.length).toBeGreaterThan(50);
    const fifty = Array.from({ length: 50 }, (_, index) => index + 1);
    expect(application.orders("b")).toEqual([...fifty, ...application.acknowledged]);
    expect(application.orders("a")).toEqual([]);
    application.close();
    expect(await getSplit(split)).toMatchObject({ phase: "completed", wanted: null });
  });

  test("leads to what the cutover did to the routing, and back", async () => {
    const { page } = await visit(`${site.url}/splits`, { theme: "dark" });
    await page.getByRole("link", { name: "a → b" }).click();
    await page.getByText("there is nothing left to do, and no way back").waitFor();
    await expectAccessible(page);
    await page.getByRole("region", { name: "Routing" }).getByRole("link", { name: "3" }).click();
    const version = page.getByRole("region", { name: "Version 3" });
    await version.getByText("acme: default → b").waitFor();
    await version.getByRole("link", { name: /^split/ }).click();
    await page.getByRole("heading", { level: 1, name: "Split a → b: acme" }).waitFor();
  });

  test("says what does not fit, goes on once that is put right, and hands a tenant back", async () => {
    const application = new Application(site, "beta", 200_000);
    run(site.folder, "b", "alter table orders add column odd integer");
    const { page } = await visit(`${site.url}/splits/new`, { width: 390, height: 800 });
    const split = await plan(page, "beta");
    await markPage(page);
    await page.getByRole("status").getByText("The schemas of a and b do not match").waitFor();
    const checks = page.getByRole("list", { name: "Checks of both schemas" });
    await checks.locator('[data-ok="false"]').first().waitFor();
    await expectAccessible(page);
    run(site.folder, "b", "alter table orders drop column odd");
    await act(page, "Resume");
    await act(page, "Start dual write");
    await arrive(page, "dual_write");
    await act(page, "Run backfill");
    await arrive(page, "cutover_pending");
    await expectNoSidewaysScroll(page);
    await act(page, "Cut over");
    await arrive(page, "reversible");
    const before = application.acknowledged.length;
    await vi.waitFor(
      () => expect(application.acknowledged.length).toBeGreaterThan(before + 10),
      WAIT_MS,
    );
    const back = await openAction(page, "Roll back");
    await back.getByText("This is a second cutover, in the other direction").waitFor();
    await expectAccessible(page);
    await page.keyboard.type("too slow there");
    await confirmAction(page, back, "Roll back");
    await arrive(page, "rolled_back");
    await page.getByText("Rolled back; a serves the tenants.").waitFor();
    await application.stop();
    expect(await hasMark(page)).toBe(true);

    const shown = await getSplit(split);
    expect(shown).toMatchObject({ phase: "rolled_back", routing_version_rollback: 5 });
    const fifty = Array.from({ length: 50 }, (_, index) => 1_001 + index);
    expect(application.orders("a")).toEqual([...fifty, ...application.acknowledged]);
    expect(application.orders("b")).toEqual([]);
    application.close();
    expect(rowsOf(site.folder, "beta")).toMatchObject({ b: 0 });
  });

  test("refuses what was decided by what is no longer so", async () => {
    const body = { source: "a", target: "b", tenants: ["gamma"] };
    const { split_id } = await site.client.call("planSplit", { body });
    const { page } = await visit(`${site.url}/splits/${split_id}`, REFUSED);
    await page.getByRole("button", { name: "Start dual write", disabled: false }).waitFor();
    const dialog = await openAction(page, "Roll back");
    await site.client.call("startDualWrite", { params: { split: split_id } });
    await dialog.getByText("This has changed since you opened it").waitFor();
    await tabTo(page, dialog.getByRole("button", { name: "Roll back" }));
    await page.keyboard.press("Enter");
    await dialog.getByText("STATE_VERSION_MISMATCH").waitFor();
    await page.keyboard.press("Escape");
    await arrive(page, "dual_write");
    expect((await getSplit(split_id)).phase).toBe("dual_write");
    await act(page, "Roll back");
    await arrive(page, "rolled_back");
  });

  test("says when a cutover was given up, and why", async () => {
    const api = await startApi();
    const { client } = api;
    try {
      await publishShards(client);
      await client.call("changeRouting", { body: { default_shard: "a" } });
      const body = { source: "a", target: "b", tenants: ["acme"] };
      const { split_id } = await client.call("planSplit", { body });
      const params = { split: split_id };
      await endStep(client, await takeSplitStep(client, "check"), FITTING);
      await client.call("startDualWrite", { params });
      await endStep(client, await takeSplitStep(client, "arm"));
      await client.call("runSplitBackfill", { params });
      await endStep(client, await takeSplitStep(client, "copy"), COPIED);
      const tail = await takeSplitStep(client, "tail");
      await say(client, tail, CAUGHT_UP, "caught_up");
      const { page } = await visit(`${api.url}/splits/${split_id}`);
      await arrive(page, "cutover_pending");
      await client.call("cutOverSplit", { params });
      await endStep(client, tail, CAUGHT_UP);
      const error = { class: "FENCE_BUSY", message: "A write would not end." };
      await endStep(client, await takeSplitStep(client, "cutover"), {}, { error, final: true });
      await page.getByText(/cutover failed, and a still serves the tenants: A write/).waitFor();
    } finally {
      await browser.endVisits();
      await api.close();
    }
  });

  test("says so when there is no such split", async () => {
    const { page } = await visit(`${site.url}/splits/01HZ0000000000000000000000`, REFUSED);
    await page.getByText("There is no split").waitFor();
    await expectAccessible(page);
  });
});
