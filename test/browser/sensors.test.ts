import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Client } from "../../src/client/client.ts";
import type { PartInput } from "../../src/work/operations.ts";
import { type Api, publish, startApi } from "../end-to-end/api-server.ts";
import { act } from "./keyboard.ts";
import { expectAccessible, expectNoSidewaysScroll, TestBrowser } from "./test-browser.ts";

const BASE = "/api/v1/orchestration/sensors";

let api: Api;
let client: Client;
let browser: TestBrowser;

type Body = PartInput<"createSensor", "body">;

const UPLOADS: Body = {
  name: "uploads",
  mode: "push",
  target: { asset_selection: ["sales/orders"], partition_key: "{payload.day}" },
};
const FILES: Body = {
  name: "files",
  mode: "poll",
  watch: { type: "files", folder: "/data", pattern: "*.csv" },
  target: { asset_selection: ["report"], config: { file: "{path}" } },
};

function at(sensor_id: string) {
  return { params: { sensor_id } };
}

function shown(name: string) {
  return client.call("getSensor", at(name));
}

async function headPos(): Promise<number> {
  return (await client.call("listEvents", { query: { limit: 1 } })).pos;
}

/** Pushes a message, as one who signs nothing may on a server without tokens. */
async function push(sensor: string, id: string, body: unknown): Promise<void> {
  const headers = { "webhook-id": id };
  const response = await api.send("POST", `${BASE}/${sensor}/messages`, { body, headers });
  expect(response.status).toBe(202);
  await client.call("tick");
}

type Found = { cursor: string | null; items: string[] } | { message: string };

/** Makes the look that a worker would make for the file sensor, and finds what is given. */
async function look(found: Found): Promise<void> {
  api.jump(60_000);
  await client.call("tick");
  const { probes } = await client.call("claimProbes", {
    body: { worker_id: "worker", sensors: ["another"], slots: 10, wait_ms: 0 },
  });
  const outcome =
    "message" in found
      ? { type: "failed" as const, error: { class: "user", message: found.message } }
      : {
          type: "evaluated" as const,
          cursor: found.cursor,
          run_requests: found.items.map((item) => ({
            asset_selection: ["report"],
            partition_keys: null,
            run_key: item,
            config: { file: item },
            labels: {},
          })),
        };
  await client.call("reportProbes", {
    body: {
      worker_id: "worker",
      results: probes.map(({ probe_id, attempt, cursor, expected_state_version, poll_epoch }) => ({
        probe_id,
        attempt,
        cursor,
        expected_state_version,
        poll_epoch,
        outcome,
      })),
    },
  });
}

const CURSORS = [
  '{"files":{"a.csv":"2026-01-01"}}',
  '{"files":{"a.csv":"2026-01-01","b.csv":"2026-01-02","c.csv":"2026-01-02"}}',
  '{"files":{"a.csv":"2026-01-03","b.csv":"2026-01-02"}}',
] as const;

beforeAll(async () => {
  [api, browser] = await Promise.all([startApi(), TestBrowser.open()]);
  ({ client } = api);
  await publish(client);
  await client.call("createSensor", { body: UPLOADS });
  await client.call("createSensor", { body: FILES });
  const coded = { kind: "sensor", name: "coded", mode: "poll" } as const;
  await client.call("publishDefinitions", { body: { origin: "code", specs: [coded] } });
  await push("uploads", "first", { day: "2025-01-02" });
  await push("uploads", "wrong", { nothing: "<b>here</b>" });
  await look({ cursor: CURSORS[0], items: ["a.csv"] });
  await look({ cursor: CURSORS[1], items: ["b.csv", "c.csv"] });
  await look({ cursor: CURSORS[2], items: ["a.csv"] });
});

afterEach(() => browser.endVisits());

afterAll(async () => {
  await browser.close();
  await api.close();
});

async function open(name: string, query = "", options: Parameters<TestBrowser["visit"]>[1] = {}) {
  const { sensor_id } = await shown(name);
  const { page } = await browser.visit(`${api.url}/sensors/${sensor_id}${query}`, options);
  await page.getByRole("heading", { level: 1, name }).waitFor();
  return { page, sensor_id };
}

describe("the list of sensors", () => {
  test("says what each looks at, how far behind it is, and who is missing", async () => {
    const { page } = await browser.visit(`${api.url}/sensors`);
    const row = (name: string) => page.getByRole("row").filter({ hasText: name });
    await row("uploads").getByText("messages").waitFor();
    expect(await row("files").innerText()).toContain("files *.csv in /data");
    expect(await row("coded").innerText()).toContain("needs a worker");
    expect(await row("files").innerText()).not.toContain("needs a worker");
    await expectAccessible(page);
    await page.getByLabel("Mode").selectOption("push");
    await row("files").waitFor({ state: "detached" });
    expect(new URL(page.url()).search).toBe("?mode=push");
  });

  test("is usable in the dark and on a phone", async () => {
    const { page } = await browser.visit(`${api.url}/sensors`, { theme: "dark", width: 390 });
    await page.getByRole("link", { name: "uploads" }).waitFor();
    await expectNoSidewaysScroll(page);
    await expectAccessible(page);
    await page.getByRole("link", { name: "files" }).click();
    await page.getByRole("region", { name: "Evaluations" }).waitFor();
    await expectNoSidewaysScroll(page);
    await expectAccessible(page);
  });
});

describe("a sensor's evaluations", () => {
  test("show how the cursor moved and which runs came of them", async () => {
    const { page } = await open("files");
    const list = page.getByRole("region", { name: "Evaluations" });
    await list.getByText("files › b.csv: 2026-01-02").waitFor();
    const rows = await list.getByRole("row").allInnerTexts();
    expect(rows).toHaveLength(4);
    expect(rows[1]).toMatch(/files › a.csv: \s*2026-01-01 → 2026-01-03/);
    expect(rows[1]).toContain("files › c.csv");
    expect(rows[1]).toContain("existed already");
    expect(rows[2]).toContain("pending");
    await expectAccessible(page);

    const [, second] = (await client.call("listEvals", at("files"))).items;
    const line = page.getByRole("list", { name: "Evaluations of files" });
    await line.getByRole("link").nth(1).click();
    await page.getByRole("heading", { name: "Evaluation", exact: true }).waitFor();
    const { searchParams } = new URL(page.url());
    expect(searchParams.get("eval")).toBe(second?.eval_id);
    const why = page.getByRole("link", { name: "why" }).first();
    expect(await why.getAttribute("href")).toBe(
      `/ledger/${encodeURIComponent(second?.eval_id ?? "")}?view=why`,
    );
    await page.getByText("Full cursor before").click();
    await page.getByText('"a.csv": "2026-01-01"').waitFor();
    // It has an address of its own, whatever the list shows.
    await page.getByLabel("Outcome").selectOption("error");
    await page.getByText("No evaluation matches this filter.").waitFor();
    await page.reload();
    await page.getByText("Full cursor before").waitFor();
  });

  test("come by themselves, without a reload, and so do errors", async () => {
    const { page } = await open("files");
    await page.getByRole("region", { name: "Evaluations" }).waitFor();
    await page.evaluate(() => Object.assign(globalThis, { stays: true }));
    await look({ message: "the disk is away" });
    await page.getByText("The last evaluation failed: the disk is away").waitFor();
    await page.getByRole("region", { name: "Evaluations" }).getByText("the disk is away").waitFor();
    expect(await page.evaluate(() => "stays" in globalThis)).toBe(true);
    await page.getByLabel("Outcome").selectOption("error");
    await expect
      .poll(() => page.getByRole("region", { name: "Evaluations" }).getByRole("row").count())
      .toBe(2);
    expect(new URL(page.url()).search).toBe("?status=error");
  });

  test("are rewound to, by keys alone, and started over", async () => {
    const { page } = await open("files");
    await page.getByRole("button", { name: "Rewind to before this" }).nth(1).waitFor();
    // The last of them belongs to the oldest evaluation, which began at the start.
    await act(page, "Rewind to before this", "load again");
    await page.getByText("begins at the start again").first().waitFor();
    expect(await shown("files")).toMatchObject({ cursor: null });
    await page.getByRole("button", { name: "Move the cursor" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("finds everything after the cursor again").waitFor();
    await dialog.getByLabel("To").selectOption("text");
    await dialog.getByLabel("Cursor").fill(CURSORS[1]);
    await expectAccessible(page);
    await dialog.getByRole("button", { name: "Move the cursor" }).click();
    await dialog.waitFor({ state: "detached" });
    expect(await shown("files")).toMatchObject({ cursor: CURSORS[1] });
    const events = await client.call("listEvents", { query: { types: "SensorCursorReset" } });
    expect(events.items.map(({ data }) => data)).toContainEqual(
      expect.objectContaining({ cursor: null, reason: "load again" }),
    );
  });
});

describe("the messages of a push sensor", () => {
  test("show their payload as text, and failed ones are evaluated again", async () => {
    const { page } = await open("uploads", "?view=messages");
    const list = page.getByRole("region", { name: "Messages" });
    const failed = list.getByRole("row").filter({ hasText: "wrong" });
    await failed.getByText('{"nothing":"<b>here</b>"}').click();
    await page.getByRole("region", { name: "Payload of wrong" }).waitFor();
    expect(await failed.innerText()).toContain("failed");
    expect(await list.getByRole("row").filter({ hasText: "first" }).innerText()).toContain(
      "evaluated",
    );
    await expectAccessible(page);
    const { name: _, ...definition } = UPLOADS;
    const body = { ...definition, target: { asset_selection: ["report"] } };
    await client.call("updateSensor", { ...at("uploads"), body });
    await act(page, "Evaluate again");
    await page.getByText("Sensor uploads triggered 1 run: 1 created.").waitFor();
    const [made] = (await client.call("listEvals", at("uploads"))).items;
    expect(made).toMatchObject({
      trigger_source: { type: "manual" },
      run_requests: [{ asset_selection: ["report"], outcome: "created" }],
    });
    await client.call("updateSensor", { ...at("uploads"), body: definition });
    await page.getByLabel("State").selectOption("PENDING");
    await page.getByText("No message matches this filter.").waitFor();
    expect(new URL(page.url()).search).toBe("?view=messages&message=PENDING");
  });

  test("are kept while it is paused, and evaluated when it is resumed", async () => {
    const { page } = await open("uploads");
    await act(page, "Pause", "the shop moves");
    await page.getByText("Paused: the shop moves").waitFor();
    await push("uploads", "kept", { day: "2025-01-05" });
    await page.getByText("Messages (1 pending)").waitFor();
    await page.getByRole("button", { name: "Resume" }).click();
    await page.getByText("1 pending message is evaluated at once.").waitFor();
    await page.keyboard.press("Escape");
    await act(page, "Resume");
    await page.getByText("message kept").waitFor();
    expect(await shown("uploads")).toMatchObject({ state: "ACTIVE", messages_pending: 0 });
  });
});

describe("what is done with a sensor", () => {
  test("a dry run says what would come of a sample, and changes nothing", async () => {
    const { page } = await open("uploads", "?view=evaluate", { allowed: [/ 4\d\d /] });
    const pos = await headPos();
    await page.getByLabel("Payload").fill('{"day":"2025-01-09"}');
    await page.getByRole("button", { name: "Dry run" }).click();
    await page.getByText("would trigger 1 run").waitFor();
    await page.getByText("Nothing was changed.").waitFor();
    await page.getByText("sales/orders 2025-01-09, new").waitFor();
    await page.getByLabel("Payload").fill("{}");
    await page.getByRole("button", { name: "Dry run" }).click();
    await page.getByText("names the field payload.day").first().waitFor();
    await page.getByLabel("Payload").fill("{ nonsense");
    await page.getByRole("button", { name: "Dry run" }).click();
    await page.getByText("The payload is not JSON").waitFor();
    expect(await headPos()).toBe(pos);
    await expectAccessible(page);

    await page.getByLabel("Payload").fill('{"day":"2025-01-09"}');
    await act(page, "Evaluate for real");
    await page.getByRole("heading", { name: "Result" }).waitFor();
    const [made] = (await client.call("listEvals", at("uploads"))).items;
    expect(made).toMatchObject({
      trigger_source: { type: "manual" },
      run_requests: [{ outcome: "created", partition_selection: ["2025-01-09"] }],
    });
  });

  test("is refused where somebody was faster, and says so", async () => {
    const { page } = await open("coded", "", { allowed: [/412/] });
    await page.getByText("No worker that can evaluate this sensor").waitFor();
    await page.getByText("Defined in the project's code").waitFor();
    expect(await page.getByRole("button", { name: "Delete" }).count()).toBe(0);
    await page.getByRole("button", { name: "Move the cursor" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.waitFor();
    // Decided by what was shown when the dialog opened, though the page itself moves on.
    await client.call("pauseSensor", at("coded"));
    await client.call("resumeSensor", at("coded"));
    await dialog.getByRole("button", { name: "Move the cursor" }).click();
    await dialog.getByText("STATE_VERSION_MISMATCH").waitFor();
    expect(await shown("coded")).toMatchObject({ state: "ACTIVE", state_version: 3 });
  });

  test("is paused however often it is evaluated meanwhile", async () => {
    const { page } = await open("files");
    await page.getByRole("button", { name: "Pause" }).click();
    const dialog = page.getByRole("dialog");
    const { state_version } = await shown("files");
    await look({ cursor: CURSORS[0], items: ["a.csv"] });
    expect((await shown("files")).state_version).toBe(state_version + 1);
    await dialog.getByRole("button", { name: "Pause" }).click();
    await dialog.waitFor({ state: "detached" });
    expect(await shown("files")).toMatchObject({ state: "PAUSED" });
    await client.call("resumeSensor", at("files"));
  });

  test("a secret is shown once, and one made by the API is deleted", async () => {
    const body = { ...UPLOADS, name: "partners" };
    const { sensor_id } = await client.call("createSensor", { body });
    const { page } = await open("partners");
    await page.getByText("not set").waitFor();
    await act(page, "Create a secret");
    const secret = await page.locator("code.sensors-secret").innerText();
    expect(secret).toMatch(/^whsec_/);
    expect(await page.getByText(`${api.url}${BASE}/${sensor_id}/messages`).count()).toBe(1);
    await page.getByRole("button", { name: "Replace the secret" }).waitFor();
    const response = await api.send("POST", `${BASE}/${sensor_id}/messages?key=${secret}`, {
      body: { day: "2025-01-06" },
      headers: { "webhook-id": "signed" },
    });
    expect(response.status).toBe(202);
    await page.getByRole("button", { name: "I have saved it" }).click();
    await page.reload();
    await page.getByText("set", { exact: true }).waitFor();
    expect(await page.getByText(secret).count()).toBe(0);
    await act(page, "Delete");
    await page.getByRole("heading", { level: 1, name: "Sensors" }).waitFor();
    expect(await shown(sensor_id)).toMatchObject({ state: "DELETED" });
  });
});
