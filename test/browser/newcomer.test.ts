import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { EventData } from "../../src/work/events.ts";
import { type ServedProject, serveProject } from "./served-project.ts";
import { expectAccessible, TestBrowser } from "./test-browser.ts";

// Goal: somebody who has never seen Pawl gets a month filled, finds out what is wrong with one day of
// it and makes it good. Method: one visit that begins at the overview and goes on only by what is seen
// there, by its role and name; the project, its worker and its files are real.

const CONFIG = `
  import { readFileSync } from "node:fs";
  import { join } from "node:path";
  import { asset, daily, definePawl, multi, staticPartitions } from "pawl";

  const orders = asset("orders", {
    description: "What each region sold on a day.",
    partitions: multi({
      date: daily({ start: "2025-01-01" }),
      region: staticPartitions(["asia", "eu", "us"]),
    }),
    retry: { maxAttempts: 2, delayMs: 10 },
    materialize({ values, log }) {
      const file = \`orders-\${values.region}-\${values.date}.json\`;
      log(\`Reading \${file}\`);
      const text = readFileSync(join(import.meta.dirname, file), "utf8");
      try {
        return { metadata: { orders: JSON.parse(text).length } };
      } catch {
        throw new Error(\`The file \${file} is not JSON: \${text}\`);
      }
    },
  });

  export default definePawl({ assets: [orders] });
`;

let site: ServedProject;
let browser: TestBrowser;

beforeAll(async () => {
  [site, browser] = await Promise.all([serveProject(CONFIG), TestBrowser.open()]);
  for (const day of lastMonth()) site.write(`orders-eu-${day}.json`, "[1, 2, 3]");
  site.write(`orders-eu-${badDay()}.json`, "[1, 2, 3");
});

afterEach(() => browser.endVisits());

afterAll(async () => {
  await browser.close();
  await site.stop();
});

/** The days of the calendar month before this one. */
function lastMonth(): string[] {
  const now = new Date();
  const days: string[] = [];
  for (let day = 1; day <= 31; day++) {
    const date = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - 1, day));
    if (date.getUTCMonth() !== now.getUTCMonth()) days.push(date.toISOString().slice(0, 10));
  }
  return days;
}

const badDay = (): string => lastMonth()[16] ?? "";

test("a newcomer fills last month for one region, finds what failed, fixes it and retries it", async () => {
  const { page } = await browser.visit(site.url);
  await createForLastMonth(page);
  const failedId = backfillOf(page);

  await page.getByRole("heading", { level: 1, name: "Backfill of orders failed" }).waitFor();
  await page
    .getByText(`${lastMonth().length - 1} succeeded`)
    .first()
    .waitFor();
  const file = await findTheBadFile(page);
  site.write(file, "[4, 5]");

  await retryWhatFailed(page);
  const retryId = backfillOf(page);
  await seeEverythingGreen(page);
  await expectInLedger(failedId, retryId);
});

/** From the overview to a backfill of last month in Europe. */
async function createForLastMonth(page: Page): Promise<void> {
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  await page.getByRole("link", { name: "New backfill" }).first().click();
  await page.getByRole("checkbox", { name: "orders" }).check();
  await page.getByRole("button", { name: "Last month" }).click();
  await page.getByRole("button", { name: "None of region" }).click();
  await page.getByRole("checkbox", { name: "eu" }).check();
  const preview = page.getByRole("region", { name: "Preview" });
  const days = lastMonth();
  const chunks = Math.ceil(days.length / 10);
  await preview.getByText(`${days.length} partitions in ${chunks} chunks`).waitFor();
  await preview.getByText(`date=${days[0]},region=eu`).waitFor();
  await page.getByRole("button", { name: "New backfill" }).click();
  await page.waitForURL(/\/backfills\/[0-9A-Z]+$/);
}

function backfillOf(page: Page): string {
  return new URL(page.url()).pathname.replace("/backfills/", "");
}

/** From the failures of the backfill to the task that failed; answers the file that its error names. */
async function findTheBadFile(page: Page): Promise<string> {
  const failures = page.getByRole("region", { name: "Failures by error" });
  await failures.getByText("is not JSON").first().waitFor();
  await failures.getByRole("link", { name: `date=${badDay()},region=eu` }).click();
  const error = page.getByRole("alert");
  await error.waitFor();
  await page
    .getByRole("region", { name: "Log lines" })
    .getByText("Reading orders")
    .first()
    .waitFor();
  await expectAccessible(page);
  const [, file = ""] = /The file (\S+) is not JSON/.exec(await error.innerText()) ?? [];
  expect(file).toBe(`orders-eu-${badDay()}.json`);
  return file;
}

/** Back to the backfill by the menu, and to a new one of what failed in it. */
async function retryWhatFailed(page: Page): Promise<void> {
  await page.getByRole("link", { name: "Backfills", exact: true }).click();
  const list = page.getByRole("region", { name: "Backfills" });
  await list.getByRole("link", { name: "orders" }).click();
  const failed = page.url();
  await page.getByRole("button", { name: "Retry failed" }).click();
  const dialog = page.getByRole("dialog", { name: "Retry failed" });
  await dialog.getByRole("radio", { name: "The 1 partition that failed" }).waitFor();
  await dialog.getByRole("button", { name: "Retry failed" }).click();
  await page.waitForURL((url) => url.href !== failed && url.pathname.startsWith("/backfills/"));
}

async function seeEverythingGreen(page: Page): Promise<void> {
  await page.getByRole("heading", { level: 1, name: "Backfill of orders succeeded" }).waitFor();
  await page.getByRole("link", { name: "Overview", exact: true }).click();
  await page.getByRole("heading", { level: 2, name: "Needs attention" }).waitFor();
  await page
    .getByRole("listitem")
    .filter({ hasText: /^0\D*Failed$/ })
    .waitFor();
}

/** What the ledger says happened: two backfills, each partition once, the bad one tried again. */
async function expectInLedger(failedId: string, retryId: string): Promise<void> {
  const { client } = site;
  const created = await client.call("listEvents", { query: { types: "BackfillCreated" } });
  const days = lastMonth();
  const bad = `date=${badDay()},region=eu`;
  expect(created.items.map(({ data }) => data as unknown as EventData<"BackfillCreated">)).toEqual([
    expect.objectContaining({
      backfill_id: failedId,
      asset_selection: ["orders"],
      partition_selector: {
        type: "filter",
        dimensions: { date: { start: days[0], end: days.at(-1) }, region: ["eu"] },
      },
      total_partitions: days.length,
    }),
    expect.objectContaining({
      backfill_id: retryId,
      parent_backfill_id: failedId,
      partition_selector: { type: "outcome", backfill_id: failedId, outcomes: ["FAILED"] },
      total_partitions: 1,
    }),
  ]);
  const backfill = (backfill_id: string) => client.call("getBackfill", { params: { backfill_id } });
  expect(await backfill(failedId)).toMatchObject({
    state: "FAILED",
    partitions_succeeded: days.length - 1,
    partitions_failed: 1,
  });
  expect(await backfill(retryId)).toMatchObject({ state: "SUCCEEDED", partitions_succeeded: 1 });
  const query = { asset: "orders", limit: 200 };
  const { items } = await client.call("listPartitions", { query });
  const made = Object.fromEntries(items.map((each) => [each.partition_key, each.metadata]));
  const expected = days.map((day) => [`date=${day},region=eu`, { orders: 3 }]);
  expect(made).toEqual({ ...Object.fromEntries(expected), [bad]: { orders: 2 } });
  expect(items.every(({ last_attempt_outcome }) => last_attempt_outcome === "SUCCEEDED")).toBe(
    true,
  );
}
