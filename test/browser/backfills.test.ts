import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { AnswerOf, PartInput } from "../../src/work/operations.ts";
import { type Api, startApi } from "../end-to-end/api-server.ts";
import { workOnce, workThrough } from "../end-to-end/backfill-hand.ts";
import { expectAccessible, expectNoSidewaysScroll, TestBrowser } from "./test-browser.ts";

// Goal: what the pages of backfills show is so, and what their buttons say they do, happens. Method:
// a real server whose tasks the test works on by hand, so that every state can be looked at.

let api: Api;
let browser: TestBrowser;
let assets = 0;
/** An asset of twenty days that no other test uses. */
let asset: string;

beforeAll(async () => {
  [api, browser] = await Promise.all([startApi(), TestBrowser.open()]);
});

beforeEach(async () => {
  asset = `days-${++assets}`;
  const partitions = { type: "daily", start: "2025-01-01", end: "2025-01-21" } as const;
  // What is not published again stays as it was.
  await api.client.call("publishDefinitions", {
    body: { specs: [{ kind: "asset", asset_key: asset, partitions }] },
  });
});

afterEach(() => browser.endVisits());

afterAll(async () => {
  await browser.close();
  await api.close();
});

type Backfill = AnswerOf<"getBackfill">;

async function create(wish: Partial<PartInput<"createBackfill", "body">> = {}): Promise<string> {
  const client_request_id = crypto.randomUUID();
  const all = { assets: [asset], selector: { type: "all" } as const, chunk_size: 2 };
  const body = { ...all, client_request_id, ...wish };
  const { backfill_id } = await api.client.call("createBackfill", { body });
  await expect.poll(async () => (await read(backfill_id)).state).toBe("RUNNING");
  return backfill_id;
}

function read(backfill_id: string): Promise<Backfill> {
  return api.client.call("getBackfill", { params: { backfill_id } });
}

const some = (failing: readonly string[]) => ({
  assets: [asset],
  verdict: (key: string) => (failing.includes(key) ? `no rows for ${key}` : null),
  logs: ["looking at the source"],
});

/** Works on a backfill to its end; the days given fail. */
async function ended(failing: readonly string[]): Promise<string> {
  const backfillId = await create({ max_concurrent_runs: 10 });
  await workThrough(api.client, backfillId, some(failing));
  return backfillId;
}

async function visit(backfillId: string, path = "", options = {}): Promise<Page> {
  const { page } = await browser.visit(`${api.url}/backfills/${backfillId}${path}`, options);
  await page.getByRole("heading", { level: 1, name: `Backfill of ${asset}` }).waitFor();
  await page.getByText("Live", { exact: true }).waitFor();
  return page;
}

/** Goes by the tab key to the control of this name, as somebody without a mouse does. */
async function tabTo(page: Page, name: string): Promise<void> {
  for (let pressed = 0; pressed < 80; pressed++) {
    const found = await page.evaluate((wanted) => {
      const element = document.activeElement;
      const label = element instanceof HTMLInputElement ? element.labels?.[0] : element;
      return (label?.textContent ?? "").trim() === wanted;
    }, name);
    if (found) return;
    await page.keyboard.press("Tab");
  }
  throw new Error(`The tab key does not lead to ${JSON.stringify(name)}.`);
}

/** Opens an action by the keyboard alone; answers what its dialog says. */
async function openAction(page: Page, name: string): Promise<string> {
  await tabTo(page, name);
  await page.keyboard.press("Enter");
  return page.getByRole("dialog").locator(".dialog-consequence").innerText();
}

/** Confirms it, and waits until the dialog is gone. */
async function confirm(page: Page, name: string): Promise<void> {
  await tabTo(page, name);
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor({ state: "detached" });
}

describe("the list of backfills", () => {
  test("says what to do while there are none, and shows new ones at once", async () => {
    const { page } = await browser.visit(`${api.url}/backfills?since=2100-01-01`);
    await page.getByText("No backfill matches these filters.").waitFor();
    await page.getByRole("link", { name: "see all backfills" }).click();
    await page.getByText("Live", { exact: true }).waitFor();
    await page.evaluate(() => Object.assign(globalThis, { isSamePage: true }));
    const backfillId = await create();
    const row = page.getByRole("row", { name: asset });
    await row.getByText("running").waitFor();
    await workOnce(api.client, some(["2025-01-03"]));
    await row.getByText("20 %").waitFor();
    await row.getByRole("img", { name: /3 succeeded, 1 failed.* of 20 partitions/ }).waitFor();
    expect(await page.evaluate(() => Reflect.get(globalThis, "isSamePage"))).toBe(true);
    await row.getByRole("link", { name: asset }).click();
    expect(new URL(page.url()).pathname).toBe(`/backfills/${backfillId}`);
  });

  test("is narrowed by state, in an address that can be passed on", async () => {
    await ended([]);
    const { page } = await browser.visit(`${api.url}/backfills`);
    await page.getByLabel("State").selectOption("succeeded");
    await page.getByRole("row", { name: asset }).getByText("succeeded").waitFor();
    expect(new URL(page.url()).search).toBe("?status=SUCCEEDED");
    await page.getByLabel("State").selectOption("failed");
    await page.getByRole("row", { name: asset }).waitFor({ state: "detached" });
    await page.goto(`${api.url}/backfills?status=CANCELLED`);
    await expect.poll(() => page.getByLabel("State").inputValue()).toBe("CANCELLED");
  });

  test.each(["light", "dark"] as const)("is for everybody, in the %s", async (theme) => {
    await create();
    const { page } = await browser.visit(`${api.url}/backfills`, { theme });
    await page.getByRole("row", { name: asset }).waitFor();
    await expectAccessible(page);
    await page.setViewportSize({ width: 390, height: 800 });
    await expectNoSidewaysScroll(page);
  });
});

describe("the page of a backfill", () => {
  test("leads from the failures to the task and its log", async () => {
    const page = await visit(await ended(["2025-01-03", "2025-01-10"]));
    const failures = page.getByRole("region", { name: "Failures by error" });
    await failures.getByText("no rows for …", { exact: true }).waitFor();
    expect(await failures.getByRole("row").nth(1).getByRole("cell").first().innerText()).toBe("2");
    await failures.getByRole("link", { name: /^2025-01-/ }).click();
    await page.getByRole("heading", { level: 1, name: asset }).waitFor();
    await page.getByText("looking at the source").first().waitFor();
  });

  test("leads from the map to a chunk, its run and its tasks, by keyboard", async () => {
    const page = await visit(await ended(["2025-01-03"]));
    const map = page.getByRole("application", { name: "Map of the chunks" });
    await map.focus();
    await page.keyboard.press("ArrowRight");
    const told = page.getByText("chunk 1, failed");
    await told.waitFor({ state: "attached" });
    await page.keyboard.press("Enter");
    const panel = page.getByRole("region", { name: "Chunk 1", exact: true });
    await panel.getByText("2025-01-03 … 2025-01-04").waitFor();
    await panel.getByRole("link", { name: `${asset} 2025-01-03` }).waitFor();
    expect(new URL(page.url()).search).toBe("?chunk=1");
    await expectAccessible(page);
    await panel.getByRole("link", { name: /^run_/ }).click();
    await page.getByRole("heading", { level: 1, name: /run/i }).waitFor();
  });

  test("shows what happens while it is open, without being loaded again", async () => {
    const backfillId = await create({ max_concurrent_runs: 3 });
    const page = await visit(backfillId);
    await page.evaluate(() => Object.assign(globalThis, { isSamePage: true }));
    const legend = page.getByRole("group", { name: /^States/ });
    await legend.getByRole("button", { name: "planned 3" }).waitFor();
    await workOnce(api.client, some(["2025-01-01"]));
    await legend.getByRole("button", { name: "failed 1" }).waitFor();
    await legend.getByRole("button", { name: "succeeded 2" }).waitFor();
    await page.getByText("no rows for 2025-01-01", { exact: true }).waitFor();
    await workThrough(api.client, backfillId, some([]));
    await page.getByRole("heading", { level: 1 }).getByText("failed").waitFor();
    expect(await page.evaluate(() => Reflect.get(globalThis, "isSamePage"))).toBe(true);
  });

  test("lists the chunks from any of them on", async () => {
    const page = await visit(await ended(["2025-01-03"]), "?view=list");
    const chunks = page.getByRole("region", { name: "Chunks", exact: true });
    await chunks.getByRole("row", { name: "2025-01-19 … 2025-01-20" }).waitFor();
    await page.getByLabel("From chunk").fill("8");
    await expect.poll(() => chunks.getByRole("row").count()).toBe(3);
    await page.getByLabel("From chunk").fill("");
    await page.getByLabel("Chunk state").selectOption("failed");
    await chunks.getByRole("link", { name: "1", exact: true }).click();
    await page.getByRole("region", { name: "Chunk 1", exact: true }).waitFor();
  });

  test.each(["light", "dark"] as const)("is for everybody, in the %s", async (theme) => {
    const page = await visit(await ended(["2025-01-03"]), "?chunk=1", { theme });
    await page.getByText("no rows for 2025-01-03", { exact: true }).first().waitFor();
    await expectAccessible(page);
    await page.setViewportSize({ width: 390, height: 800 });
    await expectNoSidewaysScroll(page);
  });

  test("says so when there is no such backfill", async () => {
    const { page } = await browser.visit(`${api.url}/backfills/none`, { allowed: [/404/] });
    await page.getByText('There is no backfill "none".').waitFor();
    await expectAccessible(page);
  });
});

describe("what is done with a backfill", () => {
  test("pausing and resuming it, by keyboard, with the reason on record", async () => {
    const backfillId = await create();
    const page = await visit(backfillId);
    const pause = await openAction(page, "Pause");
    expect(pause).toContain("2 chunks that are under way finish. 8 chunks wait");
    await expectAccessible(page);
    await tabTo(page, "Reason (for the record)");
    await page.keyboard.type("the source is down");
    await confirm(page, "Pause");
    expect(await read(backfillId)).toMatchObject({ state: "PAUSED", reason: "the source is down" });
    await page.getByRole("note").getByText("the source is down").waitFor();
    expect(await page.evaluate(() => document.activeElement?.textContent)).toBe("Pause");
    const resume = await openAction(page, "Resume");
    expect(resume).toContain("8 chunks are left, at most 2 runs at once");
    await confirm(page, "Resume");
    expect((await read(backfillId)).state).toBe("RUNNING");
    await page.getByRole("heading", { level: 1 }).getByText("running").waitFor();
  });

  test("retuning it, by keyboard", async () => {
    const backfillId = await create();
    const page = await visit(backfillId);
    await openAction(page, "Retune");
    await tabTo(page, "Runs at once");
    await page.keyboard.press("ControlOrMeta+a");
    await page.keyboard.type("5");
    await tabTo(page, "Priority");
    await page.keyboard.press("ControlOrMeta+a");
    await page.keyboard.type("-7");
    await confirm(page, "Retune");
    expect(await read(backfillId)).toMatchObject({ max_concurrent_runs: 5, priority: -7 });
    await page.getByRole("button", { name: "planned 5" }).waitFor();
  });

  test("cancelling it softly, and then hard, by keyboard", async () => {
    const backfillId = await create();
    const page = await visit(backfillId);
    const soft = await openAction(page, "Cancel");
    expect(soft).toContain("8 chunks that are not planned never run and count as cancelled.");
    expect(soft).toContain("2 active runs go on to the end first.");
    await confirm(page, "Cancel");
    expect((await read(backfillId)).state).toBe("CANCELLING");
    const hard = await openAction(page, "Cancel runs now");
    expect(hard).toContain("2 active runs are stopped");
    await confirm(page, "Cancel runs now");
    await expect.poll(async () => (await read(backfillId)).state).toBe("CANCELLED");
    await page.getByRole("button", { name: "cancelled 10" }).waitFor();
  });

  test("cancelling it with its active runs at once", async () => {
    const backfillId = await create();
    const page = await visit(backfillId);
    await page.getByRole("button", { name: "Cancel", exact: true }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Cancel them now").check();
    await dialog.getByText("2 active runs are stopped").waitFor();
    await dialog.getByRole("button", { name: "Cancel", exact: true }).click();
    await dialog.waitFor({ state: "detached" });
    await expect
      .poll(() => read(backfillId))
      .toMatchObject({ state: "CANCELLED", cancel_runs: true, chunks_cancelled: 10 });
  });

  test("retrying what failed, by keyboard, which leads to the new backfill", async () => {
    const parent = await ended(["2025-01-03", "2025-01-10"]);
    const page = await visit(parent);
    expect(await openAction(page, "Retry failed")).toContain("this one stays as it is");
    await page.getByLabel("The 2 partitions that failed").waitFor();
    await expectAccessible(page);
    await confirm(page, "Retry failed");
    await page.getByText("what was failed").first().waitFor();
    const child = decodeURIComponent(new URL(page.url()).pathname.split("/").at(-1) ?? "");
    expect(await read(child)).toMatchObject({ parent_backfill_id: parent, partitions_total: 2 });
    const query = { types: "BackfillCreated", limit: 200 };
    const { items } = await api.client.call("listEvents", { query });
    expect(items.map(({ data }) => data)).toContainEqual(
      expect.objectContaining({ backfill_id: child, parent_backfill_id: parent }),
    );
    await workThrough(api.client, child, some([]));
    await page.getByRole("heading", { level: 1 }).getByText("succeeded").waitFor();
    await page.getByText("Retry of").locator("..").getByRole("link").click();
    await page.getByText("Retries", { exact: true }).waitFor();
    expect(page.url()).toContain(parent);
  });

  test("I32: retrying what failed so far while it runs, which goes on beside the new one", async () => {
    const parent = await create();
    const page = await visit(parent);
    const retry = page.getByRole("button", { name: "Retry" });
    expect(await retry.getAttribute("title")).toContain("Nothing has failed so far");
    await workOnce(api.client, some(["2025-01-03"]));
    await page.getByRole("button", { name: "failed 1" }).waitFor();
    expect(await openAction(page, "Retry failed")).toContain("what fails later can be retried");
    await page.getByLabel("The 1 partition that failed so far").waitFor();
    await expectAccessible(page);
    await confirm(page, "Retry failed");
    await page.getByText("what was failed").first().waitFor();
    const child = new URL(page.url()).pathname.split("/").at(-1) ?? "";
    expect(await read(child)).toMatchObject({ parent_backfill_id: parent, partitions_total: 1 });
    expect((await read(parent)).state).toBe("RUNNING");
  });

  test("retrying everything that is missing after a cancel", async () => {
    const parent = await create();
    await api.client.call("cancelBackfill", {
      params: { backfill_id: parent },
      body: { now: true },
    });
    await expect.poll(async () => (await read(parent)).state).toBe("CANCELLED");
    const page = await visit(parent);
    await page.getByRole("button", { name: "Retry" }).click();
    await page.getByLabel("Everything it was for that is not materialized now").check();
    await page.getByRole("dialog").getByRole("button", { name: "Retry" }).click();
    await page.getByText("what was missing").first().waitFor();
    const child = new URL(page.url()).pathname.split("/").at(-1) ?? "";
    expect(await read(child)).toMatchObject({ parent_backfill_id: parent, partitions_total: 20 });
    await workThrough(api.client, child, some(["2025-01-03"]));
    await page.getByRole("heading", { level: 1 }).getByText("failed").waitFor();
    // What is chosen for this one is not chosen for the other.
    await page.getByRole("button", { name: "Retry failed" }).click();
    await page.getByLabel("Everything it was for that is not materialized now").check();
    await page.getByRole("dialog").getByRole("button", { name: "Back" }).click();
    await page.getByText("Retry of").locator("..").getByRole("link").click();
    await page.getByRole("button", { name: "Retry", exact: true }).click();
    expect(await page.getByLabel("The 20 partitions that were cancelled").isChecked()).toBe(true);
  });

  test("I74: is refused when it changed meanwhile, with both versions and a way to look again", async () => {
    const backfillId = await create();
    const page = await visit(backfillId, "", { allowed: [/412/] });
    const { state_version: seen } = await read(backfillId);
    await openAction(page, "Cancel");
    const body = { max_concurrent_runs: 1 };
    await api.client.call("retuneBackfill", { params: { backfill_id: backfillId }, body });
    const dialog = page.getByRole("dialog");
    await dialog.getByText(`(version ${seen}, now ${seen + 1})`).waitFor();
    await dialog.getByRole("button", { name: "Cancel", exact: true }).click();
    await dialog.getByText(`is at state version ${seen + 1} (RUNNING), not ${seen}.`).waitFor();
    await expectAccessible(page);
    expect(await read(backfillId)).toMatchObject({ state: "RUNNING", state_version: seen + 1 });
    await dialog.getByRole("button", { name: "Review" }).click();
    await dialog.waitFor({ state: "detached" });
    await openAction(page, "Cancel");
    await confirm(page, "Cancel");
    expect((await read(backfillId)).state).toBe("CANCELLING");
  });

  test("I74: opens again at once after it was closed, whenever the browser tells of the closing", async () => {
    const page = await visit(await create());
    for (const button of ["Cancel", "Keys"]) {
      await page.getByRole("button", { name: button, exact: true }).click();
      await page.getByRole("dialog").waitFor();
      await page.evaluate((text) => {
        document.querySelector("dialog")?.close();
        const all = [...document.querySelectorAll<HTMLButtonElement>("button:not(dialog *)")];
        all.find(({ textContent }) => textContent === text)?.click();
      }, button);
      // Told of the closing by now, as tasks of a page run in order.
      await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 50)));
      await page.getByRole("dialog").waitFor();
      await page.keyboard.press("Escape");
      await page.getByRole("dialog").waitFor({ state: "detached" });
    }
  });

  test("says why where it is refused, and why it is no use where it would be", async () => {
    const parent = await ended(["2025-01-03"]);
    await create();
    const page = await visit(parent, "", { allowed: [/409/] });
    const pause = page.getByRole("button", { name: "Pause" });
    expect(await pause.getAttribute("title")).toBe("Only while it is running; now it is failed.");
    await pause.click({ force: true });
    expect(await page.getByRole("dialog").count()).toBe(0);
    await openAction(page, "Retry failed");
    await tabTo(page, "Retry failed");
    await page.keyboard.press("Enter");
    const dialog = page.getByRole("dialog");
    await dialog
      .getByRole("alert")
      .getByText(/overlap|same partition/i)
      .waitFor();
    await dialog.getByLabel("Also when another active backfill touches").check();
    await confirm(page, "Retry failed");
    await page.getByText("what was failed").first().waitFor();
  });
});
