import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { PartInput } from "../../src/work/operations.ts";
import { type Api, checkAnswer, publish, startApi, work } from "./api-server.ts";

const BASE = "/api/v1/orchestration/schedules";
const HOUR_MS = 3_600_000;

let folder: string;
let api: Api;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "pawl-schedules-"));
  api = await startApi({ folder, clockAt: "2026-03-01T09:30:00.000Z" });
  await publish(api.client);
});

afterEach(async () => {
  await api.close();
  rmSync(folder, { recursive: true });
});

type Body = PartInput<"createSchedule", "body">;

const HOURLY: Body = { name: "hourly", cron: "0 * * * *", asset_selection: ["report"] };
const params = { schedule_id: "hourly" };

function create(changes: Partial<Body> = {}) {
  return api.client.call("createSchedule", { body: { ...HOURLY, ...changes } });
}

function shown() {
  return api.client.call("getSchedule", { params });
}

/** All decided times, oldest first: when, and what became of each. */
async function ticks(): Promise<string[]> {
  const texts: string[] = [];
  for await (const tick of api.client.each("listTicks", { params, query: { limit: 3 } })) {
    const { scheduled_for, status, reason, count } = tick;
    const many = count === 1 ? "" : ` x${count}`;
    texts.unshift(`${scheduled_for.slice(11, 16)} ${reason ?? status}${many}`);
  }
  return texts;
}

/** Lets time pass while the server is away, and starts another one. */
async function away(until: string): Promise<void> {
  await api.close();
  api = await startApi({ folder, clockAt: until });
  await api.client.call("tick");
}

async function later(ms: number): Promise<void> {
  api.jump(ms);
  await api.client.call("tick");
}

describe("after a time away", () => {
  test("I20, I21, I22: ten missed times are three runs, oldest first, and seven skips, once", async () => {
    await create({ max_catchup_ticks: 3 });
    await away("2026-03-01T19:30:00.000Z");
    const expected = [
      ..."10 11 12 13 14 15 16".split(" ").map((hour) => `${hour}:00 catchup_limit`),
      ..."17 18 19".split(" ").map((hour) => `${hour}:00 triggered`),
    ];
    expect(await ticks()).toEqual(expected);
    expect(await shown()).toMatchObject({
      ticks_triggered: 3,
      ticks_skipped: 7,
      next_scheduled_for: "2026-03-01T20:00:00.000Z",
    });
    const runs = await api.client.call("listRuns");
    expect(runs.items).toHaveLength(3);

    const { pos } = await api.client.call("listEvents", { query: { limit: 1 } });
    await away("2026-03-01T19:30:00.000Z");
    await away("2026-03-01T12:00:00.000Z");
    expect(await ticks()).toEqual(expected);
    expect((await api.client.call("listEvents", { query: { limit: 1 } })).pos).toBe(pos);
  });

  test("I21: a long one is one line for what is too old, and one for what is too much", async () => {
    await create({ cron: "* * * * *", catchup_window_minutes: 60, max_catchup_ticks: 2 });
    await away("2026-03-01T19:30:00.000Z");
    expect(await ticks()).toEqual([
      "09:31 catchup_window x539",
      "18:30 catchup_limit x59",
      "19:29 triggered",
      "19:30 triggered",
    ]);
  });

  test("a schedule that begins sixty days ahead has not fired, and then does", async () => {
    await create({ starts_at: "2026-04-30", ends_at: "2026-04-30T02:00:00Z" });
    const { items } = await api.client.call("listNextTimes", { params });
    const times = ["2026-04-30T00:00:00.000Z", "2026-04-30T01:00:00.000Z"];
    expect(items.map(({ scheduled_for }) => scheduled_for)).toEqual(times);
    await away("2026-04-29T23:59:00.000Z");
    expect(await ticks()).toEqual([]);
    expect(await shown()).toMatchObject({ next_due_at: times[0] });
    await away("2026-05-01T00:00:00.000Z");
    expect(await ticks()).toEqual(["00:00 triggered", "01:00 triggered"]);
    expect(await shown()).toMatchObject({ next_due_at: null });
  });
});

describe("a change", () => {
  test("I24: leaves what was decided, and neither doubles nor loses a time", async () => {
    await create();
    await later(HOUR_MS);
    api.jump(HOUR_MS);
    const body = { cron: "15,45 * * * *", asset_selection: ["report"] };
    await api.client.call("updateSchedule", { params, body });
    expect(await ticks()).toEqual(["10:00 triggered", "11:00 triggered"]);
    await later(HOUR_MS);
    expect(await ticks()).toEqual([
      "10:00 triggered",
      "11:00 triggered",
      "11:45 triggered",
      "12:15 triggered",
    ]);
    const { items } = await api.client.call("listTicks", { params });
    expect(items.map(({ definition_version }) => definition_version)).toEqual([3, 3, 2, 2]);
  });

  test("I24: a pause skips what it missed, or leaves it to be caught up", async () => {
    await create();
    await api.client.call("pauseSchedule", { params, body: { reason: "maintenance" } });
    await later(5 * HOUR_MS);
    expect(await ticks()).toEqual([]);
    expect(await shown()).toMatchObject({ reason: "maintenance", next_due_at: null });
    await api.client.call("resumeSchedule", { params, body: { reason: "done" } });
    const skipped = "10 11 12 13 14".split(" ").map((hour) => `${hour}:00 paused`);
    expect(await ticks()).toEqual(skipped);
    const { items } = await api.client.call("listEvents", { query: { type: "ScheduleResumed" } });
    expect(items[0]?.data).toMatchObject({ reason: "done" });

    const body = { ...HOURLY, catch_up_on_resume: true, max_catchup_ticks: 2 };
    await api.client.call("updateSchedule", { params, body });
    await api.client.call("pauseSchedule", { params });
    await later(3 * HOUR_MS);
    await api.client.call("resumeSchedule", { params });
    await api.client.call("tick");
    expect(await ticks()).toEqual([
      ...skipped,
      "15:00 catchup_limit",
      "16:00 triggered",
      "17:00 triggered",
    ]);
  });

  test("of enabled pauses and resumes", async () => {
    await create({ enabled: false });
    expect(await shown()).toMatchObject({ state: "PAUSED", enabled: false });
    const body = { ...HOURLY, enabled: true };
    const changed = await api.client.call("updateSchedule", { params, body });
    expect(changed).toMatchObject({ state: "ACTIVE" });
    const { state, state_version } = await shown();
    expect({ state, state_version }).toEqual({ state: "ACTIVE", state_version: 3 });
    expect(changed.state_version).toBe(state_version);
    const illegal = api.client.call("resumeSchedule", { params });
    await expect(illegal).rejects.toMatchObject({ code: "STATE_ILLEGAL" });
  });
});

describe("a run that is still going", () => {
  test("lets times be skipped under skip", async () => {
    await create({ overlap: "skip" });
    await later(HOUR_MS);
    await later(HOUR_MS);
    await work(api.client, "SUCCEEDED");
    await later(HOUR_MS);
    expect(await ticks()).toEqual(["10:00 triggered", "11:00 overlap", "12:00 triggered"]);
  });

  test("keeps the newest time waiting under buffer_one, which is acted on when it ends", async () => {
    await create({ overlap: "buffer_one" });
    await later(HOUR_MS);
    await later(HOUR_MS);
    expect(await shown()).toMatchObject({ waiting_for: "2026-03-01T11:00:00.000Z" });
    await later(HOUR_MS);
    expect(await ticks()).toEqual(["10:00 triggered"]);
    expect(await shown()).toMatchObject({
      waiting_for: "2026-03-01T12:00:00.000Z",
      active_runs: 1,
    });
    await work(api.client, "FAILED");
    expect(await ticks()).toEqual(["10:00 triggered", "11:00 overlap", "12:00 triggered"]);
    expect(await shown()).toMatchObject({ waiting_for: null, active_runs: 1 });
  });
});

describe("times to come", () => {
  test("I23: are shown with the changes of the clock", async () => {
    const body = { cron: "30 2 * * *", timezone: "Europe/Berlin", count: 3 };
    const spring = await api.client.call("previewTimes", {
      body: { ...body, after: "2026-03-28T00:00:00Z" },
    });
    expect(spring.items).toMatchObject([
      { local_time: "2026-03-28T02:30:00", utc_offset: "+01:00", change: null },
      { local_time: "2026-03-29T03:00:00", utc_offset: "+02:00", change: "gap" },
      { local_time: "2026-03-30T02:30:00", utc_offset: "+02:00", change: null },
    ]);
    const autumn = await api.client.call("previewTimes", {
      body: { ...body, after: "2026-10-24T12:00:00Z", count: 1 },
    });
    expect(autumn.items).toMatchObject([
      { scheduled_for: "2026-10-25T00:30:00.000Z", utc_offset: "+02:00", change: "overlap" },
    ]);
  });

  test("are put off by the jitter, always by the same", async () => {
    await create({ jitter_ms: 600_000 });
    const { items } = await api.client.call("listNextTimes", { params, query: { count: 4 } });
    const offsets = items.map(
      ({ scheduled_for, due_at }) => Date.parse(due_at) - Date.parse(scheduled_for),
    );
    expect(new Set(offsets).size).toBe(1);
    expect(offsets[0]).toBeLessThan(600_000);
    expect(await shown()).toMatchObject({
      next_scheduled_for: items[0]?.scheduled_for,
      next_due_at: items[0]?.due_at,
    });
  });
});

describe("what cannot be", () => {
  const orders = { asset_selection: ["sales/orders"] };
  const tenants = { asset_selection: ["tenants"] };
  const explicit = { type: "explicit", partition_keys: [] };

  test.each<[string, object, number, string, string]>([
    ["a bad cron", { cron: "61 * * * *" }, 400, "DEFINITION_INVALID", "cron expression that is"],
    ["a day that never comes", { cron: "0 0 30 2 *" }, 400, "DEFINITION_INVALID", "no day of any"],
    ["no zone", { timezone: "Mars/Base" }, 400, "DEFINITION_INVALID", '"Mars/Base", which is none'],
    ["no asset", { asset_selection: ["reprot"] }, 400, "DEFINITION_INVALID", "perhaps report is"],
    ["no assets", { asset_selection: [] }, 400, "INPUT_INVALID", "at least 1 items"],
    ["partitions unsaid", orders, 400, "DEFINITION_INVALID", "so it must say which"],
    [
      "partitions of none",
      { selection: { type: "all" } },
      400,
      "DEFINITION_INVALID",
      "assets that have none",
    ],
    [
      "a time without times",
      { ...tenants, selection: { type: "tick_time" } },
      400,
      "DEFINITION_INVALID",
      "no time dimension",
    ],
    ["no keys", { ...orders, selection: explicit }, 400, "INPUT_INVALID", "partition_keys"],
    [
      "assets that differ",
      { asset_selection: ["report", "sales/orders"] },
      400,
      "DEFINITION_INVALID",
      "whose partitions differ",
    ],
    [
      "an end before the start",
      { starts_at: "2026-05-01", ends_at: "2026-04-01" },
      400,
      "DEFINITION_INVALID",
      "not before its end",
    ],
    ["no instant", { starts_at: "soon" }, 400, "INPUT_INVALID", "2026-01-31T08:00:00Z"],
    ["the far future", { starts_at: "9999-12-31" }, 400, "DEFINITION_INVALID", "year 9999"],
    ["an unknown field", { timezon: "UTC" }, 400, "INPUT_INVALID", "did you mean timezone?"],
    ["too many", { max_catchup_ticks: 101 }, 400, "INPUT_INVALID", "at most 100"],
    ["a bad name", { name: "not a name" }, 400, "INPUT_INVALID", "body.name"],
    ["a name taken", { name: "taken" }, 409, "NAME_TAKEN", "already, made by the API"],
  ])("%s is refused with a sentence", async (_what, changes, status, code, sentence) => {
    await create({ name: "taken" });
    const body = { ...HOURLY, ...changes };
    const headers = { "idempotency-key": "bad" };
    const response = await api.send("POST", BASE, { body, headers });
    await checkAnswer("POST", BASE, response.clone());
    const problem = (await response.json()) as { code: string; detail: string };
    expect({ status: response.status, ...problem }).toMatchObject({ status, code });
    expect(problem.detail).toContain(sentence);
    expect((await api.client.call("listSchedules")).items).toHaveLength(1);
    expect(api.logged).toEqual([]);
  });

  test.each<[string, string, number, unknown?]>([
    ["GET", "/nope", 404],
    ["DELETE", "/nope", 404],
    ["PUT", "/nope", 404, { cron: "@daily", asset_selection: ["report"] }],
    ["PUT", "/hourly", 400, { cron: "@daily" }],
    ["PUT", "/hourly", 400],
    ["PATCH", "/hourly", 405],
    ["GET", "/nope/ticks", 404],
    ["GET", "/hourly/ticks?status=DONE", 400],
    ["GET", "/hourly/ticks?reason=bored", 400],
    ["GET", "/hourly/ticks?cursor=x", 400],
    ["GET", "/hourly/next?count=0", 400],
    ["GET", "/hourly/next?count=1001", 400],
    ["GET", "/hourly/next?after=then", 400],
    ["GET", "/hourly/next?after=9999-12-31T23:59:59Z", 200],
    ["GET", "/hourly/next?after=0000-01-01", 200],
    ["DELETE", "/hourly?expected_state_version=0", 400],
    ["POST", "/hourly/trigger", 400, {}],
    ["POST", "/nope/pause", 404, {}],
    ["POST", "/hourly/resume", 409, {}],
    ["POST", "/preview", 400, { cron: "x" }],
    ["POST", "/preview", 400, { cron: "@daily", timezone: "Nowhere" }],
    ["POST", "/preview", 200, { cron: "@daily" }],
    ["GET", "?status=SLEEPING", 400],
    ["GET", "?asset=%20", 400],
  ])("%s %s answers %i", async (method, path, status, body?) => {
    await create();
    const response = await api.send(method, BASE + path, body === undefined ? {} : { body });
    expect(response.status).toBe(status);
    const [pathname = ""] = (BASE + path).split("?");
    await checkAnswer(method, pathname, response);
    expect(api.logged).toEqual([]);
  });
});

test("a time that jitter would put off beyond the year 9999 is none", async () => {
  const starts_at = "9998-12-31T23:59:59.999Z";
  await create({ cron: "59 59 23 31 12 *", starts_at, jitter_ms: 24 * HOUR_MS });
  expect((await shown()).next_scheduled_for).toBeNull();
  const query = { after: "9999-12-31T23:00:00Z" };
  const { items } = await api.client.call("listNextTimes", { params, query });
  expect(items).toEqual([]);
});
