import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type Api, publish, startApi, type TokenClient } from "../end-to-end/api-server.ts";
import { expectAccessible, expectNoSidewaysScroll, TestBrowser } from "./test-browser.ts";

/** What a browser says by itself of an answer that is no success. */
const REFUSED = [/Failed to load resource: the server responded with a status of 40[13]/];

let api: Api;
let browser: TestBrowser;
let alice: TokenClient;

beforeAll(async () => {
  api = await startApi({ tokensRequired: true, workspaces: ["default", "other"] });
  alice = await api.clientOf(0, ["read", "write", "admin"], "alice");
  await publish(alice);
  browser = await TestBrowser.open();
});

afterEach(() => browser.endVisits());

afterAll(async () => {
  await browser.close();
  await api.close();
});

describe("signing in", () => {
  test("asks for a token, says when it is no good, and goes where one wanted to", async () => {
    const { page } = await browser.visit(`${api.url}/runs`, { allowed: REFUSED });
    await page.getByRole("heading", { name: "Sign in to Pawl" }).waitFor();
    await expectAccessible(page);
    await page.getByLabel("Token").fill("pawl_no_such");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").getByText("The token is not valid").waitFor();

    await page.getByLabel("Token").fill(alice.token);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "Runs" }).waitFor();
    expect(new URL(page.url()).pathname).toBe("/runs");
    await page.getByText("alice").waitFor();
    await page.getByText("Live", { exact: true }).waitFor();
  });

  test("I72: keeps the token where no script can read it, and nowhere else", async () => {
    const { page } = await browser.visit(api.url);
    await page.getByLabel("Token").fill(alice.token);
    await page.keyboard.press("Enter");
    await page.getByText("Live", { exact: true }).waitFor();
    const seen = await page.evaluate(() =>
      JSON.stringify([document.cookie, ...[localStorage, sessionStorage].map(Object.entries)]),
    );
    expect(seen).not.toContain("pawl_");
    const [cookie] = await page.context().cookies();
    expect(cookie).toMatchObject({
      name: "pawl_session",
      value: alice.token,
      httpOnly: true,
      sameSite: "Strict",
      expires: -1,
    });
  });

  test("signs out", async () => {
    const { page } = await browser.visit(api.url, { width: 390, height: 800, allowed: REFUSED });
    await page.getByLabel("Token").fill(alice.token);
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in to Pawl" }).waitFor();
    expect(await page.context().cookies()).toEqual([]);
    await expectNoSidewaysScroll(page);
  });

  test("asks for nothing once signed out, also where it was about to", async () => {
    const { page } = await browser.visit(api.url, { allowed: REFUSED, isLast: true });
    await page.clock.install();
    await page.route(/changes/, (route) => route.fulfill({ status: 401 }));
    const isRefused = page.waitForResponse(/changes/);
    await page.getByLabel("Token").fill(alice.token);
    await page.keyboard.press("Enter");
    await isRefused;
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in to Pawl" }).waitFor();
    const asked: string[] = [];
    page.on("request", (request) => asked.push(request.url()));
    await page.clock.runFor(10_000);
    expect(asked).toEqual([]);
  });

  test("I72: asks again as soon as the token was revoked", async () => {
    const made = await alice.call("createToken", { body: { principal: "ci", verbs: ["read"] } });
    const { page } = await browser.visit(api.url, { allowed: REFUSED });
    await page.getByLabel("Token").fill(made.token);
    await page.keyboard.press("Enter");
    await page.getByText("Live", { exact: true }).waitFor();
    await alice.call("revokeToken", { params: { token_id: made.token_id } });
    await page.getByRole("heading", { name: "Sign in to Pawl" }).waitFor();
  });

  test("lets one who may only read see everything, and says why the buttons are no use", async () => {
    const { backfill_id } = await alice.call("createBackfill", {
      body: { assets: ["sales/orders"], selector: { type: "all" } },
    });
    const reader = await api.clientOf(0, ["read"], "eve");
    const { page } = await browser.visit(`${api.url}/backfills/${backfill_id}`, {
      allowed: REFUSED,
    });
    await page.getByLabel("Token").fill(reader.token);
    await page.keyboard.press("Enter");
    const lacks = "Your token (eve) may read, and this needs the right to write.";
    const pause = page.getByRole("button", { name: "Pause" });
    await pause.waitFor();
    expect(await pause.getAttribute("title")).toBe(lacks);
    await pause.click({ force: true });
    expect(await page.getByRole("dialog").count()).toBe(0);
    await page.goto(`${api.url}/backfills/new?assets=sales/orders`);
    await page.getByText(lacks).waitFor();
    await expectAccessible(page);
    const params = { backfill_id };
    expect(await alice.call("getBackfill", { params })).toMatchObject({ state: "RUNNING" });
  });

  test("shows nothing of what somebody else saw before", async () => {
    const { page } = await browser.visit(`${api.url}/assets`, { allowed: REFUSED });
    await page.getByLabel("Token").fill(alice.token);
    await page.keyboard.press("Enter");
    await page.getByText("sales/orders").first().waitFor();
    await page.getByRole("button", { name: "Sign out" }).click();
    const other = await api.clientOf(1, ["read"], "eve");
    await page.getByLabel("Token").fill(other.token);
    let release = (): void => undefined;
    const held = new Promise<void>((resolve) => (release = resolve));
    await page.route(/orchestration\/assets/, async (route) => {
      await held;
      await route.continue();
    });
    await page.keyboard.press("Enter");
    await page.getByRole("main").getByText("Loading…").waitFor();
    release();
    await page.getByText("No assets yet.").waitFor();
  });
});
