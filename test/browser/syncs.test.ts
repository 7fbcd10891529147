import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type Api, startApi } from "../end-to-end/api-server.ts";
import {
  endSegments,
  fetchSegments,
  publishSyncs,
  reach,
  seeHeads,
  takeSegments,
  TRANSFERS,
} from "../end-to-end/sync-hand.ts";
import { pressByKeyboard, tabTo, typeInto } from "./keyboard.ts";
import { expectAccessible, expectNoSidewaysScroll, TestBrowser } from "./test-browser.ts";

const MAIN = "transfers@network=main,wallet=0xa";
/** A sync that has nothing to do but to follow its head. */
const FOLLOWER = { ...TRANSFERS, name: "follower", targets: [{ network: "side", wallet: "0xc" }] };
const HOSTILE = `<img src=x onerror="document.title='owned'">\u202Egnp.exe ${"x".repeat(4_000)}`;

let api: Api;
let browser: TestBrowser;
let syncId: string;

beforeAll(async () => {
  // A clock that stands still, so that what a test holds is never taken from it.
  const clockAt = new Date().toISOString();
  [api, browser] = await Promise.all([startApi({ clockAt }), TestBrowser.open()]);
  const { client } = api;
  await publishSyncs(client, TRANSFERS, FOLLOWER);
  await seeHeads(client, "transfers", { main: 1_004 });
  await seeHeads(client, "follower", { side: 14 });
  await fetchSegments(client, "follower", 1);
  syncId = (await getSync()).sync_id;
  const [first, second, third] = await takeSegments(client, "transfers", 3);
  if (!first || !second || !third) throw new Error("Three were taken.");
  const error = { class: "user", message: HOSTILE };
  await endSegments(client, [first], {
    report: {
      quarantined: [
        { block: 40, error },
        { block: 60, error },
        { block: 80, error },
      ],
    },
  });
  await endSegments(client, [second]);
  await endSegments(client, [third], { error: { class: "user", message: "The node is away." } });
});

afterEach(() => browser.endVisits());

afterAll(async () => {
  await browser.close();
  await api.close();
});

function getSync(sync = MAIN) {
  return api.client.call("getSync", { params: { sync } });
}

async function eventsOf(type: string) {
  const query = { entity: syncId, types: type, limit: 200 };
  return (await api.client.call("listEvents", { query })).items;
}

/** Opens the dialog of an action with the keyboard. */
async function open(page: Page, name: string) {
  await pressByKeyboard(page, page.getByRole("button", { name, exact: true }));
  const dialog = page.getByRole("dialog");
  await dialog.waitFor();
  return dialog;
}

/** Does what the open dialog is about, and waits for the server's word. */
async function confirm(page: Page, name: string): Promise<void> {
  const dialog = page.getByRole("dialog");
  await pressByKeyboard(page, dialog.getByRole("button", { name, exact: true }));
  await dialog.waitFor({ state: "detached" });
}

describe("the list of syncs", () => {
  test("shows lag, rate, what is left, segments and trouble, and leads to each", async () => {
    const { page } = await browser.visit(`${api.url}/syncs`);
    const row = page.getByRole("row", { name: /network=main,wallet=0xa/ });
    await row.locator("[data-state=FAILED]").waitFor();
    await row.getByText("960 blocks").waitFor();
    await row.getByText(/^\d[\d.,]*\/s$/).waitFor();
    await row.getByText(/3 quarantined, 1 waiting for a retry/).waitFor();
    await page.getByText("207 of 1,010").waitFor();
    const follower = page.getByRole("row", { name: /follower@/ });
    await follower.getByText("following").waitFor();
    await follower.getByText("at the head").waitFor();
    await expectAccessible(page);
    await row.getByRole("link").first().click();
    await page.getByRole("heading", { level: 1, name: /wallet=0xa/ }).waitFor();
  });

  test("tells of sources and of everything that was quarantined", async () => {
    const { page } = await browser.visit(`${api.url}/syncs?view=sources`, { theme: "dark" });
    const source = page.getByRole("row", { name: /main of transfers/ });
    await source.getByText("1,004").waitFor();
    await source.getByText("responding").waitFor();
    await expectAccessible(page);
    await page.getByRole("link", { name: "Quarantine (3)" }).click();
    await page.getByRole("row", { name: /block 40/ }).waitFor();
    await expectAccessible(page);
  });

  test("is narrowed by filters that stand in the address, and says when nothing fits", async () => {
    const { page } = await browser.visit(`${api.url}/syncs?status=COMPLETE`);
    await page.getByText("No sync matches these filters.").waitFor();
    await page.getByLabel("Status").selectOption("FAILED");
    await page.getByRole("row", { name: /wallet=0xa/ }).waitFor();
    expect(new URL(page.url()).searchParams.get("status")).toBe("FAILED");
  });

  test("takes another target by the keyboard alone, and lets it be removed again", async () => {
    const { page } = await browser.visit(`${api.url}/syncs`);
    await open(page, "Add a target");
    const dialog = page.getByRole("dialog");
    await tabTo(page, dialog.getByLabel("Sync", { exact: true }));
    await page.keyboard.type("transfers");
    await dialog.getByText("like the others of transfers").waitFor();
    await typeInto(page, dialog.getByLabel("network"), "main");
    await typeInto(page, dialog.getByLabel("wallet"), "0xb");
    await typeInto(page, dialog.getByLabel("To block (as defined)"), "500");
    await confirm(page, "Add a target");
    await page.getByRole("link", { name: /wallet=0xb/ }).click();
    await page.getByRole("heading", { level: 1, name: /wallet=0xb/ }).waitFor();
    const added = await getSync("transfers@network=main,wallet=0xb");
    expect(added).toMatchObject({ origin: "api", to_limit: 500, from_block: 0 });
    await open(page, "Remove");
    await confirm(page, "Remove");
    await page.getByRole("heading", { level: 1, name: "Syncs" }).waitFor();
    expect(await getSync(added.sync_id)).toMatchObject({ state: "REMOVED" });
    await page.getByRole("link", { name: /wallet=0xb/ }).waitFor({ state: "detached" });
  });
});

describe("the page of a sync", () => {
  test("shows a strip of its segments that the keyboard walks along, and a segment's details", async () => {
    const { page } = await browser.visit(`${api.url}/syncs/${syncId}`);
    const strip = page.getByRole("list", { name: "Segments from block 0 on" });
    const cells = strip.getByRole("link");
    await cells.nth(15).waitFor();
    expect(await cells.count()).toBe(16);
    await tabTo(page, cells.first());
    await page.keyboard.press("End");
    await page.keyboard.press("Home");
    await page.keyboard.press("ArrowRight");
    const label = await page.evaluate(() => document.activeElement?.getAttribute("aria-label"));
    expect(label).toMatch(/^Segment \d+, block 40: quarantined$/);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 2, name: /^Segment \d+$/ }).waitFor();
    await page.getByRole("button", { name: /^Exclude segment/ }).waitFor();
    const [taken] = await takeSegments(api.client, "transfers", 1);
    if (!taken) throw new Error("One was taken.");
    await reach(api.client, taken, 349);
    await strip.getByRole("link", { name: /blocks 300 to 399: running/ }).click();
    await page.getByText("50.0 %").waitFor();
    await page.getByText("hand", { exact: true }).waitFor();
    await expectAccessible(page);
  });

  test("says what went wrong and when it is tried again", async () => {
    const { page } = await browser.visit(`${api.url}/syncs/${syncId}?view=segments&status=FAILED`);
    const row = page.getByRole("row", { name: /200 – 299/ });
    await row.getByText("The node is away.").waitFor();
    await row.getByText(/1, next in/).waitFor();
    await page.getByText(/attempts? failed so far; next attempt/).waitFor();
    await expectAccessible(page);
    await row.getByRole("link").first().click();
    await page.getByRole("heading", { level: 2, name: /^Segment \d+$/ }).waitFor();
    await page.getByRole("link", { name: "Close" }).click();
    await page.getByRole("heading", { level: 2, name: /^Segment \d+$/ }).waitFor({
      state: "detached",
    });
    expect(new URL(page.url()).search).toBe("?view=segments&status=FAILED");
  });

  test("follows what others do without a reload", async () => {
    const { page } = await browser.visit(`${api.url}/syncs/${syncId}?view=segments`);
    const heading = page.getByRole("heading", { level: 1 });
    await heading.getByText("failed").waitFor();
    const body = { expected_state_version: (await getSync()).state_version };
    await api.client.call("pauseSync", { params: { sync: MAIN }, body });
    await heading.getByText("paused").waitFor();
    await api.client.call("resumeSync", { params: { sync: MAIN }, body: {} });
    await heading.getByText("paused").waitFor({ state: "detached" });
  });

  test("is read in the dark and on a phone, whatever an error says", async () => {
    const { page } = await browser.visit(`${api.url}/syncs/${syncId}?view=quarantine`, {
      theme: "dark",
      width: 390,
      height: 800,
    });
    await page.getByRole("row", { name: /block 40/ }).waitFor();
    await page
      .getByText(/<img src=x onerror=/)
      .first()
      .waitFor();
    await page
      .getByText(/⟨U\+202E⟩gnp\.exe/)
      .first()
      .waitFor();
    expect(await page.locator("main img").count()).toBe(0);
    expect(await page.title()).not.toContain("owned");
    await expectNoSidewaysScroll(page);
    await expectAccessible(page);
    for (const view of ["", "?view=segments", "?segment=3"]) {
      await page.goto(`${api.url}/syncs/${syncId}${view}`);
      await page.getByRole("list", { name: "Segments from block 0 on" }).waitFor();
      await expectNoSidewaysScroll(page);
    }
    await page.goto(`${api.url}/syncs`);
    await page.getByRole("row", { name: /wallet=0xa/ }).waitFor();
    await expectNoSidewaysScroll(page);
  });

  test("draws how far it was behind its head", async () => {
    await api.sampler.sample();
    const sync = "follower@network=side,wallet=0xc";
    const { page } = await browser.visit(`${api.url}/syncs/${encodeURIComponent(sync)}`);
    await page.getByRole("img", { name: /^Lag/ }).waitFor();
    await expectAccessible(page);
  });

  test("says so where there is no such sync", async () => {
    const { page } = await browser.visit(`${api.url}/syncs/nothing`, { allowed: [/404/] });
    await page.getByText(/There is no sync "nothing"/).waitFor();
    await page.goto(`${api.url}/syncs/${encodeURIComponent("%41/50%")}`);
    await page.getByText('There is no sync "%41/50%"').waitFor();
  });
});

describe("what can be done with a sync, by the keyboard alone", () => {
  test("it is paused with a reason and resumed", async () => {
    const { page } = await browser.visit(`${api.url}/syncs/${syncId}`);
    const dialog = await open(page, "Pause");
    await dialog.getByText(/Segments keep their progress/).waitFor();
    await expectAccessible(page);
    await typeInto(page, dialog.getByLabel("Reason (for the record)"), "the node is repaired");
    await confirm(page, "Pause");
    await page.getByRole("heading", { level: 1 }).getByText("paused").waitFor();
    expect((await eventsOf("SyncStateChanged")).at(-1)?.data).toMatchObject({
      to_state: "PAUSED",
      reason: "the node is repaired",
    });
    await open(page, "Resume");
    await confirm(page, "Resume");
    await page.getByRole("button", { name: "Pause", exact: true }).waitFor();
    expect((await eventsOf("SyncStateChanged")).at(-1)?.data).toMatchObject({
      to_state: "RUNNING",
    });
  });

  test("it is retuned", async () => {
    const { page } = await browser.visit(`${api.url}/syncs/${syncId}`);
    let dialog = await open(page, "Retune");
    await typeInto(page, dialog.getByLabel(/Priority/), "20");
    await confirm(page, "Retune");
    // What was not touched stays the definition's word.
    expect((await eventsOf("SyncRetuned")).at(-1)?.data).toMatchObject({
      max_parallel: null,
      priority: 20,
    });
    dialog = await open(page, "Retune");
    await typeInto(page, dialog.getByLabel(/Concurrent segments/), "7");
    await confirm(page, "Retune");
    await page.getByText("7", { exact: true }).waitFor();
    expect(await getSync()).toMatchObject({ max_parallel: 7, priority: 20 });
    expect((await eventsOf("SyncRetuned")).at(-1)?.data).toMatchObject({ max_parallel: 7 });
  });

  test("it is left alone when it changed after the dialog was opened", async () => {
    const { page } = await browser.visit(`${api.url}/syncs/${syncId}?view=quarantine`, {
      allowed: [/412/],
    });
    const { items } = await api.client.call("listSyncQuarantine", { params: { sync: MAIN } });
    for (const name of ["Pause", `Retry segment ${items[0]?.segment_index}`]) {
      const dialog = await open(page, name);
      await api.client.call("retuneSync", { params: { sync: MAIN }, body: { priority: 20 } });
      await dialog.getByText(/(This has changed|It has moved on)/).waitFor();
      await pressByKeyboard(page, dialog.getByRole("button", { name, exact: true }));
      await dialog.getByText("STATE_VERSION_MISMATCH").waitFor();
      await page.keyboard.press("Escape");
    }
    expect(await getSync()).toMatchObject({ state: "RUNNING", segments_quarantined: 3 });
  });

  test("it is verified, with and without repair, and says what was found", async () => {
    const { page } = await browser.visit(
      `${api.url}/syncs/${syncId}?view=segments&from=100&to=199`,
    );
    let dialog = await open(page, "Verify");
    await dialog.getByText(/Nothing is changed/).waitFor();
    await typeInto(page, dialog.getByLabel("From block"), "100");
    await typeInto(page, dialog.getByLabel("To block, included"), "199");
    await confirm(page, "Verify");
    expect((await eventsOf("SyncVerifyRequested")).at(-1)?.data).toMatchObject({ repair: false });
    const row = page.getByRole("row", { name: /100 – 199/ });
    await row.getByText(/Verification requested|Verifying/).waitFor();
    const verification = { ok: false, note: "a row is missing" };
    await settle({ verification });
    await row.getByText("Verification failed (a row is missing)").waitFor();
    dialog = await open(page, "Verify");
    await tabTo(page, dialog.getByLabel("Repair what does not pass"));
    await page.keyboard.press("Space");
    await dialog.getByText(/void at once and fetched again/).waitFor();
    await confirm(page, "Verify");
    expect((await eventsOf("SyncVerifyRequested")).at(-1)?.data).toMatchObject({ repair: true });
  });

  test("some of its blocks are repaired, and a wrong range is refused in place", async () => {
    const { page } = await browser.visit(`${api.url}/syncs/${syncId}`, { allowed: [/4\d\d/] });
    const dialog = await open(page, "Repair");
    await typeInto(page, dialog.getByLabel("From block"), "150");
    await typeInto(page, dialog.getByLabel("To block, included"), "120");
    await pressByKeyboard(page, dialog.getByRole("button", { name: "Repair", exact: true }));
    await dialog.getByRole("alert").waitFor();
    await typeInto(page, dialog.getByLabel("To block, included"), "159");
    await dialog.getByText("That is 10 blocks.").waitFor();
    await typeInto(page, dialog.getByLabel("Reason (for the record)"), "rows were lost");
    await confirm(page, "Repair");
    expect((await eventsOf("SyncSegmentsReopened")).at(-1)?.data).toMatchObject({
      cause: "repair",
      reason: "rows were lost",
      undo: true,
    });
    await page.getByRole("link", { name: /blocks 150 to 159: (pending|running)/ }).waitFor();
  });

  test("a quarantined segment is tried again, another stays unfetched for a reason", async () => {
    const { page } = await browser.visit(`${api.url}/syncs/${syncId}?view=quarantine`);
    const { items } = await api.client.call("listSyncQuarantine", { params: { sync: MAIN } });
    const [first, second] = items.map(({ segment_index }) => segment_index);
    await open(page, `Retry segment ${first}`);
    await confirm(page, `Retry segment ${first}`);
    await page.getByRole("row", { name: /block 40/ }).waitFor({ state: "detached" });
    expect((await eventsOf("SyncSegmentsReopened")).at(-1)?.data).toMatchObject({ cause: "retry" });
    const dialog = await open(page, `Exclude segment ${second}`);
    const why = dialog.getByLabel("Why they may stay unfetched");
    await tabTo(page, why);
    await page.keyboard.press("Enter");
    // Without a reason the browser itself keeps the form open.
    expect(await eventsOf("SyncSegmentExcluded")).toEqual([]);
    await typeInto(page, why, "the node lost it");
    await confirm(page, `Exclude segment ${second}`);
    await page.getByRole("row", { name: /block 60/ }).waitFor({ state: "detached" });
    expect((await eventsOf("SyncSegmentExcluded")).at(-1)?.data).toMatchObject({
      segment_index: second,
      reason: "the node lost it",
    });
    await page.getByRole("link", { name: /block 60: excluded/ }).waitFor();
  });
});

/** Takes the verification that waits and says what it found. */
async function settle(report: { verification: { ok: boolean; note: string } }): Promise<void> {
  for (;;) {
    const [taken] = await takeSegments(api.client, "transfers", 1);
    if (taken === undefined) throw new Error("One was taken.");
    const isVerify = taken.segment.purpose === "verify";
    await endSegments(api.client, [taken], isVerify ? { report } : {});
    if (isVerify) return;
  }
}
