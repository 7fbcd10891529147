import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type ServedProject, serveProject } from "./served-project.ts";
import { expectAccessible, expectNoSidewaysScroll, TestBrowser } from "./test-browser.ts";

/** Fails in one partition, waits for a file, logs a lot: what a page about runs has to show. */
const PROJECT = `
  import { existsSync } from "node:fs";
  import { asset, definePawl, staticPartitions } from "pawl";
  const days = staticPartitions(["mon", "tue", "wed"]);
  const pause = () => new Promise((resolve) => setTimeout(resolve, 20));
  const days_raw = asset("raw", {
    partitions: days,
    retry: { maxAttempts: 2, delayMs: 100, jitter: 0 },
    materialize: (ctx) => {
      ctx.log("reads <img src=x onerror=alert(1)>", { day: ctx.partition, rows: 12 });
      if (ctx.partition === "tue") throw new Error("the column amount is missing");
    },
  });
  export default definePawl({
    assets: [
      days_raw,
      asset("clean", { partitions: days, upstream: [days_raw], materialize: () => undefined }),
      asset("slow", {
        materialize: async (ctx) => {
          await ctx.checkpoint({ page: 7 });
          for (let step = 1; !ctx.signal.aborted; step++) {
            if (step === 1) ctx.log("began");
            if (existsSync(new URL("./go-on", import.meta.url)) && step % 5 === 0) ctx.log("goes on");
            ctx.progress(step % 100, 100, "rows");
            await pause();
          }
          ctx.signal.throwIfAborted();
        },
      }),
      asset("unlucky", {
        retry: { maxAttempts: 2, delayMs: 100, jitter: 0 },
        materialize: async (ctx) => {
          if (ctx.attempt === 1) throw new Error("the first time went wrong");
          while (!ctx.signal.aborted) await pause();
          ctx.signal.throwIfAborted();
        },
      }),
      asset("chatty", {
        materialize: (ctx) => {
          for (let line = 1; line <= 450; line++) ctx.log("line " + line);
        },
      }),
    ],
  });
`;

let site: ServedProject;
let browser: TestBrowser;

beforeAll(async () => {
  [site, browser] = await Promise.all([serveProject(PROJECT), TestBrowser.open()]);
});

afterEach(() => browser.endVisits());

afterAll(async () => {
  await browser.close();
  await site.stop();
});

async function request(assets: string[], more: object = {}): Promise<string> {
  return (await site.client.call("requestRun", { body: { assets, ...more } })).run_id;
}

async function stateOf(run_id: string): Promise<string> {
  return (await site.client.call("getRun", { params: { run_id } })).state;
}

let failed: Promise<string> | null = null;

/** A run that failed in one of its partitions; all tests look at the same one. */
function failedRun(): Promise<string> {
  failed ??= (async () => {
    const run_id = await request(["raw", "clean"], { partition_keys: ["mon", "tue", "wed"] });
    await expect.poll(() => stateOf(run_id)).toBe("FAILED");
    return run_id;
  })();
  return failed;
}

/** Asks for two different things under one run key; answers the run of the first. */
async function conflict(run_key: string): Promise<string> {
  const more = { run_key, config: { full: true }, on_conflict: "existing" } as const;
  const run_id = await request(["raw"], { ...more, partition_keys: ["mon"] });
  await request(["raw"], { ...more, partition_keys: ["wed"] });
  return run_id;
}

const status = (page: Page, state: string) =>
  page.getByRole("heading", { level: 1 }).locator(`[data-state="${state}"]`);

describe("the list of runs", () => {
  test("asks for a run, goes there, and shows it end without being loaded again", async () => {
    const { page } = await browser.visit(`${site.url}/runs`);
    await page.getByText("Nothing has run yet.").waitFor();
    await page.getByRole("button", { name: "Request a run" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("The results replace earlier ones").waitFor();
    await dialog.getByLabel("raw", { exact: false }).check();
    await dialog.getByLabel("Partition keys").fill("mon\ntue\n");
    await dialog.getByLabel("Labels").fill("team=data");
    await dialog.getByRole("button", { name: "Request a run" }).click();
    await page.getByRole("heading", { level: 1, name: /^Run run_/ }).waitFor();
    await status(page, "FAILED").waitFor();

    const run_id = new URL(page.url()).pathname.split("/").at(-1) ?? "";
    const run = await site.client.call("getRun", { params: { run_id } });
    expect(run).toMatchObject({
      asset_selection: ["raw"],
      partition_keys: ["mon", "tue"],
      labels: { team: "data" },
      state: "FAILED",
    });
  });

  test("shows a refused request where it was made", async () => {
    const { page } = await browser.visit(`${site.url}/runs`, { allowed: [/40\d|422/] });
    await page.getByRole("button", { name: "Request a run" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("raw", { exact: false }).check();
    await dialog.getByLabel("Partition keys").fill("someday");
    await dialog.getByRole("button", { name: "Request a run" }).click();
    await dialog.getByRole("alert").getByText("someday").waitFor();
    await expectAccessible(page);
  });

  test("keeps its filters in the address, and opens with them", async () => {
    const lost = await failedRun();
    const ended = await request(["chatty"]);
    await expect.poll(() => stateOf(ended)).toBe("SUCCEEDED");
    const { page } = await browser.visit(`${site.url}/runs`);
    const row = (run_id: string) => page.getByRole("table").locator(`a[href="/runs/${run_id}"]`);
    await row(ended).waitFor();
    await page.getByLabel("State").selectOption("failed");
    await row(ended).waitFor({ state: "detached" });
    await row(lost).waitFor();
    expect(new URL(page.url()).search).toBe("?status=FAILED");

    await page.goto(`${site.url}/runs?asset=chatty&trigger=manual`);
    await row(ended).waitFor();
    expect(await page.getByLabel("Asset", { exact: true }).inputValue()).toBe("chatty");
    expect(await row(lost).count()).toBe(0);
    await page.getByLabel("Triggered by").selectOption("a sensor");
    await page.getByText("No run matches these filters.").waitFor();
    await page.getByLabel("Asset", { exact: true }).fill("raw");
    await page.getByLabel("Triggered by").selectOption("All");
    await row(lost).waitFor();
    await page.getByLabel("Since (UTC)").fill("2099-01-01");
    await page.getByText("No run matches these filters.").waitFor();
  });
});

describe("a run", () => {
  test("leads to what asked for it", async () => {
    const body = { assets: ["clean"], selector: { type: "all" as const }, chunk_size: 2 };
    const { backfill_id } = await site.client.call("createBackfill", { body });
    const { page } = await browser.visit(`${site.url}/runs?trigger=backfill`);
    const link = page.getByRole("link", { name: /^backfill .*, chunk 1$/ });
    expect(await link.getAttribute("href")).toBe(`/backfills/${backfill_id}?chunk=1`);
    await page.getByRole("row").filter({ has: link }).getByRole("link").first().click();
    await page.getByRole("heading", { level: 1, name: /^Run run_/ }).waitFor();
    await link.waitFor();
  });

  test("leads to the failing task's error, its attempts and its log, as text", async () => {
    const run_id = await failedRun();
    const { page } = await browser.visit(`${site.url}/runs/${run_id}`);
    await page.getByText("the column amount is missing").first().waitFor();
    await page.getByRole("link", { name: "See the failed task" }).click();
    await page.getByRole("link", { name: "raw tue" }).click();
    await status(page, "FAILED").waitFor();
    expect(new URL(page.url()).pathname).toBe(`/runs/${run_id}/tasks/1`);
    const attempts = page.getByRole("region", { name: "Attempts" });
    await attempts.getByRole("row").nth(2).waitFor();
    expect(await attempts.getByText("the column amount is missing").count()).toBe(2);
    const log = page.getByRole("region", { name: "Log lines" });
    await log.getByText("attempt 2 reads <img src=x onerror=alert(1)> day=tue rows=12").waitFor();
    expect(await log.locator("img").count()).toBe(0);
  });

  test("shows what went wrong at an attempt no longer as the task's once another one runs", async () => {
    const run_id = await request(["unlucky"]);
    const { page } = await browser.visit(`${site.url}/runs/${run_id}/tasks/0`);
    const attempts = page.getByRole("region", { name: "Attempts" });
    await attempts.getByText("the first time went wrong").waitFor();
    await attempts.getByRole("row").filter({ hasText: "running" }).waitFor();
    await status(page, "RUNNING").waitFor();
    await page.getByRole("alert").waitFor({ state: "detached" });
    const task = await site.client.call("getTask", { params: { run_id, task_key: 0 } });
    expect(task).toMatchObject({ state: "RUNNING", attempt: 2, error: null });
    expect(task.attempts[0]?.error?.message).toBe("the first time went wrong");
    await page.goto(`${site.url}/runs/${run_id}`);
    await page
      .getByRole("link", { name: /unlucky/ })
      .first()
      .waitFor();
    expect(await page.getByText("the first time went wrong").count()).toBe(0);
    await site.client.call("cancelRun", { params: { run_id } });
  });

  test("has a timeline of attempts and waits that the keyboard walks through", async () => {
    const run_id = await failedRun();
    const { page } = await browser.visit(`${site.url}/runs/${run_id}`);
    const chart = page.getByRole("grid", { name: "Timeline of the tasks" });
    await chart.getByRole("row").nth(5).waitFor();
    expect(await chart.locator('.gantt-bar[data-state="FAILED"]').count()).toBe(2);
    expect(await chart.locator('.gantt-bar[data-state="SUCCEEDED"]').count()).toBe(4);
    expect(await chart.locator(".gantt-wait-retry").count()).toBe(1);
    expect(await chart.locator(".gantt-wait-upstream").count()).toBe(3);

    await chart.getByRole("link", { name: /tue.*raw.*failed/ }).focus();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowRight");
    const focused = page.locator(":focus");
    expect(await focused.getAttribute("aria-label")).toMatch(
      /^Attempt 2 failed after .* on .*: the column amount is missing$/,
    );
    await page.getByText(/raw tue: Attempt 2 failed/).waitFor();
    await page.keyboard.press("Home");
    await page.keyboard.press("End");
    await page.keyboard.press("ArrowLeft");
    expect(await focused.textContent()).toMatch(/clean, skipped/);
    await page.keyboard.press("Enter");
    await page.getByText("Skipped: something upstream failed.").waitFor();
  });

  test("draws only the rows of a long timeline that are in sight, and reaches all", async () => {
    const partitions = { type: "integers", start: 0, end: 300 } as const;
    const specs = [{ kind: "asset", asset_key: "many", partitions } as const];
    await site.client.call("publishDefinitions", { body: { specs } });
    const keys = Array.from({ length: 300 }, (_, index) => String(index));
    const run_id = await request(["many"], { partition_keys: keys });
    const { page } = await browser.visit(`${site.url}/runs/${run_id}`);
    const chart = page.getByRole("grid", { name: "Timeline of the tasks" });
    await chart.getByRole("link", { name: /^0.*many.*ready/ }).focus();
    expect(await chart.getByRole("row").count()).toBeLessThan(50);
    await page.keyboard.press("End");
    await expect.poll(() => page.locator(":focus").textContent()).toMatch(/^299many, ready/);
    await page.getByLabel("Tasks", { exact: true }).selectOption("failed or retried");
    await page.getByText("No task matches.").waitFor();
    expect(new URL(page.url()).search).toBe("?show=trouble");
    await site.client.call("cancelRun", { params: { run_id }, body: {} });
  });

  test("draws what waits for what, each box a way to its task", async () => {
    const run_id = await failedRun();
    const { page } = await browser.visit(`${site.url}/runs/${run_id}?view=graph`);
    const graph = page.getByRole("region", { name: "Tasks of the run" });
    await graph.getByRole("link").nth(5).waitFor();
    expect(await graph.getByRole("link").count()).toBe(6);
    await graph.getByRole("link", { name: /raw.*tue.*failed/ }).click();
    await status(page, "FAILED").waitFor();
    expect(new URL(page.url()).pathname).toBe(`/runs/${run_id}/tasks/1`);
  });

  test("shows lines and progress as they come, and is cancelled with a reason", async () => {
    const run_id = await request(["slow"]);
    const { page } = await browser.visit(`${site.url}/runs/${run_id}/tasks/0`);
    await status(page, "RUNNING").waitFor();
    const log = page.getByRole("region", { name: "Log lines" });
    await log.getByText("began").waitFor();
    await page.getByText(/\d+ of 100 rows/).waitFor();
    await page.getByRole("region", { name: "Checkpoint" }).getByText('"page": 7').waitFor();
    expect(await log.getByText("goes on").count()).toBe(0);
    site.write("go-on", "");
    await log.getByText("goes on").first().waitFor();

    await page.getByRole("link", { name: /^Run run_/ }).click();
    await page.getByRole("button", { name: "Cancel run" }).focus();
    await page.keyboard.press("Enter");
    const dialog = page.getByRole("dialog");
    await dialog.getByText("1 task running now will be stopped").waitFor();
    await dialog.getByLabel("Reason").fill("was only a test");
    await page.keyboard.press("Enter");
    await status(page, "CANCELLED").waitFor();
    expect(await site.client.call("getRun", { params: { run_id } })).toMatchObject({
      state: "CANCELLED",
      cancel_reason: "was only a test",
    });
    const again = page.getByRole("button", { name: "Cancel run" });
    expect(await again.getAttribute("aria-disabled")).toBe("true");
  });

  test("says why nothing begins when no worker has the code", async () => {
    const specs = [{ kind: "asset", asset_key: "lonely", partitions: null } as const];
    await site.client.call("publishDefinitions", { body: { specs } });
    const run_id = await request(["lonely"]);
    const { page } = await browser.visit(`${site.url}/runs/${run_id}`);
    await page.getByText("No worker polls for lonely.").waitFor();
    await page.goto(`${site.url}/runs/${run_id}/tasks/0`);
    await page.getByText("No worker polls for lonely.").waitFor();
  });

  test("refuses an address that names no run", async () => {
    const { page } = await browser.visit(`${site.url}/runs/run_nothing`, { allowed: [/404/] });
    await page.getByRole("alert").getByText("RUN_NOT_FOUND").waitFor();
    await expectAccessible(page);
  });
});

describe("a long log", () => {
  test("opens at its end and is read page by page", async () => {
    const run_id = await request(["chatty"]);
    await expect.poll(() => stateOf(run_id)).toBe("SUCCEEDED");
    const { page } = await browser.visit(`${site.url}/runs/${run_id}/tasks/0`);
    const log = page.getByRole("region", { name: "Log lines" });
    await log.getByText("line 450", { exact: true }).waitFor();
    expect(await log.getByText("line 400", { exact: true }).count()).toBe(0);
    await page.getByRole("button", { name: "First" }).click();
    await log.getByText("line 1", { exact: true }).waitFor();
    expect(new URL(page.url()).search).toBe("?page=1");
    await page.getByRole("button", { name: "Newer" }).click();
    await log.getByText("line 201", { exact: true }).waitFor();
    await page.getByText("Page 2 of 3, 450 lines.").waitFor();
  });
});

describe("conflicts", () => {
  test("shows both requests side by side, and in what they differ", async () => {
    const { page } = await browser.visit(`${site.url}/conflicts`);
    await page.getByText("No conflicts.").waitFor();
    const run_id = await conflict("nightly");
    const table = page.getByRole("region", { name: "Requests under nightly" });
    await table.getByRole("row", { name: "Partitions ≠ differs mon wed" }).waitFor();
    await table.getByRole("row", { name: 'Config {"full":true} {"full":true}' }).waitFor();
    await page.locator(`a[href="/runs/${run_id}"]`).click();
    await page.getByRole("heading", { level: 1, name: /^Run run_/ }).waitFor();
  });
});

describe("every page about runs", () => {
  test("can be used by everybody, in light and dark, and fits into a narrow window", async () => {
    const run_id = await failedRun();
    await conflict("weekly");
    const { page } = await browser.visit(`${site.url}/runs`);
    for (const [path, seen] of pagesOf(run_id)) {
      await page.emulateMedia({ colorScheme: "light" });
      await page.setViewportSize({ width: 1280, height: 900 });
      await page.goto(`${site.url}${path}`);
      await page.getByText(seen).first().waitFor();
      await expectAccessible(page);
      await page.emulateMedia({ colorScheme: "dark" });
      await page.setViewportSize({ width: 390, height: 844 });
      await expectNoSidewaysScroll(page);
      await expectAccessible(page);
    }
  });
});

function pagesOf(run_id: string): [path: string, seen: RegExp][] {
  return [
    ["/runs", /run_/],
    [`/runs/${run_id}`, /Point at a bar/],
    [`/runs/${run_id}?view=graph`, /^clean$/],
    [`/runs/${run_id}?view=tasks`, /raw tue/],
    [`/runs/${run_id}/tasks/1`, /rows=12/],
    ["/conflicts", /differs/],
  ];
}
