import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type ServedProject, serveProject } from "./served-project.ts";
import { TestBrowser } from "./test-browser.ts";

/** What a browser says by itself while the server is away. */
const AWAY = [/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_RESET/];
const PART_AWAY = [...AWAY, /Failed to fetch dynamically imported module|Unable to preload/];

/** Style sheets that the page asked for and did not get. */
function unstyled(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const hasRules = ({ sheet }: HTMLLinkElement): boolean => {
      try {
        return (sheet?.cssRules.length ?? 0) > 0;
      } catch {
        // The rules of what did not come are kept from the page as those of another site are.
        return false;
      }
    };
    const links = document.querySelectorAll<HTMLLinkElement>("link[rel=stylesheet]");
    return [...links].filter((link) => !hasRules(link)).map(({ href }) => href);
  });
}

let site: ServedProject;
let browser: TestBrowser;

beforeAll(async () => {
  [site, browser] = await Promise.all([
    serveProject(`
      import { asset, definePawl } from "pawl";
      const names = ["numbers", ...Array.from({ length: 39 }, (_, at) => "more/" + at)];
      const materialize = () => undefined;
      export default definePawl({ assets: names.map((name) => asset(name, { materialize })) });
    `),
    TestBrowser.open(),
  ]);
});

afterEach(() => browser.endVisits());

afterAll(async () => {
  await browser.close();
  await site.stop();
});

const requestRun = () => site.client.call("requestRun", { body: { assets: ["numbers"] } });

describe("a page that is open", () => {
  test("I75: shows what happens without being loaded anew", async () => {
    const { page } = await browser.visit(`${site.url}/runs`);
    await page.getByText("Live", { exact: true }).waitFor();
    const waitedMs: number[] = [];
    for (let count = 0; count < 10; count++) {
      const { run_id } = await requestRun();
      const startedMs = performance.now();
      const row = page.getByRole("row").filter({ has: page.getByTitle(run_id) });
      await row.getByText("succeeded").waitFor();
      const [run] = [await site.client.call("getRun", { params: { run_id } })];
      const doneMs = Date.parse(run.finished_at ?? "") - Date.parse(run.requested_at);
      waitedMs.push(performance.now() - startedMs - doneMs);
    }
    const sorted = waitedMs.toSorted((one, other) => one - other);
    console.log(`Live: shown ${sorted.map((ms) => Math.round(ms)).join(", ")} ms after the event`);
    expect(await page.evaluate(() => performance.getEntriesByType("navigation").length)).toBe(1);
  });

  test("asks once who looks at it when it opens", async () => {
    const { page } = await browser.visit(`${site.url}/runs`);
    const asked: string[] = [];
    page.on("request", (request) => asked.push(new URL(request.url()).pathname));
    await page.reload();
    await page.getByText("Live", { exact: true }).waitFor();
    // The runs are asked for again when the page hears of changes; by then all else is, too.
    const isRuns = (path: string): boolean => path.endsWith("/runs");
    await expect.poll(() => asked.filter(isRuns).length, { timeout: 60_000 }).toBeGreaterThan(1);
    expect(asked.filter((path) => path === "/api/v1/session")).toHaveLength(1);
  });

  test("asks the less often the more it has to ask", async () => {
    const { page } = await browser.visit(`${site.url}/assets`);
    await page.getByText("Live", { exact: true }).waitFor();
    await page.getByText("never materialized").nth(38).waitFor();
    const asked: string[] = [];
    page.on("request", (request) => asked.push(request.url()));
    const startedMs = performance.now();
    for (let count = 0; count < 40; count++) {
      const { run_id } = await requestRun();
      await expect
        .poll(() => site.client.call("getRun", { params: { run_id } }), { interval: 20 })
        .toMatchObject({ state: "SUCCEEDED" });
    }
    const summaries = asked.filter((url) => url.includes("summary"));
    const byQuestion = Map.groupBy(summaries, (url) => url);
    const rounds = Math.max(...[...byQuestion.values()].map((asks) => asks.length));
    // Forty questions, of which each keeps the others waiting for 50 ms.
    expect(rounds).toBeLessThanOrEqual(2 + (performance.now() - startedMs) / 2_000);
    expect(rounds).toBeGreaterThan(0);
  });

  test("I75: says that the server is away where a part of the page cannot be loaded, and loads it then", async () => {
    const { page } = await browser.visit(`${site.url}/runs`, { allowed: PART_AWAY });
    await page.getByText("Live", { exact: true }).waitFor();
    let loads = 0;
    page.on("load", () => (loads += 1));
    await site.restart(async () => {
      await page.getByText("Connecting…").waitFor();
      await page.getByRole("link", { name: "Sensors", exact: true }).click();
      await page.getByText("The server does not respond.").first().waitFor();
      expect(await page.getByText("This page broke").count()).toBe(0);
    });
    await page.getByRole("heading", { level: 1, name: "Sensors" }).waitFor({ timeout: 180_000 });
    await page.getByText("The server does not respond.").waitFor({ state: "detached" });
    expect(new URL(page.url()).pathname).toBe("/sensors");
    expect(await unstyled(page)).toEqual([]);
    await expect.poll(() => loads).toBe(1);
  });

  test("I75: has its styles where another part failed to load while the server was away", async () => {
    const { page } = await browser.visit(`${site.url}/runs`, { allowed: PART_AWAY });
    await page.getByText("Live", { exact: true }).waitFor();
    let loads = 0;
    page.on("load", () => (loads += 1));
    await site.restart(async () => {
      await page.getByText("Connecting…").waitFor();
      await page.getByRole("link", { name: "Sensors", exact: true }).click();
      await page.getByText("The server does not respond.").first().waitFor();
      // What is there already is still shown, and is not taken away when the server is back.
      await page.getByRole("link", { name: "Runs", exact: true }).click();
      await page.getByRole("heading", { level: 1, name: "Runs" }).waitFor();
    });
    await page.getByText("Live", { exact: true }).waitFor();
    expect(loads).toBe(0);
    await page.getByRole("link", { name: "Sensors", exact: true }).click();
    await page.getByRole("heading", { level: 1, name: "Sensors" }).waitFor();
    expect(await unstyled(page)).toEqual([]);
  });

  test("I75: catches up after the server was away", async () => {
    const { page } = await browser.visit(`${site.url}/runs`, { allowed: AWAY });
    await page.getByText("Live", { exact: true }).waitFor();
    await site.restart(async () => {
      await page.getByText("Connecting…").waitFor();
    });
    const { run_id } = await requestRun();
    await page.getByText("Live", { exact: true }).waitFor();
    await page.getByTitle(run_id).waitFor();
  });
});
