import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { MoveDetails } from "../../src/work/move/api.ts";
import { rowsOf, run } from "../end-to-end/shard-files.ts";
import { act, confirmAction, openAction, tabTo } from "./keyboard.ts";
import type { ServedProject } from "./served-project.ts";
import { serveShards } from "./shard-project.ts";
import {
  expectAccessible,
  expectNoSidewaysScroll,
  TestBrowser,
  type Visit,
  type VisitOptions,
} from "./test-browser.ts";

// Real copies by a real worker, on a machine that others use too.
/** How long anything may take at most to be seen. */
const WAIT_MS = 180_000;

let site: ServedProject;
let browser: TestBrowser;

beforeAll(async () => {
  [site, browser] = await Promise.all([serveShards(["mover", "stays"]), TestBrowser.open()]);
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
const REFUSED = { allowed: [/40[0-9]|412/] };

const getMove = (move: string): Promise<MoveDetails> =>
  site.client.call("getMove", { params: { move } });
const segmentAt = (move: string, segment_index: number) =>
  site.client.call("getMoveSegment", { params: { move, segment_index } });

const moveOf = (page: Page): string => new URL(page.url()).pathname.split("/").at(-1) ?? "";

/** What the page says about the move, in its own words, in the end. */
const saysOf = (page: Page, text: string) => page.getByRole("status").getByText(text).waitFor();

/** Plans a move in the page, by keyboard, and waits until it is known how much there is. */
async function plan(page: Page, button: string): Promise<string> {
  await tabTo(page, page.getByRole("button", { name: button }));
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: /^Move / }).waitFor();
  await saysOf(page, "to move");
  return moveOf(page);
}

/** Opens a quarantined segment, from the list, by keyboard. */
async function openPoisoned(page: Page): Promise<number> {
  const row = page.getByRole("region", { name: "Segments" }).getByRole("row");
  const poisoned = row.filter({ hasText: "quarantined" }).first();
  await tabTo(page, poisoned.getByRole("button"));
  await page.keyboard.press("Enter");
  const segment = page.getByRole("region", { name: /^Segment \d+$/ });
  await segment.getByText("ROWS_CONFLICT").first().waitFor();
  return Number(new URL(page.url()).searchParams.get("segment"));
}

describe("the pages of moves", () => {
  test("look how large one would be, and copy nothing", async () => {
    const { page } = await visit(`${site.url}/moves`, { theme: "dark" });
    await page.getByText("No moves yet.").waitFor();
    await tabTo(page, page.getByRole("link", { name: "Plan a move" }));
    await page.keyboard.press("Enter");
    await page.getByText("mover on b, all others on a").waitFor();
    await expectAccessible(page);
    const move = await plan(page, "Dry run");
    await page.getByText("100 rows in 6 segments to move; this was a dry run.").waitFor();
    const start = page.getByRole("button", { name: "Start", exact: true });
    expect(await start.getAttribute("aria-disabled")).toBe("true");
    expect(await start.getAttribute("title")).toContain("without the dry run");
    expect(await getMove(move)).toMatchObject({ dry_run: true, state: "PLANNED" });
    expect(rowsOf(site.folder, "mover")).toEqual({ a: 100, b: 0, c: 0 });
    await expectAccessible(page);
  });

  test("bring rows over, with a segment that was in the way, and find what is misplaced", async () => {
    run(site.folder, "b", "insert into users values (25, 'mover', 'a stranger')");
    const { page } = await visit(`${site.url}/moves/new?move=spread`);
    const move = await plan(page, "Plan the move");
    await page.evaluate(() => void (document.body.dataset["mark"] = "1"));
    const retune = await openAction(page, "Retune");
    await retune.getByLabel("Segments at once").fill("2");
    await confirmAction(page, retune, "Retune");
    await page.getByText("2 segments", { exact: true }).waitFor();

    const start = await openAction(page, "Start");
    await start.getByText("rows at rest").waitFor();
    await expectAccessible(page);
    await confirmAction(page, start, "Start");
    await saysOf(page, "1 segment is quarantined");
    const index = await openPoisoned(page);
    expect(await segmentAt(move, index)).toMatchObject({ state: "POISONED", attempts: 1 });
    await expectAccessible(page);

    await act(page, `Retry segment ${index}`);
    const attempts = async () => (await segmentAt(move, index)).attempts;
    await expect.poll(attempts, { timeout: WAIT_MS }).toBe(2);
    await act(page, "Pause");
    await saysOf(page, "; nothing is copied or removed.");
    await act(page, "Resume");
    await page.getByRole("button", { name: "Pause", exact: true, disabled: false }).waitFor();
    const again = await openAction(page, `Copy again segment ${index}`);
    await again.getByText("What b has of its rows is deleted first").waitFor();
    await confirmAction(page, again, `Copy again segment ${index}`);
    await saysOf(page, "Complete; every row is on its shard.");
    expect(await page.evaluate(() => document.body.dataset["mark"])).toBe("1");
    expect(await getMove(move)).toMatchObject({ state: "COMPLETE", rows_removed: 100 });
    expect(rowsOf(site.folder, "mover")).toEqual({ a: 0, b: 100, c: 0 });
    expect(rowsOf(site.folder, "stays")).toEqual({ a: 100, b: 0, c: 0 });

    run(site.folder, "a", "insert into users values (9999, 'mover', 'left behind')");
    await act(page, "Verify");
    const misplaced = page.getByRole("region", { name: "Misplaced rows" });
    await misplaced.getByRole("row", { name: "a users 1" }).waitFor();
    run(site.folder, "a", "delete from users where id = 9999");
  });

  test("let a segment stay, on record, in a plan of its own", async () => {
    run(site.folder, "c", "insert into orders values (1001, 'stays', 7)");
    const { page } = await visit(`${site.url}/moves/new`, {
      ...REFUSED,
      width: 390,
      height: 800,
    });
    await page.getByLabel("Definition").selectOption("A plan as JSON");
    const field = page.getByLabel("Plan", { exact: true });
    await field.fill('{"from": 1}');
    await page.getByRole("button", { name: "Plan the move" }).click();
    await page.locator(".field-problem").getByText("from").waitFor();
    await expectNoSidewaysScroll(page);
    const from = { by: "tenant", tenants: { mover: "b" }, default: "a" };
    const to = { by: "tenant", tenants: { mover: "b" }, default: "c" };
    await field.fill(JSON.stringify({ from, to, segment_attempts: 1 }));
    const move = await plan(page, "Plan the move");
    await act(page, "Start");
    await saysOf(page, "1 segment is quarantined");
    const index = await openPoisoned(page);
    const exclude = await openAction(page, `Exclude segment ${index}`);
    await tabTo(page, exclude.getByLabel("Reason for excluding it"));
    await page.keyboard.type("sorted out by hand");
    await expectAccessible(page);
    await confirmAction(page, exclude, `Exclude segment ${index}`);
    await saysOf(page, "every row is on its shard");
    await expectNoSidewaysScroll(page);
    await expectAccessible(page);
    const excluded = { reason: "sorted out by hand" };
    expect(await segmentAt(move, index)).toMatchObject({ state: "EXCLUDED", excluded });
    expect(rowsOf(site.folder, "stays")).toEqual({ a: 50, b: 0, c: 51 });
  });

  test("end one for good, unless it has moved on", async () => {
    const { move_id } = await site.client.call("planMove", { body: { move: "spread" } });
    const { page } = await visit(`${site.url}/moves/${move_id}`, REFUSED);
    const dialog = await openAction(page, "Cancel move");
    const body = { segment_concurrency: 3 };
    await site.client.call("retuneMove", { params: { move: move_id }, body });
    await dialog.getByText("This has changed since you opened it").waitFor();
    await tabTo(page, dialog.getByRole("button", { name: "Cancel move" }));
    await page.keyboard.press("Enter");
    await dialog.getByText("STATE_VERSION_MISMATCH").waitFor();
    await page.keyboard.press("Escape");
    expect((await getMove(move_id)).state).toBe("PLANNED");
    await act(page, "Cancel move");
    await saysOf(page, "copied rows stay where they are");
    await page.getByRole("link", { name: "Moves", exact: true }).last().click();
    await page.getByLabel("State").selectOption("CANCELLED");
    await page.getByRole("region", { name: "Moves" }).getByText("cancelled").waitFor();
    await expectAccessible(page);
  });
});
