import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type ServedProject, serveProject } from "./served-project.ts";
import { expectAccessible, expectNoSidewaysScroll, TestBrowser } from "./test-browser.ts";

let site: ServedProject;
let browser: TestBrowser;

beforeAll(async () => {
  [site, browser] = await Promise.all([
    serveProject(`
      import { asset, definePawl } from "pawl";
      export default definePawl({ assets: [asset("numbers", { materialize: () => undefined })] });
    `),
    TestBrowser.open(),
  ]);
});

afterEach(() => browser.endVisits());

afterAll(async () => {
  await browser.close();
  await site.stop();
});

describe("the frame around every page", () => {
  test("leads to every part by its menu, and says where one is", async () => {
    const { page } = await browser.visit(site.url);
    await page.getByRole("link", { name: "Backfills" }).click();
    await page.getByRole("heading", { level: 1, name: "Backfills" }).waitFor();
    expect(new URL(page.url()).pathname).toBe("/backfills");
    expect(await page.title()).toBe("Backfills · Pawl");
    expect(await page.getByRole("link", { name: "Backfills" }).getAttribute("aria-current")).toBe(
      "page",
    );
  });

  test("opens at any address", async () => {
    const { page } = await browser.visit(`${site.url}/runs`);
    await page.getByRole("heading", { level: 1, name: "Runs" }).waitFor();
  });

  test("loads the page while it is still asked who looks at it", async () => {
    const { page } = await browser.visit(`${site.url}/runs`);
    await page.getByRole("heading", { level: 1, name: "Runs" }).waitFor();
    const isPart = (url: string): boolean => new URL(url).pathname.startsWith("/assets/run-list-");
    let isPartLoaded = false;
    page.on("requestfinished", (request) => (isPartLoaded ||= isPart(request.url())));
    await page.route("**/api/v1/session", async (route) => {
      await expect.poll(() => isPartLoaded, { timeout: 180_000 }).toBe(true);
      await route.continue();
    });
    await page.reload();
    await page.getByRole("heading", { level: 1, name: "Runs" }).waitFor();
    await page.unroute("**/api/v1/session");
  });

  test("says so where there is nothing", async () => {
    const { page } = await browser.visit(`${site.url}/no/such/place`);
    await page.getByText("Page not found.").waitFor();
    await expectAccessible(page);
  });

  test("goes places by keys and tells which", async () => {
    const { page } = await browser.visit(site.url);
    await page.getByText("Live", { exact: true }).waitFor();
    await page.keyboard.press("g");
    await page.keyboard.press("l");
    await page.getByRole("heading", { level: 1, name: "Ledger" }).waitFor();
    await page.keyboard.press("?");
    await page.getByRole("dialog").getByText("Overview").waitFor();
    await expectAccessible(page);
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
  });

  test("is dark where that is wanted, and remembers it", async () => {
    const { page } = await browser.visit(site.url);
    const ground = () =>
      page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const light = await ground();
    await page.getByLabel("Theme").selectOption("dark");
    const dark = await ground();
    expect(dark).not.toBe(light);
    await page.reload();
    await page.getByLabel("Theme").waitFor();
    expect(await ground()).toBe(dark);
    await expectAccessible(page);
  });

  test("has its menu behind a button where the window is narrow", async () => {
    const { page } = await browser.visit(site.url, { width: 390, height: 800 });
    await page.getByRole("button", { name: "Menu" }).click();
    await page.getByRole("link", { name: "Sensors" }).click();
    await page.getByRole("heading", { level: 1, name: "Sensors" }).waitFor();
    await expectNoSidewaysScroll(page);
    await expectAccessible(page);
  });
});
