import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Client } from "../../src/client/client.ts";
import type { PartInput } from "../../src/work/operations.ts";
import { type Api, publish, startApi, work } from "../end-to-end/api-server.ts";
import { act } from "./keyboard.ts";
import { expectAccessible, expectNoSidewaysScroll, TestBrowser } from "./test-browser.ts";

const HOUR_MS = 3_600_000;

/** In the middle of a minute, so that it does not matter how long the tests take. */
const A_DAY_AGO = new Date(
  Math.floor(Date.now() / 60_000) * 60_000 + 30_000 - 26 * HOUR_MS,
).toISOString();

let api: Api;
let client: Client;
let browser: TestBrowser;

type Body = PartInput<"createSchedule", "body">;

const HOURLY: Body = { name: "hourly", cron: "0 * * * *", asset_selection: ["report"] };

function create(changes: Partial<Body>) {
  return client.call("createSchedule", { body: { ...HOURLY, ...changes } });
}

function at(schedule_id: string) {
  return { params: { schedule_id } };
}

function shown(name: string) {
  return client.call("getSchedule", at(name));
}

async function ticksOf(name: string, query: PartInput<"listTicks", "query"> = {}) {
  return (await client.call("listTicks", { ...at(name), query })).items;
}

/** Lets time pass, and then lets the server act. */
async function later(ms: number): Promise<void> {
  api.jump(ms);
  await client.call("tick");
}

/** A day in which everything happened that can happen to a schedule, up to just before now. */
async function liveThroughADay(): Promise<void> {
  await publish(client);
  await create({});
  await create({ name: "exclusive", overlap: "skip" });
  await create({ name: "resting", timezone: "Asia/Tokyo", cron: "30 */2 * * *" });
  const often = { cron: "* * * * *", catchup_window_minutes: 60, max_catchup_ticks: 2 };
  await create({ name: "frequent", ...often });
  const selection = { type: "tick_time" } as const;
  await create({ name: "refused", asset_selection: ["sales/orders"], selection });
  const cron = "0 6 * * 1-5";
  const starts_at = new Date(Date.now() + 40 * HOUR_MS).toISOString();
  const coded = { ...HOURLY, name: "coded", cron, timezone: "Europe/Berlin", starts_at };
  await client.call("publishDefinitions", {
    body: { origin: "code", specs: [{ kind: "schedule", ...coded }] },
  });
  await later(HOUR_MS);
  await later(HOUR_MS);
  await work(client, "SUCCEEDED", null, 0);
  await client.call("pauseSchedule", { ...at("resting"), body: { reason: "the shop moves" } });
  await later(22 * HOUR_MS);
  // What comes due from here on is decided by nobody until a test says so.
  api.jump(1.8 * HOUR_MS);
  await create({ name: "forgotten", cron: "* * * * *" });
  api.jump(0.2 * HOUR_MS);
}

beforeAll(async () => {
  [api, browser] = await Promise.all([
    startApi({ actsByItself: false, clockAt: A_DAY_AGO }),
    TestBrowser.open(),
  ]);
  ({ client } = api);
  await liveThroughADay();
});

afterEach(() => browser.endVisits());

afterAll(async () => {
  await browser.close();
  await api.close();
});

async function open(name: string, options: Parameters<TestBrowser["visit"]>[1] = {}) {
  const { schedule_id } = await shown(name);
  const { page } = await browser.visit(`${api.url}/schedules/${schedule_id}`, options);
  await page.getByRole("heading", { level: 1, name }).waitFor();
  return { page, schedule_id };
}

describe("the list of schedules", () => {
  test("says when each acts, in words and both zones, and lets late ones stand out", async () => {
    const { page } = await browser.visit(`${api.url}/schedules`);
    const row = (name: string) => page.getByRole("row").filter({ hasText: name });
    await row("coded").getByText("Monday to Friday at 06:00").waitFor();
    const coded = await row("coded").innerText();
    expect(coded).toContain("0 6 * * 1-5");
    expect(coded).toMatch(/\d 06:00 Europe\/Berlin/);
    expect(coded).toMatch(/\d 0[45]:00 local time/);
    expect(coded).not.toContain("late");
    expect(await row("forgotten").innerText()).toMatch(/late by 1\d min/);
    expect(await row("resting").innerText()).toContain("paused");
    expect(await row("refused").innerText()).toMatch(/\d+ failed/);
    expect(await row("hourly").innerText()).toContain("pending");
    await expectAccessible(page);

    await page.getByLabel("State").selectOption("PAUSED");
    await row("coded").waitFor({ state: "detached" });
    expect(new URL(page.url()).search).toBe("?status=PAUSED");
    await page.getByLabel("Asset").selectOption("sales/orders");
    await page.getByText("No schedule matches these filters.").waitFor();
    await page.getByRole("link", { name: "see all schedules" }).click();
    await row("refused").getByRole("link", { name: "refused" }).click();
    await page.getByRole("heading", { level: 1, name: "refused" }).waitFor();
  });

  test("is usable in the dark and on a phone", async () => {
    const { page } = await browser.visit(`${api.url}/schedules`, { theme: "dark", width: 390 });
    await page.getByText("forgotten").waitFor();
    await expectNoSidewaysScroll(page);
    await expectAccessible(page);
  });
});

describe("a schedule's past times", () => {
  test("stand on a time line that keys go along, each with its reason and its run", async () => {
    const { page, schedule_id } = await open("frequent");
    const line = page.getByRole("list", { name: "Ticks of frequent" });
    await line.getByText("outside the catch-up window").first().waitFor({ state: "attached" });
    const past = page.getByRole("region", { name: "Past ticks" });
    const text = await past.innerText();
    expect(text).toMatch(/1,260 times\s+outside the catch-up window/);
    expect(text).toMatch(/58 times\s+over the catch-up limit/);
    expect(await line.getByRole("link").count()).toBe((await ticksOf("frequent")).length);

    const [newest] = await ticksOf("frequent");
    const last = line.getByRole("link").last();
    await last.focus();
    await page.keyboard.press("ArrowLeft");
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("Enter");
    const tick = page.locator(".schedules-tick");
    await tick.getByText("triggered").waitFor();
    expect(new URL(page.url()).searchParams.get("tick")).toBe(newest?.tick_id);
    const why = tick.getByRole("link", { name: "why" });
    expect(await why.getAttribute("href")).toBe(
      `/ledger/${encodeURIComponent(newest?.tick_id ?? "")}?view=why`,
    );
    const run = tick.getByRole("link", { name: "run" });
    expect(await run.getAttribute("href")).toBe(`/runs/${newest?.run_id ?? ""}`);
    await expectAccessible(page);

    const [stretch] = await ticksOf("frequent", { reason: "catchup_window" });
    const epoch = Date.parse(stretch?.scheduled_for ?? "") / 1_000;
    await page.goto(`${api.url}/schedules/${schedule_id}?tick=${schedule_id}:${epoch}`);
    await tick.getByText("1,260", { exact: true }).waitFor();
  });

  test("say why they were skipped or failed, and are filtered in the address", async () => {
    const { page } = await open("exclusive");
    const past = page.getByRole("region", { name: "Past ticks" });
    await past.getByText("over the catch-up limit").first().waitFor();
    await page.getByLabel("Reason for a skip").selectOption("overlap");
    await past.getByText("over the catch-up limit").first().waitFor({ state: "detached" });
    await past.getByText("the run before was still active").first().waitFor();
    expect(new URL(page.url()).search).toBe("?reason=overlap");

    const { page: refused } = await open("refused");
    const [failed] = await ticksOf("refused", { status: "failed" });
    const message = failed?.error?.message ?? "no error";
    await refused.getByRole("region", { name: "Past ticks" }).getByText(message).first().waitFor();
  });

  test("come by themselves, without a reload", async () => {
    const { page } = await open("forgotten");
    await page.getByText("No ticks yet.").waitFor();
    await page.getByText(/A tick is overdue by 1\d min/).waitFor();
    await page.evaluate(() => Object.assign(globalThis, { stays: true }));
    await client.call("tick");
    await page.getByRole("region", { name: "Past ticks" }).getByText("pending").first().waitFor();
    await page.getByText("A tick is overdue").waitFor({ state: "detached" });
    expect(await page.evaluate(() => "stays" in globalThis)).toBe(true);
  });
});

describe("what is done with a schedule", () => {
  test("is paused and resumed by keys alone, and says what it missed", async () => {
    await create({ name: "steered", catch_up_on_resume: true, catchup_window_minutes: 120 });
    const { page } = await open("steered");
    await page.getByRole("button", { name: "Pause" }).click();
    await page.getByText("it catches up some of what it missed").waitFor();
    await page.keyboard.press("Escape");
    await act(page, "Pause", "a rest");
    await page.getByText("Paused", { exact: false }).getByText("a rest").waitFor();
    expect(await shown("steered")).toMatchObject({ state: "PAUSED", reason: "a rest" });
    await page.getByRole("button", { name: "Resume" }).click();
    await page.getByText("the newest 3 of the last 2 h are caught up at once").waitFor();
    await page.keyboard.press("Escape");
    await act(page, "Resume");
    await page.getByRole("button", { name: "Pause" }).waitFor();
    expect(await shown("steered")).toMatchObject({ state: "ACTIVE", state_version: 3 });
  });

  test("is resumed with what it missed skipped, as it says beforehand", async () => {
    const { page } = await open("resting");
    await page.getByText("the shop moves").waitFor();
    await page.getByText("While it is paused these times pass.").waitFor();
    await page.getByRole("button", { name: "Resume" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("none is caught up").waitFor();
    await expectAccessible(page);
    await dialog.getByRole("button", { name: "Resume" }).click();
    const past = page.getByRole("region", { name: "Past ticks" });
    await past.getByText("the schedule was paused").first().waitFor();
    const missed = await ticksOf("resting", { reason: "paused" });
    expect(missed.reduce((sum, { count }) => sum + count, 0)).toBeGreaterThan(10);
  });

  test("is refused where somebody was faster, and says so", async () => {
    const { page } = await open("exclusive", { allowed: [/412/] });
    await page.getByRole("button", { name: "Pause" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.waitFor();
    // Decided by what was shown when the dialog opened, though the page itself moves on.
    await client.call("pauseSchedule", at("exclusive"));
    await client.call("resumeSchedule", at("exclusive"));
    await dialog.getByRole("button", { name: "Pause" }).click();
    await dialog.getByText("STATE_VERSION_MISMATCH").waitFor();
    expect(await shown("exclusive")).toMatchObject({ state: "ACTIVE", state_version: 3 });
  });

  test("is triggered now, and leads to the run", async () => {
    const { page } = await open("coded");
    await page.getByText("Defined in the project's code").waitFor();
    expect(await page.getByRole("link", { name: "Edit" }).count()).toBe(0);
    expect(await page.getByRole("button", { name: "Delete" }).count()).toBe(0);
    await act(page, "Trigger now");
    const past = page.getByRole("region", { name: "Past ticks" });
    await past.getByText("manual").waitFor();
    const [tick] = await ticksOf("coded");
    expect(tick).toMatchObject({ manual: true, status: "triggered", run_state: "PENDING" });
    expect(await past.getByRole("link", { name: "run" }).getAttribute("href")).toBe(
      `/runs/${tick?.run_id ?? ""}`,
    );
  });
});

describe("a schedule of one's own", () => {
  test("is made with a look at its times, changed and deleted", async () => {
    const { page } = await browser.visit(`${api.url}/schedules`, { allowed: [/ 4(00|12|22) /] });
    await page.getByRole("link", { name: "New schedule" }).click();
    await page.getByLabel("Name").fill("spring");
    await page.getByLabel("report").check();
    await page.getByLabel("Cron expression").fill("61 2 * * *");
    await page.getByText("The cron expression is wrong").waitFor();
    await page.getByLabel("Cron expression").fill("30 2 * * *");
    await page.getByLabel("Time zone").fill("Europe/Berlin");
    await page.getByText("More: overlap").click();
    await page.getByLabel("Starts").fill("2027-03-27T00:00:00");
    await page.getByText("clock change: runs right after the gap").waitFor();
    expect(await page.getByText("2027-03-28 03:00").first().innerText()).toContain("UTC+02:00");
    await expectAccessible(page);
    await page.getByLabel("Overlap").selectOption("skip");
    await page.getByLabel("Config").fill("{ nonsense");
    await page.getByRole("button", { name: "Create schedule" }).click();
    await page.getByText("The config is not JSON").waitFor();
    await page.getByLabel("Config").fill('{"full":true}');
    await page.getByLabel("Priority").fill("101");
    await page.getByText("More: overlap").click();
    await page.getByRole("button", { name: "Create schedule" }).click();
    // It is opened and gone to, where what is wrong is folded away.
    await page.getByText("must be at most 100, not 101").waitFor();
    await page.waitForFunction(() => document.activeElement?.getAttribute("type") === "number");
    await page.keyboard.press("ControlOrMeta+a");
    await page.keyboard.type("7");
    await page.getByRole("button", { name: "Create schedule" }).click();
    await page.getByRole("heading", { level: 1, name: "spring" }).waitFor();
    const made = await shown("spring");
    expect(made).toMatchObject({
      origin: "api",
      cron: "30 2 * * *",
      timezone: "Europe/Berlin",
      overlap: "skip",
      priority: 7,
      config: { full: true },
      starts_at: "2027-03-27T00:00:00.000Z",
    });

    await page.getByRole("link", { name: "Edit" }).click();
    await page.getByLabel("Cron expression").fill("0 7 * * *");
    const { schedule_id } = made;
    await client.call("pauseSchedule", at(schedule_id));
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("STATE_VERSION_MISMATCH").waitFor();
    await page.getByText("Your changes are still here").waitFor();
    await page.getByLabel("Cron expression").press("Enter");
    await page.getByText("every day at 07:00").first().waitFor();
    await page.getByRole("heading", { level: 1, name: "spring" }).waitFor();
    const changed = await shown("spring");
    expect(changed).toMatchObject({ cron: "0 7 * * *", overlap: "skip", config: { full: true } });

    await act(page, "Delete");
    await page.getByRole("heading", { level: 1, name: "Schedules" }).waitFor();
    expect(await shown(schedule_id)).toMatchObject({ state: "DELETED" });
    await page.goto(`${api.url}/schedules/${schedule_id}`);
    await page.getByText("This schedule is deleted.").waitFor();
  });

  test("is written in the dark and on a phone", async () => {
    const { page } = await browser.visit(`${api.url}/schedules/new?asset=report`, {
      theme: "dark",
      width: 390,
    });
    await page.getByText("It would act at").waitFor();
    expect(await page.getByLabel("report").isChecked()).toBe(true);
    await expectNoSidewaysScroll(page);
    await expectAccessible(page);
    const { page: one } = await open("frequent", { theme: "dark", width: 390 });
    await one.getByRole("region", { name: "Past ticks" }).waitFor();
    await expectNoSidewaysScroll(one);
    await expectAccessible(one);
  });
});
