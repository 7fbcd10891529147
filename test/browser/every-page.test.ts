import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { serveExample, type ServedProject } from "./served-project.ts";
import { expectAccessible, expectNoSidewaysScroll, TestBrowser } from "./test-browser.ts";

// Goal: no page of the example is out of anybody's reach: in the light on a wide screen, in the dark
// on a phone. Method: axe on each, after everything on it has come.

let site: ServedProject;
let browser: TestBrowser;
/** What is known only once it is there, by the word that stands for it in a path. */
const ids: Record<string, string> = {};

beforeAll(async () => {
  [site, browser] = await Promise.all([serveExample("sales"), TestBrowser.open()]);
  const { client } = site;
  const { backfill_id } = await client.call("createBackfill", {
    body: {
      assets: ["raw_orders", "clean_orders"],
      selector: {
        type: "filter",
        dimensions: { date: { start: "2025-02-08", end: "2025-02-14" } },
      },
    },
  });
  const changes = client.follow({ types: ["BackfillStateChanged"], entity: backfill_id });
  for await (const { data } of changes) {
    if ((data as { to_state: string }).to_state === "FAILED") break;
  }
  const { items: runs } = await client.call("listRuns", { query: { status: "FAILED" } });
  const { items: schedules } = await client.call("listSchedules");
  const { items: sensors } = await client.call("listSensors");
  Object.assign(ids, {
    backfill: backfill_id,
    run: runs[0]?.run_id,
    schedule: schedules[0]?.schedule_id,
    sensor: sensors[0]?.sensor_id,
    chunk: encodeURIComponent(`${backfill_id}:${runs[0]?.chunk_index}`),
    partition: encodeURIComponent("clean_orders@date=2025-02-10,region=eu"),
  });
});

afterEach(() => browser.endVisits());

afterAll(async () => {
  await browser.close();
  await site.stop();
});

const PATHS = [
  "/",
  "/backfills",
  "/backfills/new?asset=clean_orders",
  "/backfills/{backfill}",
  "/backfills/{backfill}?view=list",
  "/assets",
  "/lineage",
  "/assets/clean_orders",
  "/assets/clean_orders?view=list",
  "/assets/clean_orders?view=numbers",
  "/assets/clean_orders?view=lineage",
  "/assets/clean_orders?view=definition",
  "/assets/monthly_sales",
  "/runs",
  "/runs/{run}",
  "/runs/{run}?view=graph",
  "/runs/{run}?view=tasks",
  "/runs/{run}/tasks/0",
  "/schedules",
  "/schedules/new",
  "/schedules/{schedule}",
  "/sensors",
  "/sensors/{sensor}",
  "/webhooks",
  "/syncs",
  "/moves",
  "/moves/new",
  "/splits",
  "/splits/new",
  "/routing",
  "/conflicts",
  "/ledger",
  "/ledger/{backfill}?view=history",
  "/ledger/{chunk}?view=why",
  "/ledger/{partition}?view=why",
  "/ledger/1",
];

describe.each([
  ["in the light, on a wide screen", { theme: "light", width: 1280, height: 900 } as const],
  ["in the dark, on a phone", { theme: "dark", width: 390, height: 800 } as const],
])("%s", (_where, options) => {
  test("every page can be used by everybody", async () => {
    const { page } = await browser.visit(site.url, options);
    for (const path of PATHS) {
      const place = path.replaceAll(/\{(\w+)\}/g, (_, word: string) => ids[word] ?? "");
      await page.goto(`${site.url}${place}`);
      await page.getByRole("heading", { level: 1 }).waitFor();
      await expect.poll(() => page.getByText("Loading…").count(), { message: path }).toBe(0);
      await expectAccessible(page, path);
      await expectNoSidewaysScroll(page, path);
    }
  });
});
